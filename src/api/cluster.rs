//! The interface between a coordinator and its API: published status and events, and incoming requests.

use super::Request;
use model::cluster::{ClusterCommand, ClusterStatus, Submission};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};

/// What a client asks the coordinator to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Queue new services: all or none.
    Submissions(Vec<Submission>),
    /// The output of a job: lines that each begin with their time.
    Output {
        /// The job.
        job: String,
        /// Only lines after this time, in the form of the lines.
        after: Option<String>,
        /// Maximum number of lines, the last ones.
        tail: u32,
    },
    /// Act on existing jobs or nodes.
    Command(ClusterCommand),
}

/// An action or observation of the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterEvent {
    /// Sequence number, from 1.
    pub number: u64,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Service name of the job.
    pub job: Option<Arc<str>>,
    /// Message.
    pub text: String,
}

/// What the coordinator publishes and the API reads.
#[derive(Clone)]
pub struct ClusterFeed {
    /// The latest status.
    pub status: watch::Receiver<Arc<ClusterStatus>>,
    /// Recent events, oldest first, bounded by the coordinator.
    pub recent: Arc<Mutex<VecDeque<ClusterEvent>>>,
    /// Number of moves completed since it started.
    pub moves: watch::Receiver<u64>,
    /// Commands; if the channel is full, the client gets status 503.
    pub commands: mpsc::Sender<Request<Wanted>>,
}
