//! The adopted containers, by id: containers without the label that an operator asked to govern, until they are removed or disowned.
//!
//! Guarantees: changes are on disk before the call returns.

use super::{Store, StoreError, number, rows};
use model::{Adoption, ContainerId};
use rusqlite::{Row, params};
use std::collections::BTreeMap;

impl Store {
    /// Records that a container is adopted, replacing an earlier record.
    pub fn adopt(&mut self, id: &ContainerId, adoption: &Adoption) -> Result<(), StoreError> {
        let labels = serde_json::to_string(&adoption.labels).expect("a map of strings always serialises");
        self.durably("save an adopted container", |connection| {
            connection.execute(
                "INSERT OR REPLACE INTO adopted VALUES (?1, ?2, ?3, ?4)",
                params![id.as_str(), adoption.name, number(adoption.unix_ms), labels],
            )
        })
    }

    /// Deletes the record of an adopted container.
    pub fn disown(&mut self, id: &ContainerId) -> Result<(), StoreError> {
        self.durably("delete an adopted container", |connection| {
            connection.execute("DELETE FROM adopted WHERE id = ?1", [id.as_str()])
        })
    }

    /// Returns all adopted containers; damaged rows are left out, so those containers are not governed.
    pub fn adopted(&self) -> Result<BTreeMap<ContainerId, Adoption>, StoreError> {
        let read = rows(&self.connection, "SELECT * FROM adopted", |row| Ok(parsed(row)));
        Ok(read.map_err(|error| self.error("read the adopted containers", error))?.into_iter().flatten().collect())
    }
}

fn parsed(row: &Row<'_>) -> Option<(ContainerId, Adoption)> {
    let text = |column: &str| row.get::<_, String>(column).ok();
    let labels = serde_json::from_str(&text("labels")?).ok()?;
    let unix_ms = u64::try_from(row.get::<_, i64>("unix_ms").ok()?).ok()?;
    Some((ContainerId::new(&text("id")?), Adoption { name: text("name")?, unix_ms, labels }))
}
