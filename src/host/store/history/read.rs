//! Reading the history: jobs, samples, the node, events, and the values at an instant. Data is validated.

use super::codes::{self, unpacked};
use super::{DATABASE, StoreError, schema};
use crate::{database, number};
use model::{
    BlockRecord, BlockWork, Bytes, ContainerId, CpuTime, CpuWeight, DecisionRecord, Estimate, Event, EventKind,
    GrowthEfficiency, JobRecord, JobSnapshot, Millis, NodeSample, Pressure, Sample, Span, TrialRecord,
};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, Row, ToSql, params};
use serde_json::json;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The columns read by [`job_of`].
pub(super) const JOBS: &str = "SELECT number, id, name, runtime, started, first, last, ended, weight, metric, direction, unit, total, exit_code, ending, \
                                user, sweep, sweep_name, parameters, lost FROM job";

/// Selects the columns read by [`sample_of`], for one job, from both tables; `condition` is added to each `WHERE`, and may order and limit
/// the rows of each table.
pub(super) fn samples_where(condition: &str) -> String {
    let from = |table: &str| {
        format!(
            "SELECT * FROM (SELECT at, cpu, memory, value, progress, quality, weight, flags, hold, share, bound, growth, rule, a, b, \
             text, gpus, gpu_memory, growth_memory, growth_block, growth_network, left_low, left_likely, left_high, energy FROM {table} WHERE job = ?1 AND {condition})"
        )
    };
    format!(
        "SELECT m.*, h.text AS hold_text, t.text AS reason_text FROM ({} UNION ALL {}) AS m \
         LEFT JOIN word AS h ON h.number = m.hold LEFT JOIN word AS t ON t.number = m.text",
        from("moment"),
        from("fresh")
    )
}

/// The history, open for reading, even while it is being written.
#[derive(Debug)]
pub struct HistoryReader {
    connection: Connection,
    path: PathBuf,
}

type Read<T> = Result<T, StoreError>;

impl HistoryReader {
    /// Opens the history in `directory`; `wait` is the time for which a writer may lock it.
    pub fn open(directory: &Path, wait: Duration) -> Read<HistoryReader> {
        // SQLite follows no symbolic link in the path, but the directory may be one.
        let found = directory.canonicalize().map_err(|source| StoreError::directory(directory, "find", source))?;
        let path = found.join(DATABASE);
        if matches!(path.try_exists(), Ok(false)) {
            return Err(StoreError::NotReady { path });
        }
        let shown = &path;
        let at = |operation| move |source| StoreError::sqlite(shown, operation, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(&path, flags).map_err(at("open the history to read it"))?;
        let prepare = connection.busy_timeout(wait).and_then(|()| database::version(&connection));
        let found = prepare.map_err(at("read the history's version"))?;
        match found.cmp(&schema::VERSION) {
            Ordering::Less => Err(StoreError::NotReady { path }),
            Ordering::Equal => Ok(HistoryReader { connection, path }),
            Ordering::Greater => Err(StoreError::Newer { path, found, known: schema::VERSION }),
        }
    }

    /// Returns jobs that lived within the span, each with its last sample before the end of the span, ordered by number; `limit` + 1 of
    /// them if there are more. A job without an end runs, even if its last sample is older: the daemon ends those of an earlier daemon.
    pub fn jobs(
        &self,
        span: Span,
        only: Option<&[u64]>,
        after: u64,
        limit: usize,
    ) -> Read<Vec<(JobRecord, Option<Sample>)>> {
        let jobs = self.lived(span, only, after, limit)?;
        jobs.into_iter().map(|job| self.at_or_before(&job, span.until).map(|last| (job, last))).collect()
    }

    /// Returns the jobs of [`HistoryReader::jobs`] without their samples.
    pub fn lived(&self, span: Span, only: Option<&[u64]>, after: u64, limit: usize) -> Read<Vec<JobRecord>> {
        let lived = "(last >= ?1 OR ended IS NULL) AND first <= ?2";
        let query = format!("{JOBS} WHERE {lived} AND number > ?3 ORDER BY number");
        let parameters = params![number(span.since), number(span.until), number(after)];
        let jobs = self.rows("read past jobs", &query, parameters, job_of)?;
        let wanted = |job: &JobRecord| only.is_none_or(|numbers| numbers.contains(&job.number));
        Ok(jobs.into_iter().filter(wanted).take(limit.saturating_add(1)).collect())
    }

    /// Returns the jobs that match a whole id, a name, a prefix of an id (at least four characters), or the name without the user of a user's
    /// command (`NAME` for `NAME@USER`), in this order of preference; the newest job last. A name is also one that a job had before it was
    /// renamed; such jobs come first.
    pub fn named(&self, query_text: &str) -> Read<Vec<JobRecord>> {
        let conditions = [
            "id = ?1",
            "(name = ?1 OR number IN (SELECT job FROM former_name WHERE name = ?1))",
            "length(?1) >= 4 AND substr(id, 1, length(?1)) = ?1",
            "substr(name, 1, length(?1) + 1) = ?1 || '@'",
        ];
        for condition in conditions {
            let query = format!("{JOBS} WHERE {condition} ORDER BY name = ?1, started, number");
            let found = self.rows("look for a past job", &query, &[&query_text], job_of)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    /// Returns samples of a job within the span and the last sample before it: the last one in each `every`, the first of all and the first
    /// with a value; at most `limit` + 1.
    pub fn samples(
        &self,
        job: &JobRecord,
        span: Span,
        after: Option<u64>,
        every: Millis,
        limit: usize,
    ) -> Read<Vec<Sample>> {
        let first = number(job.first_unix_ms);
        let before = match after {
            Some(_) => None,
            None => self.at_or_before(job, span.since.saturating_sub(1))?,
        };
        let from = after.map_or(number(span.since), |after| number(after) + 1) - first;
        let query = format!("{} ORDER BY at", samples_where("at >= ?2 AND at <= ?3"));
        let failed = |source| StoreError::sqlite(&self.path, "read past samples", source);
        let mut statement = self.connection.prepare_cached(&query).map_err(failed)?;
        let mut rows =
            statement.query(params![number(job.number), from, number(span.until) - first]).map_err(failed)?;
        let mut samples: Vec<Sample> = before.into_iter().collect();
        let mut bucket = None;
        while let Some(row) = rows.next().map_err(failed)? {
            let Some(sample) = sample_of(row, job) else { continue };
            let now = Some(sample.unix_ms / every.0.max(1));
            let is_first = match samples.as_slice() {
                [_] => after.is_none(),
                [.., before, last] => before.value.is_none() && last.value.is_some(),
                [] => false,
            };
            if bucket == now && !is_first {
                samples.pop();
            }
            bucket = now;
            samples.push(sample);
            if samples.len() > limit {
                break;
            }
        }
        Ok(samples)
    }

    /// Returns the values of a job at an instant; `None` = nothing had been recorded yet.
    pub fn instant(&self, job: &JobRecord, unix_ms: u64) -> Read<Option<JobSnapshot>> {
        let Some(sample) = self.at_or_before(job, unix_ms)? else { return Ok(None) };
        let query = format!("{} ORDER BY at LIMIT 1", samples_where("at > ?2 ORDER BY at LIMIT 1"));
        let at = number(sample.unix_ms) - number(job.first_unix_ms);
        let later =
            self.rows("read past samples", &query, params![number(job.number), at], |row| sample_of(row, job))?;
        let earlier = self.at_or_before(job, sample.unix_ms.saturating_sub(1))?;
        let node = self.node(Span { since: unix_ms, until: unix_ms }, 1)?.pop();
        Ok(Some(JobSnapshot { job: job.clone(), sample, earlier, later: later.into_iter().next(), node }))
    }

    pub(super) fn at_or_before(&self, job: &JobRecord, unix_ms: u64) -> Read<Option<Sample>> {
        let query = format!("{} ORDER BY at DESC LIMIT 1", samples_where("at <= ?2 ORDER BY at DESC LIMIT 1"));
        let at = number(unix_ms) - number(job.first_unix_ms);
        let found =
            self.rows("read past samples", &query, params![number(job.number), at], |row| sample_of(row, job))?;
        Ok(found.into_iter().next())
    }

    /// Returns the node's readings within the span and the last one before it, thinned evenly to `limit`.
    pub fn node(&self, span: Span, limit: usize) -> Read<Vec<NodeSample>> {
        let query = "SELECT * FROM node WHERE at BETWEEN IFNULL((SELECT MAX(at) FROM node WHERE at <= ?1), ?1) AND ?2 ORDER BY at";
        let all = self.rows("read the past node", query, params![number(span.since), number(span.until)], node_of)?;
        let every = all.len().div_ceil(limit.max(1)).max(1);
        let newest = all.last().cloned();
        let mut thinned: Vec<NodeSample> = all.into_iter().step_by(every).collect();
        if every > 1 && limit > 1 && thinned.last() != newest.as_ref() {
            thinned.extend(newest);
        }
        Ok(thinned)
    }

    /// Returns events within the span, optionally only those of some jobs, and only those of some kinds (if there are any in `kinds`);
    /// `limit` + 1 of them if there are more.
    pub fn events(
        &self,
        span: Span,
        of: Option<&[JobRecord]>,
        kinds: &[EventKind],
        after: u64,
        limit: usize,
    ) -> Read<Vec<Event>> {
        let query = "SELECT sequence, at, kind, container, name, text, alert FROM event WHERE at BETWEEN ?1 AND ?2 AND sequence > ?3 \
                     AND (?4 IS NULL OR container IN (SELECT value FROM json_each(?4))) \
                     AND (?5 IS NULL OR kind IN (SELECT value FROM json_each(?5))) ORDER BY sequence LIMIT ?6";
        let ids = of.map(|jobs| json!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>()).to_string());
        let kind_codes: Vec<i64> = kinds.iter().map(|kind| codes::kind_code(*kind)).collect();
        let kind_codes = (!kind_codes.is_empty()).then(|| json!(kind_codes).to_string());
        let most = number(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1));
        let parameters = params![number(span.since), number(span.until), number(after), ids, kind_codes, most];
        self.rows("read past events", query, parameters, event_of)
    }

    /// Returns the time of the oldest record.
    pub fn oldest(&self) -> Read<Option<u64>> {
        let query = "SELECT MIN(at) FROM (SELECT MIN(kept) AS at FROM job UNION ALL SELECT MIN(at) FROM node)";
        let oldest = self.rows("read how old the history is", query, &[], |row| natural(row, 0))?;
        Ok(oldest.into_iter().next())
    }

    /// Returns all valid rows.
    pub(super) fn rows<T>(
        &self,
        operation: &'static str,
        query: &str,
        parameters: &[&dyn ToSql],
        each: impl Fn(&Row<'_>) -> Option<T>,
    ) -> Read<Vec<T>> {
        let read = || {
            let mut statement = self.connection.prepare_cached(query)?;
            let rows = statement.query_map(parameters, |row| Ok(each(row)))?;
            rows.collect::<rusqlite::Result<Vec<Option<T>>>>()
        };
        let rows = read().map_err(|source| StoreError::sqlite(&self.path, operation, source))?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Returns blocks that lie within the span and begin after `after`; `limit` + 1 of them if there are more.
    pub fn blocks(&self, span: Span, after: u64, limit: usize) -> std::result::Result<Vec<BlockRecord>, StoreError> {
        let query =
            "SELECT at, until, plain, span FROM block WHERE at >= ?1 AND until <= ?2 AND at > ?3 ORDER BY at LIMIT ?4";
        let most = number(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1));
        let parameters = params![number(span.since), number(span.until), number(after), most];
        let mut blocks = self.rows("read past blocks", query, parameters, |row| {
            Some(BlockRecord {
                from_unix_ms: natural(row, 0)?,
                until_unix_ms: natural(row, 1)?,
                plain: row.get(2).ok()?,
                span: Millis(natural(row, 3)?),
                work: Vec::new(),
            })
        })?;
        for block in &mut blocks {
            let query = "SELECT job, cpu FROM work WHERE block = ?1 ORDER BY job";
            block.work = self.rows("read past blocks", query, params![number(block.from_unix_ms)], |row| {
                Some(BlockWork { job: natural(row, 0)?, cpu: CpuTime(natural(row, 1)?.saturating_mul(1000)) })
            })?;
        }
        Ok(blocks)
    }
}

fn field<T: FromSql>(row: &Row<'_>, column: usize) -> Option<T> {
    row.get::<_, Option<T>>(column).ok().flatten()
}

pub(super) fn natural(row: &Row<'_>, column: usize) -> Option<u64> {
    field::<i64>(row, column).and_then(|value| u64::try_from(value).ok())
}

fn thousandths(row: &Row<'_>, column: usize) -> Option<f64> {
    field::<i64>(row, column).map(|value| value as f64 / 1000.0)
}

fn weight(row: &Row<'_>, column: usize) -> Option<CpuWeight> {
    field::<i64>(row, column).map(|weight| CpuWeight::clamped(weight as f64))
}

/// Parses a job from the columns [`JOBS`]; `None` if they are invalid.
pub(super) fn job_of(row: &Row<'_>) -> Option<JobRecord> {
    Some(JobRecord {
        number: natural(row, 0)?,
        id: ContainerId::new(&field::<String>(row, 1)?),
        name: field(row, 2)?,
        runtime: codes::runtime(field(row, 3)?)?,
        started_unix_ms: natural(row, 4)?,
        first_unix_ms: natural(row, 5)?,
        last_unix_ms: natural(row, 6)?,
        ended_unix_ms: natural(row, 7),
        original_weight: weight(row, 8),
        metric: field(row, 9),
        direction: field(row, 10).and_then(codes::direction),
        unit: field(row, 11).and_then(codes::unit),
        total: field(row, 12),
        exit_code: field(row, 13),
        end: field(row, 14).and_then(|code| codes::end(code, field(row, 13))),
        user: field(row, 15),
        trial: field(row, 16).map(|group| TrialRecord {
            group,
            group_name: field(row, 17),
            parameters: field::<String>(row, 18).and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        }),
        lost_s: field(row, 19),
    })
}

fn sample_of(row: &Row<'_>, job: &JobRecord) -> Option<Sample> {
    let flags: i64 = field(row, 7)?;
    let share = field::<i64>(row, 9).map(codes::share);
    let packed_number = |column| field::<i64>(row, column).map(unpacked);
    let decision = field::<i64>(row, 12).zip(share).and_then(|(rule, share)| {
        Some(DecisionRecord {
            list: codes::list(flags),
            growth: GrowthEfficiency {
                cpu: packed_number(11),
                memory: packed_number(18),
                block_io: packed_number(19),
                network_io: packed_number(20),
                gpu: None,
            },
            limit: field::<i64>(row, 10).map_or(share, codes::share),
            share,
            reason: codes::reason(rule, field(row, 13), field(row, 14), field(row, 26))?,
        })
    });
    Some(Sample {
        job: job.number,
        unix_ms: job.first_unix_ms.saturating_add(natural(row, 0)?),
        cpu: natural(row, 1).map(|millis| CpuTime(millis.saturating_mul(1000))),
        memory: natural(row, 2).map(|pages| Bytes(pages.saturating_mul(1 << 16))),
        gpus: thousandths(row, 16),
        gpu_memory: natural(row, 17).map(|pages| Bytes(pages.saturating_mul(1 << 16))),
        value: field::<i64>(row, 3).map(unpacked),
        progress: thousandths(row, 4),
        quality: thousandths(row, 5),
        time_left: time_left(packed_number(21), packed_number(22), packed_number(23)),
        energy: natural(row, 24).map(|joules| joules as f64),
        weight: weight(row, 6),
        state: codes::state(flags),
        hold: codes::hold(flags, field(row, 25)),
        decision,
        is_turn: codes::is_turn(flags),
    })
}

fn time_left(low: Option<f64>, likely: Option<f64>, high: Option<f64>) -> Option<Estimate> {
    Some(Estimate { low: low?, likely: likely?, high: high? })
}

fn node_of(row: &Row<'_>) -> Option<NodeSample> {
    Some(NodeSample {
        unix_ms: natural(row, 0)?,
        cores: thousandths(row, 1)?,
        interval: Millis(natural(row, 2)?),
        released: field(row, 3)?,
        pressure: Pressure { cpu: thousandths(row, 4), memory: thousandths(row, 5), io: thousandths(row, 6) },
        policy: codes::policy(field(row, 7)?)?,
        objective: thousandths(row, 8)?,
        growth_threshold: unpacked(field(row, 9)?),
    })
}

fn event_of(row: &Row<'_>) -> Option<Event> {
    Some(Event {
        sequence: natural(row, 0)?,
        unix_ms: natural(row, 1)?,
        kind: codes::kind(field(row, 2)?)?,
        container: field(row, 3),
        name: field(row, 4),
        text: field(row, 5)?,
        alert: field::<String>(row, 6).and_then(|text| serde_json::from_str(&text).ok()),
    })
}
