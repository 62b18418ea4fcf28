//! What may be frozen by us: noted before the first freeze, so that whatever happens to the daemon somebody knows what to thaw.
//!
//! A record of its own beside the journal of originals. A limit has an original that must be read and kept, and a value that stands until
//! somebody changes it; a freeze comes and goes several times a second, its original is always "thawed", and thawing too much is
//! harmless. So nothing of each single freeze is written, only whose turn may come.
//!
//! Guarantees: what is noted is on the disk before the call returns. Imports: model, rusqlite.

use super::originals::{runtime, runtime_word};
use super::{Store, StoreError, rows};
use crate::model::{ContainerId, Runtime};
use rusqlite::{Row, params};

/// A job that may be frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freezable {
    /// Which.
    pub id: ContainerId,
    /// What runs it.
    pub runtime: Runtime,
    /// Its name then.
    pub name: String,
    /// The directory that has its freezer.
    pub cgroup: String,
    /// `/proc/sys/kernel/random/boot_id` then.
    pub boot_id: String,
    /// Its engine has paused it since, as far as is known: the engine's to thaw.
    pub is_paused: bool,
}

impl Store {
    /// Notes that a job may be frozen from now on, or that its engine has paused it.
    pub fn note_freezable(&mut self, job: &Freezable) -> Result<(), StoreError> {
        let Freezable { id, runtime, name, cgroup, boot_id, is_paused } = job;
        self.durably("note what may be frozen", |connection| {
            connection.execute(
                "INSERT OR REPLACE INTO freezable VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![id.as_str(), runtime_word(*runtime), name, cgroup, boot_id, is_paused],
            )
        })
    }

    /// Forgets one that is thawed and will not be frozen.
    pub fn forget_freezable(&mut self, id: &ContainerId) -> Result<(), StoreError> {
        self.durably("forget what is thawed", |connection| {
            connection.execute("DELETE FROM freezable WHERE id = ?1", [id.as_str()])
        })
    }

    /// All that may be frozen; rows with impossible values are left out.
    pub fn freezable(&self) -> Result<Vec<Freezable>, StoreError> {
        let read = rows(&self.connection, "SELECT * FROM freezable ORDER BY id", |row| Ok(parsed(row)));
        Ok(read.map_err(|error| self.error("read what may be frozen", error))?.into_iter().flatten().collect())
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
