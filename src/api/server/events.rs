//! `/v1/events`: a resumable stream of server-sent events.
//!
//! The id of an event is `RUN-SEQUENCE`. RUN identifies a run of the daemon, so that a client that reconnects after a restart receives a
//! gap instead of other events with the same numbers.

use super::access::Peer;
use super::problem::Fault;
use super::shared::Api;
use crate::wire::{Event, Gap, Problem};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
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

/// Query parameters of a stream: where it begins and ends.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamParams {
    /// Begin after this event id (same as the header `Last-Event-ID`).
    after: Option<String>,
    /// Begin with this many recent events.
    recent: Option<usize>,
    /// `false`: end after the recent events.
    follow: Option<bool>,
}

/// Stream of new events; with `Last-Event-ID` from there on, with a `gap` event if some are no longer available.
#[utoipa::path(get, path = "/v1/events", params(StreamParams),
    responses((status = 200, body = Event, content_type = "text/event-stream"), (status = 503, body = Problem)))]
pub(super) async fn stream(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    params: Result<Query<StreamParams>, QueryRejection>,
) -> Result<Response, Fault> {
    let Query(params) = params?;
    let resumed = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("").to_owned());
    let slot = api.stream_place(&peer)?;
    // Subscribe before reading recent events, so that no event is lost in between.
    let live = api.feed.events.subscribe();
    let follow = params.follow.unwrap_or(true);
    let cursor = EventCursor::begin(&api, params, resumed)?;
    let messages = messages(cursor, live, follow, api.closed.clone(), slot);
    Ok(Sse::new(messages).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

type Message = Result<sse::Event, Infallible>;

fn messages(
    mut cursor: EventCursor,
    live: Receiver<model::Event>,
    follow: bool,
    mut closed: watch::Receiver<bool>,
    slot: OwnedSemaphorePermit,
) -> impl Stream<Item = Message> + Send {
    let past = cursor.catch_up();
    let present = stream::unfold((cursor, live, slot), |(mut cursor, mut live, slot)| async move {
        let messages = match live.recv().await {
            Ok(event) => cursor.send_live(&event),
            Err(RecvError::Lagged(_)) => cursor.catch_up(),
            Err(RecvError::Closed) => return None,
        };
        Some((stream::iter(messages), (cursor, live, slot)))
    })
    .flatten()
    .take_until(async move {
        // An error means that the server has stopped, which also ends the stream.
        let _ = closed.wait_for(|closed| *closed).await;
    });
    let present = if follow { present.left_stream() } else { stream::empty().right_stream() };
    stream::iter(past).chain(present)
}

/// Position of a client in the events; each event is sent once and in order.
struct EventCursor {
    api: Arc<Api>,
    next: u64,
    restarted: bool,
}

impl EventCursor {
    fn begin(api: &Arc<Api>, params: StreamParams, resumed: Option<String>) -> Result<EventCursor, Fault> {
        let newest = recent(api, |events| events.back().map_or(0, |event| event.sequence));
        let fresh = EventCursor { api: api.clone(), next: newest + 1, restarted: false };
        if let Some(id) = resumed.or(params.after) {
            let (run, sequence) = parsed(&id)
                .ok_or_else(|| Fault::BadRequest(format!("`{id}` is not an event id such as {}-17", api.run)))?;
            let same_run = run.is_none_or(|run| run == api.run) && sequence <= newest;
            let next = if same_run { sequence + 1 } else { 1 };
            return Ok(EventCursor { next, restarted: !same_run, ..fresh });
        }
        let back = u64::try_from(params.recent.unwrap_or(0)).unwrap_or(u64::MAX);
        let oldest = recent(api, |events| events.front().map_or(newest + 1, |event| event.sequence));
        Ok(EventCursor { next: (newest + 1).saturating_sub(back).max(oldest), ..fresh })
    }

    /// Returns the kept events that were not sent, after a gap if some are missing.
    fn catch_up(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        if std::mem::take(&mut self.restarted) {
            messages.push(gap(None, "the daemon was restarted: earlier events are lost"));
        }
        let missed: Vec<model::Event> =
            recent(&self.api, |events| events.iter().filter(|event| event.sequence >= self.next).cloned().collect());
        for event in &missed {
            messages.extend(self.send(event));
        }
        messages
    }

    /// Returns a new event. If its sequence number is ahead, the kept events before it come first.
    fn send_live(&mut self, event: &model::Event) -> Vec<Message> {
        let mut messages = if event.sequence > self.next { self.catch_up() } else { Vec::new() };
        messages.extend(self.send(event));
        messages
    }

    fn send(&mut self, event: &model::Event) -> Vec<Message> {
        let mut messages = Vec::new();
        if event.sequence < self.next {
            return messages;
        }
        if event.sequence > self.next {
            let lost = event.sequence - self.next;
            messages.push(gap(Some(lost), "events were lost: they are no longer kept"));
        }
        self.next = event.sequence + 1;
        messages.push(self.message(event));
        messages
    }

    fn message(&self, event: &model::Event) -> Message {
        let event = Event::of(event);
        let id = format!("{}-{}", self.api.run, event.sequence);
        Ok(data(sse::Event::default().id(id).event(&event.kind), &event))
    }
}

fn gap(lost: Option<u64>, text: &str) -> Message {
    Ok(data(sse::Event::default().event("gap"), &Gap { lost, text: text.to_owned() }))
}

fn data<T: serde::Serialize>(event: sse::Event, document: &T) -> sse::Event {
    event.json_data(document).expect("wire types always serialise")
}

fn recent<T>(api: &Api, read: impl FnOnce(&VecDeque<model::Event>) -> T) -> T {
    // The queue is valid even if a writer panicked: it always contains whole events.
    read(&api.feed.recent.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Parses `RUN-SEQUENCE`, or a sequence number of the current run.
fn parsed(id: &str) -> Option<(Option<u64>, u64)> {
    match id.split_once('-') {
        Some((run, sequence)) => Some((Some(run.parse().ok()?), sequence.parse().ok()?)),
        None => Some((None, id.parse().ok()?)),
    }
}
