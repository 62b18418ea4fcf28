//! Migrates a database to the current schema version, step by step, in one transaction. Imports: rusqlite.

use rusqlite::{Connection, Result};

/// Returns the schema version of an open database; 0 = empty.
pub(super) fn version(connection: &Connection) -> Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Migrates the database from version `found` to the last of `steps`, with one step per version.
pub(super) fn migrate(connection: &mut Connection, found: i64, steps: &[&str]) -> Result<()> {
    let missing = usize::try_from(found).unwrap_or(0)..steps.len();
    if missing.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for step in &steps[missing] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", steps.len() as i64)?;
    transaction.commit()
}
