//! The history: jobs, samples, the node and events, in a separate SQLite file.
//!
//! Guarantees: it is never in the journal's database, so that the history cannot harm a restore; a damaged file is set aside, and the
//! first two are never deleted; nothing is mapped into memory, so that a disk failure is an error and not a signal. A crash of the machine
//! may lose the last seconds. Calls block on the disk, so they belong in a separate thread.

mod blocks;
mod codes;
mod read;
mod schema;
mod trim;
mod users;
mod write;

pub use read::HistoryReader;
pub use trim::HistoryLimits;
pub use write::HistoryBatch;

use super::{StoreError, database};
use model::JobRecord;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DATABASE: &str = "history.db";
/// Damaged databases that are kept.
const COPIES: u32 = 3;
/// A database of at most this size is checked when it is opened, which takes seconds; damage of a larger one is found when it is used.
const CHECKED_UP_TO: u64 = 512 << 20;
/// Time for which a reader may lock the file before a write fails.
const WAIT_FOR_READERS: Duration = Duration::from_secs(5);

/// The history, open for writing. Only the daemon that holds the state directory writes.
#[derive(Debug)]
pub struct HistoryStore {
    connection: Connection,
    path: PathBuf,
    /// Numbers of recently used texts.
    words: BTreeMap<String, i64>,
}

/// The result of opening a history.
#[derive(Debug)]
pub struct OpenedHistory {
    /// The history.
    pub store: HistoryStore,
    /// New path of a damaged database.
    pub set_aside: Option<PathBuf>,
}

impl HistoryStore {
    /// Opens the history in `directory`, which is created if necessary (mode 0700).
    pub fn open(directory: &Path) -> Result<OpenedHistory, StoreError> {
        let path = database::directory(directory)?.join(DATABASE);
        let failed = |source| StoreError::sqlite(&path, "prepare", source);
        let prepare = |connection: &Connection| {
            prepare(connection).map_err(failed)?;
            let size = fs::metadata(&path).map_or(0, |file| file.len());
            if size <= CHECKED_UP_TO { database::check(&path, connection, "quick_check") } else { Ok(()) }
        };
        let (connection, set_aside) = database::open(&path, prepare, &schema::STEPS, COPIES, || Ok(()))?;
        Ok(OpenedHistory { store: HistoryStore { connection, path, words: BTreeMap::new() }, set_aside })
    }

    /// Returns the number for the next new job.
    pub fn next_job(&self) -> Result<u64, StoreError> {
        let highest = self.connection.query_row("SELECT MAX(number) FROM job", [], |row| row.get::<_, Option<i64>>(0));
        let highest = highest.map_err(|error| self.error("read the history's jobs", error))?;
        Ok(u64::try_from(highest.unwrap_or(0)).unwrap_or(0) + 1)
    }

    /// Returns the jobs without a recorded end.
    pub fn open_jobs(&self) -> Result<Vec<JobRecord>, StoreError> {
        let query = format!("{} WHERE ended IS NULL ORDER BY number", read::JOBS);
        let jobs = super::rows(&self.connection, &query, |row| Ok(read::job_of(row)));
        Ok(jobs.map_err(|error| self.error("read the history's jobs", error))?.into_iter().flatten().collect())
    }

    /// Renames the damaged database in `directory`, which must not be open for writing, and returns its new path.
    pub fn set_aside(directory: &Path) -> Result<PathBuf, StoreError> {
        database::set_aside(&database::directory(directory)?.join(DATABASE), COPIES)
    }

    fn error(&self, operation: &'static str, source: rusqlite::Error) -> StoreError {
        StoreError::sqlite(&self.path, operation, source)
    }
}

/// Returns the inode of the history in `directory`, by which a new one differs from one that was set aside.
pub fn inode(directory: &Path) -> Option<u64> {
    fs::metadata(directory.join(DATABASE)).ok().map(|file| file.ino())
}

/// Page cache of SQLite in KiB; small, because it mainly appends.
const CACHE_KIB: i64 = 256;

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(WAIT_FOR_READERS)?;
    // Must precede the first table to have an effect.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    // A write-ahead log would need its index in mapped memory, where a disk failure kills the process.
    connection.pragma_update(None, "journal_mode", "TRUNCATE")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;
