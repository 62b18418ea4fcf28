//! Keeps the history within its limits: old data is thinned, then deleted.

use super::blocks::delete_blocks;
use super::{HistoryStore, StoreError};
use crate::number;
use rusqlite::{Connection, Result, params};

/// Age after which samples that are not turns are thinned to one per [`THIN_TO_MS`], and events of written limits and of list changes are
/// deleted.
const THIN_AFTER_MS: u64 = 24 * 3_600_000;
/// Two minutes.
const THIN_TO_MS: u64 = 120_000;
/// Maximum number of jobs thinned in one call, so that no call takes long.
const THINNED_AT_ONCE: usize = 64;
/// Trimming for size continues until the database is smaller than this fraction of the limit.
const ROOM: f64 = 0.9;
/// Fraction of the recorded time that is deleted in one step of trimming for size.
const STEP: f64 = 0.05;

/// Limits of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Maximum age of records, in milliseconds.
    pub max_age_ms: u64,
    /// Maximum size of the database, in bytes.
    pub max_bytes: u64,
}

impl HistoryStore {
    /// Returns the used size of the database, in bytes.
    pub fn bytes(&self) -> std::result::Result<u64, StoreError> {
        used(&self.connection).map_err(|error| self.error("measure the history", error))
    }

    /// Runs one step of trimming; `true` = another one is needed. `now` is Unix time in milliseconds.
    pub fn trim(&mut self, limits: &HistoryLimits, now: u64) -> std::result::Result<bool, StoreError> {
        self.words.clear(); // trimming may delete some of them
        trim(&mut self.connection, limits, now).map_err(|error| self.error("trim the history", error))
    }
}

fn trim(connection: &mut Connection, limits: &HistoryLimits, now: u64) -> Result<bool> {
    delete_before(connection, number(now.saturating_sub(limits.max_age_ms)))?;
    let more_to_thin = thin(connection, number(now.saturating_sub(THIN_AFTER_MS)))?;
    let bound = (limits.max_bytes as f64 * ROOM) as u64;
    let too_large = used(connection)? > bound;
    if too_large && !more_to_thin {
        let oldest = "SELECT MIN(at) FROM (SELECT MIN(kept) AS at FROM job UNION ALL SELECT MIN(at) FROM node UNION ALL SELECT MIN(at) FROM event)";
        let oldest: Option<i64> = connection.query_row(oldest, [], |row| row.get(0))?;
        let Some(oldest) = oldest else { return Ok(false) };
        let kept = number(now).saturating_sub(oldest).max(20_000);
        delete_before(connection, oldest.saturating_add((kept as f64 * STEP) as i64))?;
    }
    release_pages(connection)?;
    Ok(more_to_thin || (too_large && used(connection)? > bound))
}

/// Releases free pages to the file system: one per step of the statement.
fn release_pages(connection: &Connection) -> Result<()> {
    let mut statement = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Returns the used size in bytes; free pages do not count, because they are released or reused.
fn used(connection: &Connection) -> Result<u64> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let bytes = (pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Deletes everything before `cutoff`. The values at the cutoff are then unknown until the next sample.
fn delete_before(connection: &mut Connection, cutoff: i64) -> Result<()> {
    let oldest = "SELECT EXISTS (SELECT 1 FROM job WHERE kept < ?1) OR EXISTS (SELECT 1 FROM node WHERE at < ?1) \
                  OR EXISTS (SELECT 1 FROM event WHERE at < ?1) OR EXISTS (SELECT 1 FROM block WHERE at < ?1)";
    if !connection.query_row(oldest, [cutoff], |row| row.get::<_, bool>(0))? {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for table in ["moment", "fresh"] {
        let gone = format!("DELETE FROM {table} WHERE job IN (SELECT number FROM job WHERE last < ?1)");
        transaction.execute(&gone, [cutoff])?;
        let cut = format!(
            "DELETE FROM {table} WHERE (job, at) IN (SELECT {table}.job, {table}.at FROM job JOIN {table} ON {table}.job = number \
             WHERE kept < ?1 AND {table}.at < ?1 - first)"
        );
        transaction.execute(&cut, [cutoff])?;
    }
    transaction.execute("DELETE FROM job WHERE last < ?1", [cutoff])?;
    transaction.execute("DELETE FROM former_name WHERE job NOT IN (SELECT number FROM job)", [])?;
    transaction.execute("UPDATE job SET kept = ?1 WHERE kept < ?1", [cutoff])?;
    transaction.execute("DELETE FROM node WHERE at < ?1", [cutoff])?;
    transaction.execute("DELETE FROM event WHERE at < ?1", [cutoff])?;
    delete_blocks(&transaction, cutoff)?;
    transaction.execute(
        "DELETE FROM word WHERE number NOT IN (SELECT text FROM moment WHERE text IS NOT NULL UNION SELECT hold FROM moment \
         WHERE hold IS NOT NULL UNION SELECT text FROM fresh WHERE text IS NOT NULL UNION SELECT hold FROM fresh WHERE hold IS NOT NULL)",
        [],
    )?;
    transaction.commit()
}

/// Thins the samples before `cutoff` of some jobs; `true` = there are more jobs.
fn thin(connection: &mut Connection, cutoff: i64) -> Result<bool> {
    // At least one hour per step, so that a job that runs for days is not processed repeatedly.
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
        transaction.prepare_cached(sql)?.execute(params![job, from, to, number(THIN_TO_MS)])?;
        transaction.prepare_cached("UPDATE job SET thinned = ?2 WHERE number = ?1")?.execute(params![job, cutoff])?;
    }
    transaction.execute("DELETE FROM event WHERE at < ?1 AND kind IN (2, 3)", [cutoff])?;
    transaction.commit()?;
    Ok(jobs.len() == THINNED_AT_ONCE)
}
