//! What a coordinator publishes and its API reads, and the requests that come in. Imports: model.

use super::Refusal;
use crate::model::cluster::{ClusterCommand, ClusterStatus, Submission};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot, watch};

/// What somebody wants of the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// A service that waits in the queue.
    Submission(Box<Submission>),
    /// Something with jobs and nodes that are there.
    Command(ClusterCommand),
}

/// A request with the place for its answer: what was done, in words.
pub struct ClusterRequest {
    /// What to do.
    pub wanted: Wanted,
    /// Who asked, for the log: `uid 1000 (pid 4711)`.
    pub asked_by: String,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<String, Refusal>>,
}

/// Something that the coordinator did or noticed.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterEvent {
    /// Counts up from 1.
    pub number: u64,
    /// When, Unix time in milliseconds.
    pub unix_ms: u64,
    /// The job, by the service's name.
    pub job: Option<Arc<str>>,
    /// In words.
    pub text: String,
}

/// What the coordinator publishes and the API reads.
#[derive(Clone)]
pub struct ClusterFeed {
    /// The latest status.
    pub status: watch::Receiver<Arc<ClusterStatus>>,
    /// Recent events, oldest first, bounded by the coordinator.
    pub recent: Arc<Mutex<VecDeque<ClusterEvent>>>,
    /// Moves that came to an end since it started.
    pub moves: watch::Receiver<u64>,
    /// Commands go here; a full channel is answered 503.
    pub commands: mpsc::Sender<ClusterRequest>,
}
