//! Writing the history: each batch in one transaction; samples are first appended in order of time, later sorted by job.

use super::blocks::write_block;
use super::codes::{self, packed};
use super::{HistoryStore, StoreError};
use crate::number;
use model::{BlockRecord, Event, JobRecord, NodeSample, Sample};
use rusqlite::{Connection, OptionalExtension, Result, params};
use std::collections::BTreeMap;

/// Maximum length of a text in bytes; longer ones are truncated.
const TEXT_LONGEST: usize = 300;
/// Former names kept for a job: the newest.
const FORMER_NAMES_KEPT: i64 = 16;
/// Maximum number of words cached between batches.
const WORDS_KEPT: usize = 1024;

/// The records of one transaction.
#[derive(Clone, Debug, Default)]
pub struct HistoryBatch {
    /// New and changed jobs, by number.
    pub jobs: BTreeMap<u64, JobRecord>,
    /// Samples in order of time.
    pub samples: Vec<Sample>,
    /// Readings of the node in order of time.
    pub node: Vec<NodeSample>,
    /// Completed blocks of the holdback experiment.
    pub blocks: Vec<BlockRecord>,
    /// Events in order; their sequence numbers are not stored.
    pub events: Vec<Event>,
}

impl HistoryBatch {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let rows = [self.samples.len(), self.node.len(), self.blocks.len(), self.events.len()];
        self.jobs.is_empty() && rows.iter().all(|rows| *rows == 0)
    }
}

impl HistoryStore {
    /// Writes the whole batch, or nothing.
    pub fn write(&mut self, batch: &HistoryBatch) -> std::result::Result<(), StoreError> {
        let mut words = std::mem::take(&mut self.words);
        if words.len() > WORDS_KEPT {
            words.clear();
        }
        let written = write_all(&mut self.connection, batch, &mut words);
        // After a rollback the numbers of new words are invalid.
        self.words = if written.is_ok() { words } else { BTreeMap::new() };
        written.map_err(|error| self.error("write the history", error))
    }

    /// Moves the samples that arrived since the last call into the table sorted by job.
    pub fn settle(&mut self) -> std::result::Result<(), StoreError> {
        let settle = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            transaction.execute("INSERT OR REPLACE INTO moment SELECT * FROM fresh ORDER BY job, at", [])?;
            transaction.execute("DELETE FROM fresh", [])?;
            transaction.commit()
        };
        settle(&mut self.connection).map_err(|error| self.error("sort the history", error))
    }
}

fn write_all(connection: &mut Connection, batch: &HistoryBatch, words: &mut BTreeMap<String, i64>) -> Result<()> {
    let transaction = connection.transaction()?;
    for job in batch.jobs.values() {
        write_job(&transaction, job)?;
    }
    for sample in &batch.samples {
        let first = transaction
            .prepare_cached("SELECT first FROM job WHERE number = ?1")?
            .query_row([number(sample.job)], |row| row.get::<_, i64>(0))
            .optional()?;
        // A job that has been trimmed meanwhile gets no further samples.
        if let Some(first) = first {
            write_sample(&transaction, sample, first, words)?;
        }
    }
    for node in &batch.node {
        write_node(&transaction, node)?;
    }
    for block in &batch.blocks {
        write_block(&transaction, block)?;
    }
    for event in &batch.events {
        let cut = |text: &Option<String>| text.as_deref().map(|text| shortened(text).to_owned());
        let alert = event.alert.as_ref().and_then(|alert| serde_json::to_string(alert).ok());
        transaction
            .prepare_cached(
                "INSERT INTO event (at, kind, container, name, text, alert) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                number(event.unix_ms),
                codes::kind_code(event.kind),
                cut(&event.container),
                cut(&event.name),
                shortened(&event.text),
                alert
            ])?;
    }
    transaction.commit()
}

fn write_job(connection: &Connection, job: &JobRecord) -> Result<()> {
    write_former_name(connection, job)?;
    let sql = "INSERT INTO job (number, id, name, runtime, started, first, last, ended, weight, metric, direction, unit, total,
            exit_code, ending, user, sweep, sweep_name, parameters, lost, kept)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?6)
        ON CONFLICT (number) DO UPDATE SET name = excluded.name, last = excluded.last, ended = excluded.ended, weight = excluded.weight,
            metric = excluded.metric, direction = excluded.direction, unit = excluded.unit, total = excluded.total,
            exit_code = excluded.exit_code, ending = excluded.ending, user = excluded.user, sweep = excluded.sweep,
            sweep_name = excluded.sweep_name, parameters = excluded.parameters, lost = excluded.lost";
    let trial = job.trial.as_ref();
    let done = connection.prepare_cached(sql)?.execute(params![
        number(job.number),
        shortened(job.id.as_str()),
        shortened(&job.name),
        codes::runtime_code(job.runtime),
        number(job.started_unix_ms),
        number(job.first_unix_ms),
        number(job.last_unix_ms),
        job.ended_unix_ms.map(number),
        job.original_weight.map(|weight| i64::from(weight.number())),
        job.metric.as_deref().map(shortened),
        job.direction.map(codes::direction_code),
        job.unit.map(codes::unit_code),
        job.total.filter(|total| total.is_finite()),
        job.exit_code,
        job.end.and_then(codes::end_code),
        job.user.as_deref().map(shortened),
        trial.map(|trial| shortened(&trial.group)),
        trial.and_then(|trial| trial.group_name.as_deref()).map(shortened),
        trial.and_then(|trial| serde_json::to_string(&trial.parameters).ok()),
        job.lost_s.filter(|lost| lost.is_finite()),
    ]);
    done.map(drop)
}

/// Keeps the name that the job had until now, if it was renamed, so that it is still found by it.
fn write_former_name(connection: &Connection, job: &JobRecord) -> Result<()> {
    let keep =
        "INSERT OR REPLACE INTO former_name (job, name) SELECT number, name FROM job WHERE number = ?1 AND name <> ?2";
    let (number, name) = (number(job.number), shortened(&job.name));
    if connection.prepare_cached(keep)?.execute(params![number, name])? > 0 {
        let forget = "DELETE FROM former_name WHERE job = ?1 AND number NOT IN \
                      (SELECT number FROM former_name WHERE job = ?1 ORDER BY number DESC LIMIT ?2)";
        connection.prepare_cached(forget)?.execute(params![number, FORMER_NAMES_KEPT])?;
    }
    Ok(())
}

fn write_sample(connection: &Connection, sample: &Sample, first: i64, words: &mut BTreeMap<String, i64>) -> Result<()> {
    let hold = codes::hold_text(sample.hold.as_ref()).map(|text| word(connection, text, words)).transpose()?;
    let decision = sample.decision.as_ref();
    let reason = decision.map(|decision| codes::reason_code(&decision.reason));
    let text = reason.as_ref().and_then(|reason| reason.text);
    let text = text.map(|text| word(connection, text, words)).transpose()?;
    let share = decision.map(|decision| codes::share_code(decision.share));
    let bound = decision.map(|decision| codes::share_code(decision.limit)).filter(|bound| Some(*bound) != share);
    let list = decision.and_then(|decision| decision.list);
    let growth = decision.map(|decision| decision.growth).unwrap_or_default();
    let sql = "INSERT INTO fresh VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
               ?20, ?21, ?22, ?23, ?24, ?25, ?26)";
    let done = connection.prepare_cached(sql)?.execute(params![
        number(sample.job),
        (number(sample.unix_ms) - first).max(0),
        sample.cpu.map(|cpu| number(cpu.0 / 1000)),
        sample.memory.map(|bytes| number(bytes.0 >> 16)),
        sample.value.map(packed),
        sample.progress.filter(|progress| progress.is_finite()).map(thousandths),
        sample.quality.filter(|quality| quality.is_finite()).map(thousandths),
        sample.weight.map(|weight| i64::from(weight.number())),
        codes::flags(sample.state, sample.is_turn, list, sample.hold.as_ref()),
        hold,
        share,
        bound,
        growth.cpu.map(packed),
        reason.as_ref().map(|reason| reason.rule),
        reason.as_ref().and_then(|reason| reason.a),
        reason.as_ref().and_then(|reason| reason.b),
        text,
        sample.gpus.filter(|gpus| gpus.is_finite()).map(thousandths),
        sample.gpu_memory.map(|bytes| number(bytes.0 >> 16)),
        growth.memory.map(packed),
        growth.block_io.map(packed),
        growth.network_io.map(packed),
        sample.time_left.map(|left| packed(left.low)),
        sample.time_left.map(|left| packed(left.likely)),
        sample.time_left.map(|left| packed(left.high)),
        sample.energy.filter(|joules| joules.is_finite()).map(|joules| joules.round() as i64),
    ]);
    done.map(drop)
}

fn write_node(connection: &Connection, node: &NodeSample) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO node VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let done = connection.prepare_cached(sql)?.execute(params![
        number(node.unix_ms),
        thousandths(node.cores),
        number(node.interval.0),
        node.released,
        node.pressure.cpu.map(thousandths),
        node.pressure.memory.map(thousandths),
        node.pressure.io.map(thousandths),
        codes::policy_code(node.policy),
        thousandths(node.objective),
        packed(node.growth_threshold),
    ]);
    done.map(drop)
}

fn word(connection: &Connection, text: &str, words: &mut BTreeMap<String, i64>) -> Result<i64> {
    let text = shortened(text);
    if let Some(number) = words.get(text) {
        return Ok(*number);
    }
    let known = connection
        .prepare_cached("SELECT number FROM word WHERE text = ?1")?
        .query_row([text], |row| row.get(0))
        .optional()?;
    let number = match known {
        Some(number) => number,
        None => {
            connection.prepare_cached("INSERT INTO word (text) VALUES (?1)")?.execute([text])?;
            connection.last_insert_rowid()
        }
    };
    words.insert(text.to_owned(), number);
    Ok(number)
}

fn thousandths(number: f64) -> i64 {
    (number * 1000.0).round() as i64
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(TEXT_LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
