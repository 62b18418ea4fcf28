//! Keeping the history within its bounds: what is old is thinned, then dropped. Imports: rusqlite.

use super::blocks::drop_blocks;
use super::codes::stored;
use super::{HistoryStore, StoreError};
use rusqlite::{Connection, Result, params};

/// Beyond this age, samples that are no turns are thinned to one in [`THIN_TO_MS`], and what was written is no longer told.
const THIN_AFTER_MS: u64 = 24 * 3_600_000;
/// Two minutes.
const THIN_TO_MS: u64 = 120_000;
/// Jobs thinned in one call, so that no call takes long.
const THINNED_AT_ONCE: usize = 64;
/// Trimming for size goes on until this part of the bound is left.
const ROOM: f64 = 0.9;
/// A step of trimming for size drops this part of the time that is kept.
const STEP: f64 = 0.05;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// What is older is dropped, milliseconds.
    pub max_age_ms: u64,
    /// Bytes of the database.
    pub max_bytes: u64,
}

impl HistoryStore {
    /// Bytes of the database that are in use.
    pub fn bytes(&self) -> std::result::Result<u64, StoreError> {
        used(&self.connection).map_err(|error| self.error("measure the history", error))
    }

    /// One step towards the bounds; `true` = another one is needed. `now` is Unix time in milliseconds.
    pub fn trim(&mut self, limits: &HistoryLimits, now: u64) -> std::result::Result<bool, StoreError> {
        self.words.clear(); // some of them may go
        trim(&mut self.connection, limits, now).map_err(|error| self.error("trim the history", error))
    }
}

fn trim(connection: &mut Connection, limits: &HistoryLimits, now: u64) -> Result<bool> {
    drop_before(connection, stored(now.saturating_sub(limits.max_age_ms)))?;
    let more_to_thin = thin(connection, stored(now.saturating_sub(THIN_AFTER_MS)))?;
    let bound = (limits.max_bytes as f64 * ROOM) as u64;
    let too_large = used(connection)? > bound;
    if too_large && !more_to_thin {
        let oldest = "SELECT MIN(at) FROM (SELECT MIN(kept) AS at FROM job UNION ALL SELECT MIN(at) FROM node UNION ALL SELECT MIN(at) FROM event)";
        let oldest: Option<i64> = connection.query_row(oldest, [], |row| row.get(0))?;
        let Some(oldest) = oldest else { return Ok(false) };
        let kept = stored(now).saturating_sub(oldest).max(20_000);
        drop_before(connection, oldest.saturating_add((kept as f64 * STEP) as i64))?;
    }
    give_back(connection)?;
    Ok(more_to_thin || (too_large && used(connection)? > bound))
}

/// Gives free pages back to the file system: one for each step of the statement.
fn give_back(connection: &Connection) -> Result<()> {
    let mut statement = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Pages in use; those on the free list are given back or used again.
fn used(connection: &Connection) -> Result<u64> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let bytes = (pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Drops everything before `cutoff`. What stood at the cutoff is told by the next sample only.
fn drop_before(connection: &mut Connection, cutoff: i64) -> Result<()> {
    let oldest = "SELECT EXISTS (SELECT 1 FROM job WHERE kept < ?1) OR EXISTS (SELECT 1 FROM node WHERE at < ?1) \
                  OR EXISTS (SELECT 1 FROM event WHERE at < ?1) OR EXISTS (SELECT 1 FROM block WHERE at < ?1)";
    if !connection.query_row(oldest, [cutoff], |row| row.get::<_, bool>(0))? {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for table in ["sample", "fresh"] {
        let gone = format!("DELETE FROM {table} WHERE job IN (SELECT number FROM job WHERE last < ?1)");
        transaction.execute(&gone, [cutoff])?;
        let cut = format!(
            "DELETE FROM {table} WHERE (job, at) IN (SELECT {table}.job, {table}.at FROM job JOIN {table} ON {table}.job = number \
             WHERE kept < ?1 AND {table}.at < ?1 - first)"
        );
        transaction.execute(&cut, [cutoff])?;
    }
    transaction.execute("DELETE FROM job WHERE last < ?1", [cutoff])?;
    transaction.execute("UPDATE job SET kept = ?1 WHERE kept < ?1", [cutoff])?;
    transaction.execute("DELETE FROM node WHERE at < ?1", [cutoff])?;
    transaction.execute("DELETE FROM event WHERE at < ?1", [cutoff])?;
    drop_blocks(&transaction, cutoff)?;
    transaction.execute(
        "DELETE FROM word WHERE number NOT IN (SELECT text FROM moment WHERE text IS NOT NULL UNION SELECT hold FROM moment \
         WHERE hold IS NOT NULL UNION SELECT text FROM fresh WHERE text IS NOT NULL UNION SELECT hold FROM fresh WHERE hold IS NOT NULL)",
        [],
    )?;
    transaction.commit()
}

/// Thins some jobs' samples before `cutoff`; `true` = others wait.
fn thin(connection: &mut Connection, cutoff: i64) -> Result<bool> {
    // An hour at least, so that a job that lives for days is not gone through again and again.
    let due = "SELECT number, MAX(thinned, first) - first, MIN(?1, last + 1) - first FROM job \
               WHERE thinned <= last AND MAX(thinned, first) + 3600000 < ?1 ORDER BY number LIMIT ?2";
    let limit = i64::try_from(THINNED_AT_ONCE).unwrap_or(i64::MAX);
    let jobs: Vec<(i64, i64, i64)> = connection
        .prepare_cached(due)?
        .query_map(params![cutoff, limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_>>()?;
    let transaction = connection.transaction()?;
    for (job, from, to) in &jobs {
        let sql = "DELETE FROM moment WHERE job = ?1 AND at >= ?2 AND at < ?3 AND flags & 2 = 0 AND at NOT IN \
                   (SELECT MAX(at) FROM moment WHERE job = ?1 AND at >= ?2 AND at < ?3 GROUP BY at / ?4)";
        transaction.prepare_cached(sql)?.execute(params![job, from, to, stored(THIN_TO_MS)])?;
        transaction.prepare_cached("UPDATE job SET thinned = ?2 WHERE number = ?1")?.execute(params![job, cutoff])?;
    }
    transaction.execute("DELETE FROM event WHERE at < ?1 AND kind IN (2, 3)", [cutoff])?;
    transaction.commit()?;
    Ok(jobs.len() == THINNED_AT_ONCE)
}
