//! `/v1/history`: questions about the past, answered by the daemon's history in pages. Imports: siblings, axum.

use super::problem::Fault;
use super::shared::{Api, json_response};
use super::snapshot::json;
use crate::api::wire::{
    BlockRecord, BlockRecords, Event, EventRecords, JobRecord, JobRecords, JobSnapshot, NodeSample, NodeSamples,
    Problem, Sample, Samples,
};
use crate::api::{HistoryRequest, Refusal};
use crate::model::time::of_utc;
use crate::model::{HistoryAnswer, HistoryQuery, Millis, Span};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use utoipa::IntoParams;

/// Rows of a page: what is asked for, at most the second number.
const JOBS: (usize, usize) = (500, 5_000);
const SAMPLES: (usize, usize) = (5_000, 20_000);
const READINGS: (usize, usize) = (1_000, 5_000);
const EVENTS: (usize, usize) = (1_000, 10_000);
const BLOCKS: (usize, usize) = (200, 500);

/// Which part of the past.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Not before: Unix milliseconds, or RFC 3339.
    since: Option<String>,
    /// Not after.
    until: Option<String>,
    /// A job's name, id, or the beginning of its id; of samples, the newest job that fits.
    job: Option<String>,
    /// Of samples: one for each so many seconds is enough.
    every_s: Option<f64>,
    /// Continue a page: what its `next` said.
    after: Option<String>,
    /// Rows at most.
    limit: Option<usize>,
}

/// Which instant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct WantedInstant {
    /// A job's name, id, or the beginning of its id: the newest that had started by then.
    job: String,
    /// Unix milliseconds, or RFC 3339.
    at: String,
}

type Asked<T> = Result<Query<T>, QueryRejection>;

/// The jobs that lived within a span, whether they run or ended.
#[utoipa::path(get, path = "/v1/history", params(Wanted), responses((status = 200, body = JobRecords), (status = 404, body = Problem)))]
pub(super) async fn jobs(State(api): State<Arc<Api>>, wanted: Asked<Wanted>) -> Result<Response, Fault> {
    let Query(wanted) = wanted?;
    let after = number(wanted.after.as_deref())?;
    let limit = bounded(wanted.limit, JOBS);
    let query = HistoryQuery::Jobs { span: span(&wanted)?, job: wanted.job, after, limit };
    let HistoryAnswer::Jobs(jobs, more) = asked(&api, query).await? else { return Err(Fault::Stopping) };
    let next = jobs.last().map(|(job, _)| job.number).filter(|_| more);
    let jobs = jobs.iter().map(|(job, latest)| JobRecord::of(job, latest.as_ref())).collect();
    Ok(json_response(json(&JobRecords { jobs, next })))
}

/// What was seen and decided within a span, job by job, and what stood at its beginning.
#[utoipa::path(get, path = "/v1/history/samples", params(Wanted),
    responses((status = 200, body = Samples), (status = 404, body = Problem)))]
pub(super) async fn samples(State(api): State<Arc<Api>>, wanted: Asked<Wanted>) -> Result<Response, Fault> {
    let Query(wanted) = wanted?;
    let after = wanted.after.as_deref().map(place).transpose()?;
    let every = wanted.every_s.filter(|every| *every > 0.0).map(|every| Millis((every * 1000.0) as u64));
    let limit = bounded(wanted.limit, SAMPLES);
    let query = HistoryQuery::Samples { span: span(&wanted)?, job: wanted.job, every, after, limit };
    let HistoryAnswer::Samples(samples, more) = asked(&api, query).await? else { return Err(Fault::Stopping) };
    let next = samples.last().map(|last| format!("{}-{}", last.job, last.unix_ms)).filter(|_| more);
    Ok(json_response(json(&Samples { samples: samples.iter().map(Sample::of).collect(), next })))
}

/// The node within a span.
#[utoipa::path(get, path = "/v1/history/node", params(Wanted), responses((status = 200, body = NodeSamples)))]
pub(super) async fn node(State(api): State<Arc<Api>>, wanted: Asked<Wanted>) -> Result<Response, Fault> {
    let Query(wanted) = wanted?;
    let query = HistoryQuery::Node { span: span(&wanted)?, limit: bounded(wanted.limit, READINGS) };
    let HistoryAnswer::Node(readings) = asked(&api, query).await? else { return Err(Fault::Stopping) };
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(json_response(json(&NodeSamples { hostname, readings: readings.iter().map(NodeSample::of).collect() })))
}

/// The blocks of time that lie within a span, with a holdback, and what each job got in them.
#[utoipa::path(get, path = "/v1/history/blocks", params(Wanted), responses((status = 200, body = BlockRecords)))]
pub(super) async fn blocks(State(api): State<Arc<Api>>, wanted: Asked<Wanted>) -> Result<Response, Fault> {
    let Query(wanted) = wanted?;
    let after = number(wanted.after.as_deref())?;
    let query = HistoryQuery::Blocks { span: span(&wanted)?, after, limit: bounded(wanted.limit, BLOCKS) };
    let HistoryAnswer::Blocks(blocks, more) = asked(&api, query).await? else { return Err(Fault::Stopping) };
    let next = blocks.last().map(|last| last.from_unix_ms).filter(|_| more);
    Ok(json_response(json(&BlockRecords { blocks: blocks.iter().map(BlockRecord::of).collect(), next })))
}

/// What happened within a span, longer ago than `/v1/events` knows.
#[utoipa::path(get, path = "/v1/history/events", params(Wanted), responses((status = 200, body = EventRecords)))]
pub(super) async fn events(State(api): State<Arc<Api>>, wanted: Asked<Wanted>) -> Result<Response, Fault> {
    let Query(wanted) = wanted?;
    let after = number(wanted.after.as_deref())?;
    let limit = bounded(wanted.limit, EVENTS);
    let query = HistoryQuery::Events { span: span(&wanted)?, job: wanted.job, after, limit };
    let HistoryAnswer::Events(events, more) = asked(&api, query).await? else { return Err(Fault::Stopping) };
    let next = events.last().map(|event| event.sequence).filter(|_| more);
    Ok(json_response(json(&EventRecords { events: events.iter().map(Event::of).collect(), next })))
}

/// What stood for one job at one instant, also for a job that ended since.
#[utoipa::path(get, path = "/v1/history/at", params(WantedInstant),
    responses((status = 200, body = JobSnapshot), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn at(State(api): State<Arc<Api>>, wanted: Asked<WantedInstant>) -> Result<Response, Fault> {
    let Query(wanted) = wanted?;
    let unix_ms = instant(&wanted.at)?;
    let query = HistoryQuery::At { job: wanted.job, unix_ms };
    let HistoryAnswer::At(found) = asked(&api, query).await? else { return Err(Fault::Stopping) };
    Ok(json_response(json(&JobSnapshot::of(&found, unix_ms))))
}

async fn asked(api: &Api, query: HistoryQuery) -> Result<HistoryAnswer, Fault> {
    let (reply, answer) = oneshot::channel();
    api.feed.history.try_send(HistoryRequest { query, reply }).map_err(|error| match error {
        TrySendError::Full(_) => Fault::Busy("too many questions about the past are waiting".to_owned()),
        TrySendError::Closed(_) => Fault::Refused(Refusal::Failed("nobody remembers the past here".to_owned())),
    })?;
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Refusal::NotFound(text))) => Err(Fault::NotInHistory(text)),
        Ok(Err(refusal)) => Err(Fault::Refused(refusal)),
        Err(_dropped) => Err(Fault::Stopping),
    }
}

fn bounded(limit: Option<usize>, (usual, most): (usize, usize)) -> usize {
    limit.unwrap_or(usual).clamp(1, most)
}

fn span(wanted: &Wanted) -> Result<Span, Fault> {
    let since = wanted.since.as_deref().map_or(Ok(0), instant)?;
    // SQLite's integers are signed.
    let until = wanted.until.as_deref().map_or(Ok(i64::MAX as u64), instant)?;
    Ok(Span { since, until })
}

fn instant(text: &str) -> Result<u64, Fault> {
    let read = text.parse().ok().or_else(|| of_utc(text));
    let wrong = || Fault::BadRequest(format!("`{text}` is neither Unix milliseconds nor RFC 3339"));
    read.filter(|unix_ms| *unix_ms <= i64::MAX as u64).ok_or_else(wrong)
}

fn number(after: Option<&str>) -> Result<u64, Fault> {
    let wrong = |text: &str| Fault::BadRequest(format!("`after` is `{text}`; it is the `next` of a page"));
    after.map_or(Ok(0), |text| text.parse().map_err(|_| wrong(text)))
}

fn place(after: &str) -> Result<(u64, u64), Fault> {
    let (job, unix_ms) = after.split_once('-').unwrap_or((after, ""));
    Ok((number(Some(job))?, number(Some(unix_ms))?))
}
