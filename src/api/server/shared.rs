//! State shared by all handlers: the daemon's feed, limits, slots for streams, and counters.

use super::access::Peer;
use super::places::Places;
use super::problem::Fault;
use super::snapshot::Snapshots;
use crate::Feed;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Limits on the resources that clients may use.
#[derive(Clone, Debug)]
pub struct ApiLimits {
    /// Maximum concurrent connections.
    pub connections: usize,
    /// Additional connections, streams and rejections for peers with full control, so that readers cannot lock them out.
    pub reserved: usize,
    /// Further ones for root and the daemon's user, so that nobody can lock them out.
    pub root: usize,
    /// Maximum concurrent event streams and recordings; each uses a connection.
    pub streams: usize,
    /// Maximum concurrent connections that receive only an error; further connections are closed without an answer.
    pub rejections: usize,
    /// Maximum bytes of a request body.
    pub body: usize,
    /// Maximum bytes of a request head, at least 8 KiB.
    pub head: usize,
    /// Timeout for a request head, and for an idle connection between two requests.
    pub head_time: Duration,
    /// Timeout for a request body, for its answer, and for each write to a client that reads slowly; a whole answer gets six times as long.
    pub request_time: Duration,
    /// Time for open connections to finish when the daemon stops.
    pub close_time: Duration,
}

impl Default for ApiLimits {
    fn default() -> Self {
        ApiLimits {
            connections: 64,
            reserved: 8,
            root: 4,
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

impl ApiLimits {
    /// Creates `everyone` places, and the further ones.
    pub(super) fn places(&self, everyone: usize) -> Places {
        Places::new([everyone, self.reserved, self.root])
    }
}

/// State shared by all handlers.
pub(super) struct Api {
    pub(super) feed: Feed,
    pub(super) snapshots: Snapshots,
    pub(super) limits: ApiLimits,
    pub(super) streams: Places,
    pub(super) counters: Arc<Counters>,
    pub(super) closed: watch::Receiver<bool>,
    /// Identifies this run of the daemon in event ids.
    pub(super) run: u64,
}

impl Api {
    pub(super) fn new(feed: Feed, limits: ApiLimits, closed: watch::Receiver<bool>) -> Arc<Api> {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Arc::new(Api {
            snapshots: Snapshots::new(feed.clone()),
            feed,
            streams: limits.places(limits.streams),
            limits,
            counters: Arc::default(),
            closed,
            run: u64::try_from(started.as_millis()).unwrap_or_default(),
        })
    }

    /// Takes the place of a stream of events or a recording.
    pub(super) fn stream_place(&self, peer: &Peer) -> Result<OwnedSemaphorePermit, Fault> {
        let busy = || {
            let at_most = self.streams.at_most(peer);
            Fault::Busy(format!("busy: too many event streams and recordings are open (at most {at_most})"))
        };
        self.streams.take(peer).ok_or_else(busy)
    }
}

/// Counters of the API, by class of answer.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) succeeded: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) connections_refused: AtomicU64,
}

impl Counters {
    /// Counts an answered request.
    pub(super) fn answered(&self, status: StatusCode) {
        let class = match status.as_u16() {
            500.. => &self.failed,
            400.. => &self.refused,
            _ => &self.succeeded,
        };
        class.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a refused connection.
    pub(super) fn refused(&self, fault: &Fault) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(?fault, "refused a connection to the API socket");
    }
}

pub(super) fn json_response(document: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}
