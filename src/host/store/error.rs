//! What can go wrong with the state on disk, in words that end with the next step. Imports: std, rusqlite's codes.

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// The state could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory cannot be made or used.
    #[error("state directory {}: {operation}: {source}; name a writable one with --state-dir", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
    /// Another daemon has it.
    #[error(
        "state directory {}: in use by {holder}; stop that one, or give this one its own --state-dir",
        path.display()
    )]
    InUse {
        /// Which.
        path: PathBuf,
        /// `process 123`, as far as the lock file says.
        holder: String,
    },
    /// Written by a later version.
    #[error(
        "{}: written by a later flowcond (schema {found}, this one knows {known}); \
         run that version, or restore with it and move the file away",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The latest that is known here.
        known: i64,
    },
    /// The file system is full.
    #[error("{}: {operation}: no space left; free some on its file system (df shows it)", path.display())]
    Full {
        /// The database.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
    },
    /// The file system or the file cannot be written.
    #[error(
        "{}: {operation}: read-only; name another --state-dir, or make it writable: \
         for a service of systemd with ReadWritePaths= in a drop-in (flowctl help operations, UNIT)",
        path.display()
    )]
    ReadOnly {
        /// The database.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
    },
    /// The content is broken; the next [`super::Store::open`] sets it aside.
    #[error("{}: {operation}: the database is damaged; restart flowcond to set it aside and begin anew", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
    },
    /// Anything else that SQLite says.
    #[error("{}: {operation}: {source}; see that the disk is well (dmesg) and the file belongs to root", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// SQLite's words.
        source: rusqlite::Error,
    },
}

impl StoreError {
    pub(super) fn directory(path: &Path, operation: &'static str, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path: path.to_owned(), operation },
            _ => StoreError::Directory { path: path.to_owned(), operation, source },
        }
    }

    pub(super) fn sqlite(path: &Path, operation: &'static str, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { path, operation },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path, operation },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged { path, operation },
            _ => StoreError::Sqlite { path, operation, source },
        }
    }

    /// Whether the content is broken, rather than the disk or the way to it.
    pub fn is_damage(&self) -> bool {
        matches!(self, StoreError::Damaged { .. })
    }
}
