//! Queries of the history, answered beside the writer, one at a time. Imports: api's contract, host's store, model.

use crate::api::{HistoryRequest, Refusal};
use crate::host::store::StoreError;
use crate::host::store::history::HistoryReader;
use crate::model::time::utc;
use crate::model::{HistoryAnswer, HistoryQuery, JobRecord, JobSnapshot, Millis, Sample, Span};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a reader waits for the writer.
const WAIT_FOR_WRITER: Duration = Duration::from_secs(5);

/// Answers queries until the daemon ends; without a directory there is no history.
pub(super) fn answer(directory: Option<&Path>, mut requests: mpsc::Receiver<HistoryRequest>) {
    while let Some(request) = requests.blocking_recv() {
        if request.reply.is_closed() {
            continue; // the client stopped waiting
        }
        let answer = match directory {
            Some(directory) => answer_query(directory, &request.query),
            None => Err(Refusal::Refused(
                "no history is kept; set history.enabled = true in flowcond.toml and restart flowcond".to_owned(),
            )),
        };
        let _ = request.reply.send(answer); // the client hung up
    }
}

type Response<T> = Result<T, Refusal>;

fn answer_query(directory: &Path, query: &HistoryQuery) -> Response<HistoryAnswer> {
    let reader = HistoryReader::open(directory, WAIT_FOR_WRITER).map_err(failed)?;
    match query {
        HistoryQuery::Jobs { span, job, after, limit } => {
            let only = job.as_deref().map(|job| named(&reader, job)).transpose()?;
            let numbers: Option<Vec<u64>> = only.map(|jobs| jobs.iter().map(|job| job.number).collect());
            let mut jobs = reader.jobs(*span, numbers.as_deref(), *after, *limit).map_err(failed)?;
            let more = jobs.len() > *limit;
            jobs.truncate(*limit);
            Ok(HistoryAnswer::Jobs(jobs, more))
        }
        HistoryQuery::Samples { span, job, every, after, limit } => {
            let every = every.unwrap_or(Millis(1));
            let (samples, more) = samples(&reader, *span, job.as_deref(), every, *after, *limit)?;
            Ok(HistoryAnswer::Samples(samples, more))
        }
        HistoryQuery::Node { span, limit } => Ok(HistoryAnswer::Node(reader.node(*span, *limit).map_err(failed)?)),
        HistoryQuery::Blocks { span, after, limit } => {
            let mut blocks = reader.blocks(*span, *after, *limit).map_err(failed)?;
            let more = blocks.len() > *limit;
            blocks.truncate(*limit);
            Ok(HistoryAnswer::Blocks(blocks, more))
        }
        HistoryQuery::Events { span, job, kinds, after, limit } => {
            let of = job.as_deref().map(|job| named(&reader, job)).transpose()?;
            let mut events = reader.events(*span, of.as_deref(), kinds, *after, *limit).map_err(failed)?;
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
            reader.lived(span, None, from, limit).map_err(failed)?
        }
    };
    let mut found = Vec::new();
    for job in &jobs {
        let after = after.filter(|(number, _)| *number == job.number).map(|(_, unix_ms)| unix_ms);
        found.extend(reader.samples(job, span, after, every, limit - found.len()).map_err(failed)?);
        if found.len() > limit {
            found.truncate(limit);
            return Ok((found, true));
        }
    }
    Ok((found, jobs.len() > limit))
}

/// Returns the jobs with this name or id, newest last; at least one.
fn named(reader: &HistoryReader, asked: &str) -> Response<Vec<JobRecord>> {
    let jobs = reader.named(asked).map_err(failed)?;
    if !jobs.is_empty() {
        return Ok(jobs);
    }
    let since = reader.oldest().map_err(failed)?;
    let since = since.map_or_else(|| "it is still empty".to_owned(), |oldest| format!("it begins at {}", utc(oldest)));
    Err(Refusal::NotFound(format!("the history has no job {asked}; {since}")))
}

fn instant(reader: &HistoryReader, asked: &str, unix_ms: u64) -> Response<JobSnapshot> {
    let jobs = named(reader, asked)?;
    let when = utc(unix_ms);
    let Some(job) = jobs.iter().rev().find(|job| job.first_unix_ms <= unix_ms) else {
        let first = jobs.first().map_or(unix_ms, |job| job.first_unix_ms);
        let text = format!("the history of {asked} begins at {}; it has no data for {when}", utc(first));
        return Err(Refusal::NotFound(text));
    };
    if let Some(ended) = job.ended_unix_ms.filter(|ended| *ended < unix_ms) {
        let text = format!("{asked} ended at {}; it had no limits at {when}", utc(ended));
        return Err(Refusal::NotFound(text));
    }
    let found = reader.instant(job, unix_ms).map_err(failed)?;
    found.ok_or_else(|| Refusal::NotFound(format!("the data of {asked} at {when} was too old and has been removed")))
}

fn failed(error: StoreError) -> Refusal {
    Refusal::Failed(format!("the history cannot be read: {error}"))
}
