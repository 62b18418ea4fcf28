//! Blocks of the holdback experiment: written when they end, deleted when they are old.

use crate::number;
use model::BlockRecord;
use rusqlite::{Connection, Result, params};

/// Writes a block, replacing an earlier record by a daemon that was restarted within the block.
pub(super) fn write_block(connection: &Connection, block: &BlockRecord) -> Result<()> {
    let at = number(block.from_unix_ms);
    let sql = "INSERT OR REPLACE INTO block (at, until, plain, span) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![
        at,
        number(block.until_unix_ms),
        block.plain,
        number(block.span.0)
    ])?;
    connection.prepare_cached("DELETE FROM work WHERE block = ?1")?.execute([at])?;
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO work (block, job, cpu) VALUES (?1, ?2, ?3)")?;
    for work in &block.work {
        statement.execute(params![at, number(work.job), number(work.cpu.0 / 1000)])?;
    }
    Ok(())
}

/// Deletes the blocks that began before `cutoff`.
pub(super) fn delete_blocks(connection: &Connection, cutoff: i64) -> Result<()> {
    connection.execute("DELETE FROM work WHERE block < ?1", [cutoff])?;
    connection.execute("DELETE FROM block WHERE at < ?1", [cutoff]).map(drop)
}
