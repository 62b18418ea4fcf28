//! Where a log is: a file of the host, a file inside a container, or memory that its owner handed over.

use super::open::{ContainerFile, TailError, open_on_host};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a log is found.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file on the host, such as the engine's log of a container.
    Host(PathBuf),
    /// A file inside a container.
    Inside(ContainerFile),
    /// Memory of its owner, who handed it over: it has no name, only grows, and keeps its newest part.
    Handed(Arc<File>),
}

impl Source {
    pub(super) fn path(&self) -> &Path {
        match self {
            Source::Host(path) => path,
            Source::Inside(file) => file.path(),
            Source::Handed(_) => Path::new("the output that was handed over"),
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

/// How far a log has been read: a file, not a name, and a byte offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file system's device number.
    pub device: u64,
    /// The file's number on it.
    pub inode: u64,
    /// When it was made, Unix nanoseconds: a later file may get the same number. 0 = the file system does not say.
    pub born_ns: u64,
    /// Bytes read.
    pub offset: u64,
}
