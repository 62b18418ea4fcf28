//! What every handler shares: the daemon's feed, bounds, places for streams, and counters. Imports: siblings, axum.

use super::problem::Fault;
use super::snapshot::Snapshots;
use crate::api::Feed;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::{Semaphore, watch};

/// What clients may use up.
#[derive(Clone, Debug)]
pub struct ApiLimits {
    /// Connections of readers at once.
    pub connections: usize,
    /// Further connections that only those who may change things can have, so that readers never lock root out.
    pub reserved: usize,
    /// Event streams at once; each takes a connection.
    pub streams: usize,
    /// Connections at once that are only told why they are refused; beyond them a connection is closed without a word.
    pub rejections: usize,
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of a request's head, at least 8 KiB.
    pub head: usize,
    /// Time for a request's head; also how long a connection may idle between two requests.
    pub head_time: Duration,
    /// Time for a request's body and, again, for its answer; also how long a client may leave an answer unread.
    pub request_time: Duration,
    /// Time that open connections have to finish when the daemon stops.
    pub close_time: Duration,
}

impl Default for ApiLimits {
    fn default() -> Self {
        ApiLimits {
            connections: 64,
            reserved: 8,
            streams: 16,
            rejections: 16,
            body: 16 * 1024,
            head: 16 * 1024,
            head_time: Duration::from_secs(5),
            request_time: Duration::from_secs(10),
            close_time: Duration::from_secs(2),
        }
    }
}

/// What every handler shares.
pub(super) struct Api {
    pub(super) feed: Feed,
    pub(super) snapshots: Snapshots,
    pub(super) limits: ApiLimits,
    pub(super) streams: Arc<Semaphore>,
    pub(super) counters: Arc<Counters>,
    pub(super) closed: watch::Receiver<bool>,
    /// Tells this daemon's events from those of the one before it.
    pub(super) run: u64,
}

impl Api {
    pub(super) fn new(feed: Feed, limits: ApiLimits, closed: watch::Receiver<bool>) -> Arc<Api> {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Arc::new(Api {
            snapshots: Snapshots::new(feed.clone()),
            feed,
            streams: Arc::new(Semaphore::new(limits.streams)),
            limits,
            counters: Arc::default(),
            closed,
            run: u64::try_from(started.as_millis()).unwrap_or_default(),
        })
    }
}

/// What the API itself counts; classes of answers, not paths, keep it small.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) succeeded: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) connections_refused: AtomicU64,
}

impl Counters {
    /// One request was answered.
    pub(super) fn answered(&self, status: StatusCode) {
        let class = match status.as_u16() {
            500.. => &self.failed,
            400.. => &self.refused,
            _ => &self.succeeded,
        };
        class.fetch_add(1, Ordering::Relaxed);
    }

    /// One connection was refused.
    pub(super) fn refused(&self, fault: &Fault) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(?fault, "refused a connection to the API socket");
    }
}

pub(super) fn json_response(document: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}
