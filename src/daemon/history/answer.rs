//! Queries of the history, answered beside the writer, one at a time.

use api::{HistoryRequest, Refusal};
use model::time::utc;
use model::{HistoryAnswer, HistoryQuery, JobRecord, JobSnapshot, Millis, Sample, Span};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::StoreError;
use store::history::{HistoryReader, inode};
use tokio::sync::mpsc;

/// How long a reader waits for the writer.
const WAIT_FOR_WRITER: Duration = Duration::from_secs(5);

/// Answers queries until the daemon ends; without a directory there is no history. `damaged` gets the inode of a file that a query found
/// damaged, for the writer.
pub(super) fn answer(directory: Option<&Path>, mut requests: mpsc::Receiver<HistoryRequest>, damaged: &AtomicU64) {
    while let Some(request) = requests.blocking_recv() {
        if request.reply.is_closed() {
            continue; // the client stopped waiting
        }
        let answer = match directory {
            Some(directory) => answer_from(directory, &request.query, damaged),
            None => Err(Refusal::Refused(
                "no history is kept; set history.enabled = true in flowcond.toml and restart flowcond".to_owned(),
            )),
        };
        let _ = request.reply.send(answer); // the client hung up
    }
}

/// Why a query has no answer.
enum QueryError {
    Refused(Refusal),
    /// The history could not be read.
    Unread(StoreError),
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> QueryError {
        QueryError::Unread(error)
    }
}

type Response<T> = Result<T, QueryError>;

fn answer_from(directory: &Path, query: &HistoryQuery, damaged: &AtomicU64) -> Result<HistoryAnswer, Refusal> {
    let file = inode(directory);
    answer_query(directory, query).map_err(|error| match error {
        QueryError::Refused(refusal) => refusal,
        QueryError::Unread(error) => {
            if let (true, Some(file)) = (error.is_damage(), file) {
                damaged.store(file, Ordering::Release);
            }
            failed(&error)
        }
    })
}

fn answer_query(directory: &Path, query: &HistoryQuery) -> Response<HistoryAnswer> {
    let reader = HistoryReader::open(directory, WAIT_FOR_WRITER)?;
    match query {
        HistoryQuery::Jobs { span, job, after, limit } => {
            let only = job.as_deref().map(|job| named(&reader, job)).transpose()?;
            let numbers: Option<Vec<u64>> = only.map(|jobs| jobs.iter().map(|job| job.number).collect());
            let mut jobs = reader.jobs(*span, numbers.as_deref(), *after, *limit)?;
            let more = jobs.len() > *limit;
            jobs.truncate(*limit);
            Ok(HistoryAnswer::Jobs(jobs, more))
        }
        HistoryQuery::Samples { span, job, every, after, limit } => {
            let every = every.unwrap_or(Millis(1));
            let (samples, more) = samples(&reader, *span, job.as_deref(), every, *after, *limit)?;
            Ok(HistoryAnswer::Samples(samples, more))
        }
        HistoryQuery::Node { span, limit } => Ok(HistoryAnswer::Node(reader.node(*span, *limit)?)),
        HistoryQuery::Blocks { span, after, limit } => {
            let mut blocks = reader.blocks(*span, *after, *limit)?;
            let more = blocks.len() > *limit;
            blocks.truncate(*limit);
            Ok(HistoryAnswer::Blocks(blocks, more))
        }
        HistoryQuery::Users { span } => Ok(HistoryAnswer::Users(reader.users(*span)?)),
        HistoryQuery::Events { span, job, kinds, after, limit } => {
            let of = job.as_deref().map(|job| named(&reader, job)).transpose()?;
            let mut events = reader.events(*span, of.as_deref(), kinds, *after, *limit)?;
            let more = events.len() > *limit;
            events.truncate(*limit);
            Ok(HistoryAnswer::Events(events, more))
        }
        HistoryQuery::At { job, unix_ms } => {
            instant(&reader, job, *unix_ms).map(|instant| HistoryAnswer::At(Box::new(instant)))
        }
    }
}

fn samples(
    reader: &HistoryReader,
    span: Span,
    job: Option<&str>,
    every: Millis,
    after: Option<(u64, u64)>,
    limit: usize,
) -> Response<(Vec<Sample>, bool)> {
    let jobs: Vec<JobRecord> = match job {
        Some(job) => {
            let named = named(reader, job)?;
            let newest = named.iter().rev().find(|job| job.first_unix_ms <= span.until);
            newest.into_iter().cloned().collect()
        }
        None => {
            let from = after.map_or(0, |(job, _)| job.saturating_sub(1));
            reader.lived(span, None, from, limit)?
        }
    };
    let mut found = Vec::new();
    for job in &jobs {
        let after = after.filter(|(number, _)| *number == job.number).map(|(_, unix_ms)| unix_ms);
        found.extend(reader.samples(job, span, after, every, limit - found.len())?);
        if found.len() > limit {
            found.truncate(limit);
            return Ok((found, true));
        }
    }
    Ok((found, jobs.len() > limit))
}

/// Returns the jobs with this name or id, newest last; at least one.
fn named(reader: &HistoryReader, asked: &str) -> Response<Vec<JobRecord>> {
    let jobs = reader.named(asked)?;
    if !jobs.is_empty() {
        return Ok(jobs);
    }
    let since = reader.oldest()?;
    let since = since.map_or_else(|| "it is still empty".to_owned(), |oldest| format!("it begins at {}", utc(oldest)));
    Err(not_found(format!("the history has no job {asked}; {since}")))
}

fn instant(reader: &HistoryReader, asked: &str, unix_ms: u64) -> Response<JobSnapshot> {
    let jobs = named(reader, asked)?;
    let when = utc(unix_ms);
    let Some(job) = jobs.iter().rev().find(|job| job.first_unix_ms <= unix_ms) else {
        let first = jobs.first().map_or(unix_ms, |job| job.first_unix_ms);
        let text = format!("the history of {asked} begins at {}; it has no data for {when}", utc(first));
        return Err(not_found(text));
    };
    if let Some(ended) = job.ended_unix_ms.filter(|ended| *ended < unix_ms) {
        let text = format!("{asked} ended at {}; it had no limits at {when}", utc(ended));
        return Err(not_found(text));
    }
    let found = reader.instant(job, unix_ms)?;
    found.ok_or_else(|| not_found(format!("the data of {asked} at {when} was too old and has been removed")))
}

fn not_found(text: String) -> QueryError {
    QueryError::Refused(Refusal::NotFound(text))
}

fn failed(error: &StoreError) -> Refusal {
    let next = if error.is_damage() { "; it is set aside within seconds, and a new one begins" } else { "" };
    Refusal::Failed(format!("the history cannot be read: {error}{next}"))
}
