//! One scope's folder, open: everything in it is reached through the descriptor, for its name is its owner's to change.

use super::Scope;
use super::record::{self, LONGEST_RECORD, OUTPUT, RECORD};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(super) const NEW_RECORD: &str = ".scope.json.new";

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder { fd: rustix::fs::open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the lock that the scope's `flowctl` holds while it lives.
    pub(super) fn lock(&self) -> bool {
        rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    pub(super) fn unlock(&self) {
        let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
    }

    /// Whether its path still leads to it.
    pub(super) fn stands(&self) -> bool {
        let (Ok(open), Ok(named)) = (rustix::fs::fstat(&self.fd), fs::symlink_metadata(&self.path)) else {
            return false;
        };
        (open.st_dev, open.st_ino) == (named.dev(), named.ino())
    }

    pub(super) fn owner(&self) -> Option<u32> {
        rustix::fs::fstat(&self.fd).ok().map(|stat| stat.st_uid)
    }

    /// What it says about its scope, if it was written by the folder's owner during this start of the machine.
    pub(super) fn scope(&self, boot_id: Option<&str>) -> Option<Scope> {
        let owner = self.owner()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, RECORD, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_uid == owner;
        if !plain || stat.st_size > LONGEST_RECORD as i64 {
            return None;
        }
        let mut text = Vec::new();
        File::from(file).take(LONGEST_RECORD as u64).read_to_end(&mut text).ok()?;
        record::read(&text, &self.path, owner, boot_id)
    }

    /// Removes what `flowctl run` puts into a folder, and nothing else.
    pub(super) fn empty(&self) {
        for name in [RECORD, NEW_RECORD, OUTPUT, "output.log.1"] {
            let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
        }
    }

    /// Removes it, unless something else is in it.
    pub(super) fn remove(&self) {
        self.empty();
        if self.stands() {
            let _ = fs::remove_dir(&self.path);
        }
    }
}
