//! The source of a log: a file on the host, a file inside a container, or memory passed by its owner.

use super::open::{ContainerFile, TailError, open_on_host};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The source of a log.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file on the host, such as the engine's log of a container.
    Host(PathBuf),
    /// A file inside a container.
    Inside(ContainerFile),
    /// Memory passed by its owner as a descriptor: it has no name, only grows, and keeps its newest part.
    Handed(Arc<File>),
}

impl Source {
    pub(super) fn path(&self) -> &Path {
        match self {
            Source::Host(path) => path,
            Source::Inside(file) => file.path(),
            Source::Handed(_) => Path::new("the output of the command"),
        }
    }

    pub(super) fn open(&self) -> Result<File, TailError> {
        match self {
            Source::Host(path) => open_on_host(path),
            Source::Inside(file) => file.open(),
            Source::Handed(file) => file
                .try_clone()
                .map_err(|error| TailError::Open { path: self.path().to_owned(), reason: error.to_string() }),
        }
    }
}

/// Read position in a log: a file, independent of its name, and a byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Creation time, Unix nanoseconds, because a later file may get the same inode. 0 = not supported by the file system.
    pub born_ns: u64,
    /// Bytes read.
    pub offset: u64,
}
