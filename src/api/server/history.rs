//! `/v1/history`: queries to the daemon's history, answered in pages.

use super::problem::Fault;
use super::shared::{Api, json_response};
use super::snapshot::json;
use crate::wire::{
    BlockRecord, BlockRecords, Event, EventRecords, JobRecord, JobRecords, JobSnapshot, NodeSample, NodeSamples,
    Problem, Sample, Samples, UserRecord, UserRecords,
};
use crate::{HistoryRequest, Refusal};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use model::time::of_utc;
use model::{EventKind, HistoryAnswer, HistoryQuery, Millis, Span};
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use utoipa::IntoParams;

/// Rows per page: default and maximum. Each page is held in memory until its client has read it, so it is at most a few MB.
const JOBS: (usize, usize) = (500, 5_000);
const SAMPLES: (usize, usize) = (2_000, 2_000);
const READINGS: (usize, usize) = (1_000, 5_000);
const EVENTS: (usize, usize) = (1_000, 10_000);
const BLOCKS: (usize, usize) = (200, 500);

/// Query parameters.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryParams {
    /// Start of the span: Unix milliseconds, or RFC 3339.
    since: Option<String>,
    /// End of the span.
    until: Option<String>,
    /// Name, id or id prefix of a job; for samples, the newest matching job.
    job: Option<String>,
    /// For samples: at most one per this many seconds, apart from a job's first sample and its first with a value.
    every_s: Option<f64>,
    /// For events: only these kinds, separated by commas, for example `command,hold`.
    kind: Option<String>,
    /// Continue after a page: the value of its `next`.
    after: Option<String>,
    /// Maximum rows.
    limit: Option<usize>,
}

/// Query parameters of a job at an instant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct InstantParams {
    /// Name, id or id prefix of a job: the newest that had started at that instant.
    job: String,
    /// Unix milliseconds, or RFC 3339.
    at: String,
}

type Parsed<T> = Result<Query<T>, QueryRejection>;

/// Jobs that ran within a span.
#[utoipa::path(get, path = "/v1/history", params(HistoryParams), responses((status = 200, body = JobRecords), (status = 404, body = Problem)))]
pub(super) async fn jobs(State(api): State<Arc<Api>>, params: Parsed<HistoryParams>) -> Result<Response, Fault> {
    let Query(params) = params?;
    let after = number(params.after.as_deref())?;
    let limit = bounded(params.limit, JOBS);
    let query = HistoryQuery::Jobs { span: span(&params)?, job: params.job, after, limit };
    let HistoryAnswer::Jobs(jobs, more) = answered(&api, query).await? else { return Err(Fault::Stopping) };
    let next = jobs.last().map(|(job, _)| job.number).filter(|_| more);
    let jobs = jobs.iter().map(|(job, latest)| JobRecord::of(job, latest.as_ref())).collect();
    Ok(json_response(json(&JobRecords { jobs, next })))
}

/// Samples of jobs within a span, including those valid at its beginning.
#[utoipa::path(get, path = "/v1/history/samples", params(HistoryParams),
    responses((status = 200, body = Samples), (status = 404, body = Problem)))]
pub(super) async fn samples(State(api): State<Arc<Api>>, params: Parsed<HistoryParams>) -> Result<Response, Fault> {
    let Query(params) = params?;
    let after = params.after.as_deref().map(place).transpose()?;
    let every = params.every_s.filter(|every| *every > 0.0).map(|every| Millis((every * 1000.0) as u64));
    let limit = bounded(params.limit, SAMPLES);
    let query = HistoryQuery::Samples { span: span(&params)?, job: params.job, every, after, limit };
    let HistoryAnswer::Samples(samples, more) = answered(&api, query).await? else { return Err(Fault::Stopping) };
    let next = samples.last().map(|last| format!("{}-{}", last.job, last.unix_ms)).filter(|_| more);
    Ok(json_response(json(&Samples { samples: samples.iter().map(Sample::of).collect(), next })))
}

/// Samples of the node within a span.
#[utoipa::path(get, path = "/v1/history/node", params(HistoryParams), responses((status = 200, body = NodeSamples)))]
pub(super) async fn node(State(api): State<Arc<Api>>, params: Parsed<HistoryParams>) -> Result<Response, Fault> {
    let Query(params) = params?;
    let query = HistoryQuery::Node { span: span(&params)?, limit: bounded(params.limit, READINGS) };
    let HistoryAnswer::Node(readings) = answered(&api, query).await? else { return Err(Fault::Stopping) };
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(json_response(json(&NodeSamples { hostname, readings: readings.iter().map(NodeSample::of).collect() })))
}

/// Blocks of the switchback experiment within a span, and the work of each job in them.
#[utoipa::path(get, path = "/v1/history/blocks", params(HistoryParams), responses((status = 200, body = BlockRecords)))]
pub(super) async fn blocks(State(api): State<Arc<Api>>, params: Parsed<HistoryParams>) -> Result<Response, Fault> {
    let Query(params) = params?;
    let after = number(params.after.as_deref())?;
    let query = HistoryQuery::Blocks { span: span(&params)?, after, limit: bounded(params.limit, BLOCKS) };
    let HistoryAnswer::Blocks(blocks, more) = answered(&api, query).await? else { return Err(Fault::Stopping) };
    let next = blocks.last().map(|last| last.from_unix_ms).filter(|_| more);
    Ok(json_response(json(&BlockRecords { blocks: blocks.iter().map(BlockRecord::of).collect(), next })))
}

/// What each user's jobs used within a span.
#[utoipa::path(get, path = "/v1/history/users", params(HistoryParams), responses((status = 200, body = UserRecords)))]
pub(super) async fn users(State(api): State<Arc<Api>>, params: Parsed<HistoryParams>) -> Result<Response, Fault> {
    let Query(params) = params?;
    let query = HistoryQuery::Users { span: span(&params)? };
    let HistoryAnswer::Users(users) = answered(&api, query).await? else { return Err(Fault::Stopping) };
    Ok(json_response(json(&UserRecords { users: users.iter().map(UserRecord::of).collect() })))
}

/// Events within a span, also older ones than those of `/v1/events`.
#[utoipa::path(get, path = "/v1/history/events", params(HistoryParams),
    responses((status = 200, body = EventRecords), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn events(State(api): State<Arc<Api>>, params: Parsed<HistoryParams>) -> Result<Response, Fault> {
    let Query(params) = params?;
    let after = number(params.after.as_deref())?;
    let limit = bounded(params.limit, EVENTS);
    let kinds = params.kind.as_deref().map_or(Ok(Vec::new()), kinds)?;
    let query = HistoryQuery::Events { span: span(&params)?, job: params.job, kinds, after, limit };
    let HistoryAnswer::Events(events, more) = answered(&api, query).await? else { return Err(Fault::Stopping) };
    let next = events.last().map(|event| event.sequence).filter(|_| more);
    Ok(json_response(json(&EventRecords { events: events.iter().map(Event::of).collect(), next })))
}

/// State of a job at one instant, also of a job that has ended since.
#[utoipa::path(get, path = "/v1/history/at", params(InstantParams),
    responses((status = 200, body = JobSnapshot), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn at(State(api): State<Arc<Api>>, params: Parsed<InstantParams>) -> Result<Response, Fault> {
    let Query(params) = params?;
    let unix_ms = instant(&params.at)?;
    let query = HistoryQuery::At { job: params.job, unix_ms };
    let HistoryAnswer::At(found) = answered(&api, query).await? else { return Err(Fault::Stopping) };
    Ok(json_response(json(&JobSnapshot::of(&found, unix_ms))))
}

async fn answered(api: &Api, query: HistoryQuery) -> Result<HistoryAnswer, Fault> {
    let (reply, answer) = oneshot::channel();
    api.feed.history.try_send(HistoryRequest { query, reply }).map_err(|error| match error {
        TrySendError::Full(_) => Fault::Busy("too many history queries are waiting".to_owned()),
        TrySendError::Closed(_) => {
            Fault::Refused(Refusal::Failed("history is unavailable: its thread has stopped".to_owned()))
        }
    })?;
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Refusal::NotFound(text))) => Err(Fault::NotInHistory(text)),
        Ok(Err(refusal)) => Err(Fault::Refused(refusal)),
        Err(_dropped) => Err(Fault::Stopping),
    }
}

fn bounded(limit: Option<usize>, (default, most): (usize, usize)) -> usize {
    limit.unwrap_or(default).clamp(1, most)
}

fn span(params: &HistoryParams) -> Result<Span, Fault> {
    let since = params.since.as_deref().map_or(Ok(0), instant)?;
    // SQLite's integers are signed.
    let until = params.until.as_deref().map_or(Ok(i64::MAX as u64), instant)?;
    Ok(Span { since, until })
}

fn instant(text: &str) -> Result<u64, Fault> {
    let read = text.parse().ok().or_else(|| of_utc(text));
    let wrong = || Fault::BadRequest(format!("`{text}` is neither Unix milliseconds nor RFC 3339"));
    read.filter(|unix_ms| *unix_ms <= i64::MAX as u64).ok_or_else(wrong)
}

fn kinds(text: &str) -> Result<Vec<EventKind>, Fault> {
    let wrong = |kind: &str| {
        let known = "`started`, `ended`, `list`, `limit`, `hold`, `runtime`, `command`, `notice`, `holdback`, `health` and `group-stop`";
        Fault::BadRequest(format!("`{kind}` is no kind of event; the kinds are {known}"))
    };
    let parsed = |kind: &str| serde_json::from_value(kind.into()).map_err(|_| wrong(kind));
    text.split(',').map(parsed).collect()
}

fn number(after: Option<&str>) -> Result<u64, Fault> {
    let wrong = |text: &str| Fault::BadRequest(format!("`after` is `{text}`; expected the `next` of a page"));
    after.map_or(Ok(0), |text| text.parse().map_err(|_| wrong(text)))
}

fn place(after: &str) -> Result<(u64, u64), Fault> {
    let (job, unix_ms) = after.split_once('-').unwrap_or((after, ""));
    Ok((number(Some(job))?, number(Some(unix_ms))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_events_are_separated_by_commas_and_unknown_ones_are_refused() {
        assert_eq!(kinds("command,hold"), Ok(vec![EventKind::Command, EventKind::Hold]));
        for wrong in ["", "command,", "limits", "Hold"] {
            assert!(matches!(kinds(wrong), Err(Fault::BadRequest(text)) if text.contains("`holdback`")), "{wrong}");
        }
    }
}
