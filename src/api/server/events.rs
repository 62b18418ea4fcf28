//! `/v1/events`: what happens, as server-sent events that can be resumed.
//!
//! An event's id is `RUN-SEQUENCE`; RUN tells daemons apart, so that a client that comes back after a restart is told of the
//! gap instead of being given other events under numbers it has seen. Imports: siblings, axum.

use super::problem::Fault;
use super::shared::Api;
use crate::api::wire::{Event, Gap, Problem};
use crate::model;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::IntoParams;

/// Where a stream begins and ends.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Begin after this event id (`Last-Event-ID` says the same).
    after: Option<String>,
    /// Begin with so many events of the past.
    recent: Option<usize>,
    /// `false`: end after the events of the past.
    follow: Option<bool>,
}

/// Events as they happen; with `Last-Event-ID` from there on, and a `gap` event where some can no longer be told.
#[utoipa::path(get, path = "/v1/events", params(Wanted),
    responses((status = 200, body = Event, content_type = "text/event-stream"), (status = 503, body = Problem)))]
pub(super) async fn stream(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, Fault> {
    let Query(wanted) = wanted?;
    let resumed = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("").to_owned());
    let place = (api.streams.clone().try_acquire_owned())
        .map_err(|_| Fault::Busy("too many event streams are open".to_owned()))?;
    // Subscribed before the past is read: nothing can fall between the two.
    let live = api.feed.events.subscribe();
    let follow = wanted.follow.unwrap_or(true);
    let cursor = EventCursor::begin(&api, wanted, resumed)?;
    let told = telling(cursor, live, follow, api.closed.clone(), place);
    Ok(Sse::new(told).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

type Told = Result<sse::Event, Infallible>;

fn telling(
    mut cursor: EventCursor,
    live: Receiver<model::Event>,
    follow: bool,
    mut closed: watch::Receiver<bool>,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Told> + Send {
    let past = cursor.catch_up();
    let present = stream::unfold((cursor, live, place), |(mut cursor, mut live, place)| async move {
        let told = match live.recv().await {
            Ok(event) => cursor.tell_live(&event),
            Err(RecvError::Lagged(_)) => cursor.catch_up(),
            Err(RecvError::Closed) => return None,
        };
        Some((stream::iter(told), (cursor, live, place)))
    })
    .flatten()
    .take_until(async move {
        // An error means that the server is gone, which ends the stream too.
        let _ = closed.wait_for(|closed| *closed).await;
    });
    let present = if follow { present.left_stream() } else { stream::empty().right_stream() };
    stream::iter(past).chain(present)
}

/// Knows which event a client has not been told yet, and tells each once and in order.
struct EventCursor {
    api: Arc<Api>,
    next: u64,
    restarted: bool,
}

impl EventCursor {
    fn begin(api: &Arc<Api>, wanted: Wanted, resumed: Option<String>) -> Result<EventCursor, Fault> {
        let newest = recent(api, |events| events.back().map_or(0, |event| event.sequence));
        let fresh = EventCursor { api: api.clone(), next: newest + 1, restarted: false };
        if let Some(id) = resumed.or(wanted.after) {
            let (run, sequence) = parsed(&id)
                .ok_or_else(|| Fault::BadRequest(format!("`{id}` is not an event id such as {}-17", api.run)))?;
            let same_run = run.is_none_or(|run| run == api.run) && sequence <= newest;
            let next = if same_run { sequence + 1 } else { 1 };
            return Ok(EventCursor { next, restarted: !same_run, ..fresh });
        }
        let back = u64::try_from(wanted.recent.unwrap_or(0)).unwrap_or(u64::MAX);
        let oldest = recent(api, |events| events.front().map_or(newest + 1, |event| event.sequence));
        Ok(EventCursor { next: (newest + 1).saturating_sub(back).max(oldest), ..fresh })
    }

    /// What is still kept and was not told, preceded by a gap where something is missing.
    fn catch_up(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        if std::mem::take(&mut self.restarted) {
            told.push(gap(None, "the daemon was restarted: earlier events are gone"));
        }
        let missed: Vec<model::Event> =
            recent(&self.api, |events| events.iter().filter(|event| event.sequence >= self.next).cloned().collect());
        for event in &missed {
            told.extend(self.tell(event));
        }
        told
    }

    /// An event that is ahead of its turn overtook others that are still kept.
    fn tell_live(&mut self, event: &model::Event) -> Vec<Told> {
        let mut told = if event.sequence > self.next { self.catch_up() } else { Vec::new() };
        told.extend(self.tell(event));
        told
    }

    fn tell(&mut self, event: &model::Event) -> Vec<Told> {
        let mut told = Vec::new();
        if event.sequence < self.next {
            return told;
        }
        if event.sequence > self.next {
            let lost = event.sequence - self.next;
            told.push(gap(Some(lost), "events were lost: they are no longer kept"));
        }
        self.next = event.sequence + 1;
        told.push(self.told(event));
        told
    }

    fn told(&self, event: &model::Event) -> Told {
        let event = Event::of(event);
        let id = format!("{}-{}", self.api.run, event.sequence);
        Ok(data(sse::Event::default().id(id).event(&event.kind), &event))
    }
}

fn gap(lost: Option<u64>, text: &str) -> Told {
    Ok(data(sse::Event::default().event("gap"), &Gap { lost, text: text.to_owned() }))
}

fn data<T: serde::Serialize>(event: sse::Event, document: &T) -> sse::Event {
    event.json_data(document).expect("wire types always serialise")
}

fn recent<T>(api: &Api, read: impl FnOnce(&VecDeque<model::Event>) -> T) -> T {
    // A writer that panicked leaves a queue of whole events: still fit to be read.
    read(&api.feed.recent.lock().unwrap_or_else(PoisonError::into_inner))
}

/// `RUN-SEQUENCE`, or a bare sequence of the present run.
fn parsed(id: &str) -> Option<(Option<u64>, u64)> {
    match id.split_once('-') {
        Some((run, sequence)) => Some((Some(run.parse().ok()?), sequence.parse().ok()?)),
        None => Some((None, id.parse().ok()?)),
    }
}
