//! One process at a time in a state directory. Imports: rustix.
//!
//! A file of its own, because closing any handle of the database's file would drop SQLite's locks on it. The kernel
//! releases the lock when its holder dies, however it dies.

use super::StoreError;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

const LOCK: &str = "lock";

/// Held while the file is open.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of `directory` and writes who holds it.
    pub(super) fn take(directory: &Path) -> Result<Lock, StoreError> {
        let failed =
            |operation: &'static str| move |error: std::io::Error| StoreError::directory(directory, operation, error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = open(directory.join(LOCK), flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(file.map_err(|errno| failed("open its lock")(errno.into()))?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(StoreError::InUse { path: directory.to_owned(), holder: holder(&mut file) });
            }
            Err(errno) => return Err(failed("lock")(errno.into())),
        }
        // Only for the message above; a full disk must not keep `restore` from working.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Lock { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut pid = String::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(20).read_to_string(&mut pid));
    match (read, pid.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}
