//! Cgroups that flowcon may freeze, recorded before the first freeze, so that they can be thawed after any failure of the daemon.
//!
//! Separate from the journal of originals. A limit has an original that must be read and kept, and a value that stays until someone changes
//! it. A freeze comes and goes several times a second, its original is always "thawed", and thawing too much is harmless. So no single
//! freeze is recorded, only the jobs that may be frozen.
//!
//! Guarantees: a record is on disk before the call returns.

use super::originals::runtime;
use super::{Store, StoreError, rows};
use model::{ContainerId, Runtime, word};
use rusqlite::{Row, params};

/// A job that may be frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freezable {
    /// The container.
    pub id: ContainerId,
    /// Its runtime.
    pub runtime: Runtime,
    /// Its name at that time.
    pub name: String,
    /// The directory with its freezer.
    pub cgroup: String,
    /// `/proc/sys/kernel/random/boot_id` at that time.
    pub boot_id: String,
    /// Whether its engine is known to have paused it since: only the engine may thaw it then.
    pub is_paused: bool,
}

impl Store {
    /// Records that a job may be frozen from now on, or that its engine has paused it.
    pub fn record_freezable(&mut self, job: &Freezable) -> Result<(), StoreError> {
        let Freezable { id, runtime, name, cgroup, boot_id, is_paused } = job;
        self.durably("save a freezable job", |connection| {
            connection.execute(
                "INSERT OR REPLACE INTO freezable VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![id.as_str(), word(runtime), name, cgroup, boot_id, is_paused],
            )
        })
    }

    /// Deletes the record of a job that is thawed and will not be frozen again.
    pub fn forget_freezable(&mut self, id: &ContainerId) -> Result<(), StoreError> {
        self.durably("delete a freezable job", |connection| {
            connection.execute("DELETE FROM freezable WHERE id = ?1", [id.as_str()])
        })
    }

    /// Returns all jobs that may be frozen; rows with invalid values are left out.
    pub fn freezable(&self) -> Result<Vec<Freezable>, StoreError> {
        let read = rows(&self.connection, "SELECT * FROM freezable ORDER BY id", |row| Ok(parsed(row)));
        Ok(read.map_err(|error| self.error("read the freezable jobs", error))?.into_iter().flatten().collect())
    }
}

fn parsed(row: &Row<'_>) -> Option<Freezable> {
    let text = |column: &str| row.get::<_, String>(column).ok();
    let cgroup = text("cgroup").filter(|path| path.starts_with('/') && !path.split('/').any(|part| part == ".."))?;
    let is_paused = row.get::<_, i64>("paused").ok()? != 0;
    let id = ContainerId::new(&text("id")?);
    let runtime = runtime(&text("runtime")?)?;
    Some(Freezable { id, runtime, name: text("name")?, cgroup, boot_id: text("boot_id")?, is_paused })
}
