//! Persistent state of the daemon: one SQLite file with the journal of originals and of freezable jobs, the adopted containers, what
//! users have used, and the read positions of logs; and records of the governed commands of `flowctl run`.
//!
//! Guarantees: one process at a time; data about limits is on disk before the call returns; a damaged file is set aside, never deleted;
//! data that is read is validated. Calls block on the disk: do not make them on the daemon's event loop.

mod adopted;
mod database;
mod error;
mod freezable;
pub mod history;
mod lock;
mod originals;
mod positions;
mod prior_runs;
mod schema;
mod scopes;
mod uses;

pub use error::StoreError;
pub use freezable::Freezable;
pub use originals::{Original, Originals};
pub use positions::{ApiMark, LogPlace, ReadPosition};
pub use prior_runs::{PRIOR_RUNS_KEPT, RUNS_KEPT};
pub use scopes::{ScopeRecord, ScopeRecords};
pub use uses::{USERS_KEPT, UserUse};

use lock::Lock;
use rusqlite::{Connection, Row};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const DATABASE: &str = "flowcon.db";
/// Exists from before a damaged database is set aside until the new one has recorded the loss.
const LOSS: &str = "flowcon.db.loss";
/// Damaged databases are all kept: each may hold originals.
const COPIES: u32 = u32::MAX;
/// Page cache of SQLite in KiB; small, because rows are rewritten often and hardly ever read.
const CACHE_KIB: i64 = 128;

/// An open state directory. Dropping it releases the lock.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    _lock: Lock,
}

/// The result of opening a state directory.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// New path of a damaged database; see [`Store::lost_at`].
    pub set_aside: Option<PathBuf>,
}

impl Store {
    /// Opens the state in `directory`, which is created if necessary (mode 0700).
    pub fn open(directory: &Path) -> Result<Opened, StoreError> {
        let directory = database::directory(directory)?;
        let lock = Lock::take(&directory)?;
        let path = directory.join(DATABASE);
        let loss = directory.join(LOSS);
        let at_damage =
            || announce_loss(&loss).map_err(|source| StoreError::directory(&loss, "record a loss in", source));
        let prepare = |connection: &Connection| prepare(&path, connection);
        let (connection, mut set_aside) = database::open(&path, prepare, &schema::STEPS, COPIES, at_damage)?;
        let mut store = Store { connection, path: path.clone(), _lock: lock };
        // It also exists if an earlier process ended, or the disk was full, before the loss was recorded.
        if loss.exists() {
            store.record_loss()?;
            fs::remove_file(&loss).map_err(|source| StoreError::directory(&loss, "delete", source))?;
            set_aside.get_or_insert_with(|| database::last_set_aside(&path));
        }
        Ok(Opened { store, set_aside })
    }

    /// Returns the path of the database in `directory`.
    pub fn file(directory: &Path) -> PathBuf {
        directory.join(DATABASE)
    }

    /// Whether `directory` contains a database that was ever written to, or lost one.
    pub fn is_there(directory: &Path) -> Result<bool, StoreError> {
        let length = |name: &str| match fs::metadata(directory.join(name)) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::directory(directory, "look for its journal", source)),
        };
        Ok(length(DATABASE)?.is_some_and(|length| length > 0) || length(LOSS)?.is_some())
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn record_loss(&mut self) -> Result<(), StoreError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        self.durably("record that a database was damaged", |connection| {
            connection.execute("INSERT INTO loss VALUES (?1)", [number(now)])
        })
    }

    /// Returns when the latest damaged database was set aside, Unix milliseconds. The originals in it are lost: containers that existed then
    /// may have our limits, also after a restart, and must be left alone until an operator decides.
    pub fn lost_at(&self) -> Result<Option<u64>, StoreError> {
        let latest = self.connection.query_row("SELECT max(unix_ms) FROM loss", [], |row| row.get::<_, Option<i64>>(0));
        let latest = latest.map_err(|error| self.error("read when a database was damaged", error))?;
        Ok(latest.and_then(|unix_ms| u64::try_from(unix_ms).ok()))
    }

    /// Runs `change`, and returns when it is on disk.
    fn durably<T>(
        &mut self,
        operation: &'static str,
        change: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<(), StoreError> {
        self.synchronous("FULL", operation, change)
    }

    /// Runs `change` without waiting for the disk; a crash of this process loses nothing, but a power failure may.
    fn lazily<T>(
        &mut self,
        operation: &'static str,
        change: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<(), StoreError> {
        self.synchronous("NORMAL", operation, change)
    }

    fn synchronous<T>(
        &mut self,
        level: &str,
        operation: &'static str,
        change: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<(), StoreError> {
        let done =
            self.connection.pragma_update(None, "synchronous", level).and_then(|()| change(&mut self.connection));
        done.map(drop).map_err(|error| self.error(operation, error))
    }

    fn error(&self, operation: &'static str, source: rusqlite::Error) -> StoreError {
        StoreError::sqlite(&self.path, operation, source)
    }
}

/// Creates the file that announces a loss, on disk when this returns.
fn announce_loss(loss: &Path) -> std::io::Result<()> {
    File::create(loss)?.sync_all()?;
    File::open(loss.parent().unwrap_or(loss))?.sync_all()
}

/// Prepares the database, and checks it before anything in it is trusted.
fn prepare(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let at = |operation: &'static str| move |source: rusqlite::Error| StoreError::sqlite(path, operation, source);
    let journal = || {
        // Our lock excludes other processes. In exclusive mode, SQLite keeps the index of the WAL in memory, so that it can be read on a
        // full disk.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "synchronous", "FULL")
    };
    journal().map_err(at("prepare"))?;
    // An index that does not agree with its table could hide an original. The file is small, so this takes milliseconds.
    database::check(path, connection, "integrity_check")
}

/// Converts to a signed integer for SQLite; larger values are clamped.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn rows<T>(
    connection: &Connection,
    query: &str,
    each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(query)?.query_map([], each)?.collect()
}
