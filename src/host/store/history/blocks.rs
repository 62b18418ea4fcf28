//! Blocks of time with a holdback: written when they are over, read for the report. Imports: model, rusqlite.

use super::read::{HistoryReader, natural};
use super::write::stored;
use crate::host::store::StoreError;
use crate::model::{BlockWork, CpuTime, Millis, PastBlock, Span};
use rusqlite::{Connection, Result, params};

/// Writes a block; one that was written before, by a daemon that went on within it, is replaced.
pub(super) fn write_block(connection: &Connection, block: &PastBlock) -> Result<()> {
    let at = stored(block.from_unix_ms);
    let sql = "INSERT OR REPLACE INTO block (at, until, plain, span) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![
        at,
        stored(block.until_unix_ms),
        block.plain,
        stored(block.span.0)
    ])?;
    connection.prepare_cached("DELETE FROM work WHERE block = ?1")?.execute([at])?;
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO work (block, job, cpu) VALUES (?1, ?2, ?3)")?;
    for work in &block.work {
        statement.execute(params![at, stored(work.job), stored(work.cpu.0 / 1000)])?;
    }
    Ok(())
}

/// Drops the blocks that began before `cutoff`.
pub(super) fn drop_blocks(connection: &Connection, cutoff: i64) -> Result<()> {
    connection.execute("DELETE FROM work WHERE block < ?1", [cutoff])?;
    connection.execute("DELETE FROM block WHERE at < ?1", [cutoff]).map(drop)
}

impl HistoryReader {
    /// The blocks that lie within the span, those after `after` only; one more than `limit` where there are more.
    pub fn blocks(&self, span: Span, after: u64, limit: usize) -> std::result::Result<Vec<PastBlock>, StoreError> {
        let query =
            "SELECT at, until, plain, span FROM block WHERE at >= ?1 AND until <= ?2 AND at > ?3 ORDER BY at LIMIT ?4";
        let most = stored(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1));
        let parameters = params![stored(span.since), stored(span.until), stored(after), most];
        let mut blocks = self.rows("read past blocks", query, parameters, |row| {
            Some(PastBlock {
                from_unix_ms: natural(row, 0)?,
                until_unix_ms: natural(row, 1)?,
                plain: row.get(2).ok()?,
                span: Millis(natural(row, 3)?),
                work: Vec::new(),
            })
        })?;
        for block in &mut blocks {
            let query = "SELECT job, cpu FROM work WHERE block = ?1 ORDER BY job";
            block.work = self.rows("read past blocks", query, params![stored(block.from_unix_ms)], |row| {
                Some(BlockWork { job: natural(row, 0)?, cpu: CpuTime(natural(row, 1)?.saturating_mul(1000)) })
            })?;
        }
        Ok(blocks)
    }
}
