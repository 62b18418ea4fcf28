//! Errors of the state on disk; each message but that of damage ends with the next step.

use model::ContainerId;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// The state could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory cannot be created or used.
    #[error("state directory {}: {operation}: {source}; choose a writable one with --state-dir", path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// The operation.
        operation: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// This user may not use the directory.
    #[error("state directory {}: {operation}: permission denied; run flowcond as root, or choose another one with --state-dir", path.display())]
    Denied {
        /// Path of the directory.
        path: PathBuf,
        /// The operation.
        operation: &'static str,
    },
    /// Another daemon uses the directory.
    #[error(
        "state directory {}: in use by {holder}; stop that daemon, or use another --state-dir",
        path.display()
    )]
    InUse {
        /// Path of the directory.
        path: PathBuf,
        /// `process 123`, if the lock file says so.
        holder: String,
    },
    /// The database was written by a later version.
    #[error(
        "{}: written by a later flowcond (schema {found}, supported: {known}); \
         run that version, or move the file away, the journal only after restoring the limits with that version",
        path.display()
    )]
    Newer {
        /// Path of the database.
        path: PathBuf,
        /// Schema version of the database.
        found: i64,
        /// Latest supported schema version.
        known: i64,
    },
    /// The file system is full.
    #[error("{}: {operation}: no space left; free some space on its file system (see df)", path.display())]
    Full {
        /// Path of the database.
        path: PathBuf,
        /// The operation.
        operation: &'static str,
    },
    /// The file system or the file cannot be written.
    #[error(
        "{}: {operation}: read-only; use another --state-dir, or make this one writable: \
         for a systemd service with ReadWritePaths= in a drop-in (flowctl help operations, UNIT)",
        path.display()
    )]
    ReadOnly {
        /// Path of the database.
        path: PathBuf,
        /// The operation.
        operation: &'static str,
    },
    /// The database is damaged; the next time it is opened, it is set aside. The next step depends on what is in it.
    #[error("{}: {operation}: the database is damaged", path.display())]
    Damaged {
        /// Path of the database.
        path: PathBuf,
        /// The operation.
        operation: &'static str,
    },
    /// The row of one container has invalid values; the others are valid.
    #[error(
        "{}: the original limits of container {id} are lost, because their record is damaged; restart flowcond, which then leaves \
         the container alone; set its limits, then `flowctl govern {id}`",
        path.display()
    )]
    DamagedRow {
        /// Path of the database.
        path: PathBuf,
        /// The container.
        id: ContainerId,
    },
    /// There is no history yet, or it is being brought up to date.
    #[error("{}: not ready yet; try again in some seconds; if it stays so, `flowctl status` shows the problem", path.display())]
    NotReady {
        /// Path of the database.
        path: PathBuf,
    },
    /// Any other error of SQLite.
    #[error("{}: {operation}: {source}; check that the disk works (dmesg) and that root owns the file", path.display())]
    Sqlite {
        /// Path of the database.
        path: PathBuf,
        /// The operation.
        operation: &'static str,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
}

impl StoreError {
    pub(super) fn directory(path: &Path, operation: &'static str, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path: path.to_owned(), operation },
            std::io::ErrorKind::PermissionDenied => StoreError::Denied { path: path.to_owned(), operation },
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

    /// Whether the database is damaged, as opposed to a problem of the disk or file system.
    pub fn is_damage(&self) -> bool {
        matches!(self, StoreError::Damaged { .. })
    }
}
