//! The daemon's door: HTTP + JSON on a Unix socket, served from published snapshots, never from the governor itself.
//!
//! Routes become a closed [`Command`]; wire types are versioned and written by hand from `model`. Imports: model only.

pub mod client;
pub mod cluster;
mod server;
pub mod wire;

pub use server::{Access, ApiLimits, BindError, Peer, Right, Socket, bind, serve, serve_cluster};

use crate::model::{Event, HistoryAnswer, HistoryQuery, NodeStatus, PolicyName};
use hyper::body::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// Everything that a client may ask the daemon to do. Reading is not a command: it is served from [`Feed`], but for what only the loop knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Leave one container (name, id or id prefix) or all of them alone, with their original limits.
    Pause(Option<String>),
    /// Govern it, or all, again; also ends a hold after a foreign change.
    Resume(Option<String>),
    /// Hold the share of one container at this fraction of the node, or where it is.
    Pin {
        /// Name, id or id prefix.
        name: String,
        /// More than 0, at most 1.
        share: Option<f64>,
    },
    /// Let the policy decide about its share again.
    Unpin(String),
    /// Govern a running container that lacks the label, as if it had these, until it is removed or disowned.
    Adopt {
        /// Name, id or id prefix, as its engine knows it.
        name: String,
        /// `flowcon.*` labels.
        labels: BTreeMap<String, String>,
    },
    /// Put the original limits of an adopted container back and forget it.
    Disown(String),
    /// Tell what is known of the learning of a Swarm service's job, also of one that ended a while ago, as JSON.
    Record {
        /// The service's id.
        service: String,
    },
    /// Keep what another node's daemon knew of a Swarm service's job until its container begins here.
    Expect {
        /// The service's id.
        service: String,
        /// What that daemon told, as JSON.
        record: String,
    },
    /// Put every original limit back and pause everything.
    Restore,
    /// Use another policy until the next reload.
    SetPolicy {
        /// The policy.
        policy: PolicyName,
        /// λ of the default policy, where given.
        objective: Option<f64>,
    },
    /// Read the configuration again; the old one stays on an error.
    Reload,
}

pub use crate::model::Refusal;

/// A command with the place for its answer: what was done, in words.
pub struct Request {
    /// What to do.
    pub command: Command,
    /// Who asked, for the journal: `uid 1000 (pid 4711)`.
    pub asked_by: String,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<String, Refusal>>,
}

/// What the daemon publishes and the API reads.
#[derive(Clone)]
pub struct Feed {
    /// The latest snapshot.
    pub status: watch::Receiver<Arc<NodeStatus>>,
    /// Every setting in force, as TOML.
    pub configuration: watch::Receiver<Arc<str>>,
    /// Recent events, to resume a stream from; oldest first, bounded by the daemon. An event is put here before it is sent.
    pub recent: Arc<Mutex<VecDeque<Event>>>,
    /// Events as they happen.
    pub events: broadcast::Sender<Event>,
    /// Commands go here; a full channel is answered 503.
    pub commands: mpsc::Sender<Request>,
    /// Who wants a recording says so here; a full channel is answered 503.
    pub recordings: mpsc::Sender<RecordingRequest>,
    /// Questions about the past; a full channel is answered 503.
    pub history: mpsc::Sender<HistoryRequest>,
}

/// A question about the past with the place for its answer.
pub struct HistoryRequest {
    /// What is asked.
    pub query: HistoryQuery,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<HistoryAnswer, Refusal>>,
}

/// Somebody wants every tick from now on.
pub struct RecordingRequest {
    /// Where the lines of a [recording](crate::model::RecordingLine) go, each with its line feed, the header first. The daemon drops it
    /// when it cannot record for one more, and when the reader falls behind.
    pub lines: mpsc::Sender<Bytes>,
}
