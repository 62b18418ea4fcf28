//! The lock of a state directory, which admits one process at a time.
//!
//! It is a separate file, because closing any handle of the database file would drop SQLite's locks on it. The kernel releases the lock
//! whenever its holder dies.

use super::StoreError;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

const LOCK: &str = "lock";

/// The lock, held while the file is open.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks `directory` and writes the process id into the lock file.
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
        // Used only for the message above; a full disk must not prevent `restore`.
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
