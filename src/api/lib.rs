//! The daemon's API: HTTP and JSON on a Unix socket, served from published snapshots, never from the governor itself.
//!
//! Routes map to a closed set of [`Command`]s; wire types are versioned and built by hand from `model`.

pub mod client;
pub mod cluster;
mod server;
pub mod wire;

pub use server::{Access, ApiLimits, BindError, Peer, Right, Socket, bind, serve, serve_cluster};

use hyper::body::Bytes;
use model::{Event, HistoryAnswer, HistoryQuery, NodeStatus, PolicyName};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// Everything that a client may ask the daemon to do. Most reads are not commands but are served from [`Feed`]; `Record` is an exception,
/// because only the daemon's loop has the data.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Restore the original limits of one container (name, id or id prefix) or of all, and stop governing.
    Release(Option<String>),
    /// Govern one container, or all, again; also ends a hold after a foreign change.
    Govern(Option<String>),
    /// Fix the share of one container at this fraction of the node, or at its current share.
    Pin {
        /// Name, id or id prefix.
        name: String,
        /// More than 0, at most 1.
        share: Option<f64>,
    },
    /// Let the policy decide the share of one container again.
    Unpin(String),
    /// Govern a running container that lacks the label as if it had these labels, until it is removed or disowned.
    Adopt {
        /// Name, id or id prefix in its engine.
        name: String,
        /// `flowcon.*` labels.
        labels: BTreeMap<String, String>,
    },
    /// Restore the original limits of an adopted container and stop governing it.
    Disown(String),
    /// Return the learning record of a Swarm service's job, also of one that ended recently, as JSON.
    Record {
        /// The service's id.
        service: String,
    },
    /// Keep the learning record of a Swarm service's job from another node until its container starts here.
    Expect {
        /// The service's id.
        service: String,
        /// The record from the other daemon, as JSON.
        record: String,
    },
    /// Restore all original limits and release everything.
    Restore,
    /// Use another policy until the next reload.
    SetPolicy {
        /// The policy.
        policy: PolicyName,
        /// λ of the default policy, if given.
        objective: Option<f64>,
    },
    /// Read the configuration again; on an error the current one is kept.
    Reload,
}

pub use model::Refusal;

/// A command with a channel for the reply: a message about what was done. `C` is [`Command`], or [`cluster::Wanted`] for a coordinator.
pub struct Request<C> {
    /// The command.
    pub command: C,
    /// The client, for the log: `uid 1000 (pid 4711)`.
    pub requested_by: String,
    /// Receives the reply.
    pub reply: oneshot::Sender<Result<String, Refusal>>,
}

/// What the daemon publishes and the API reads.
#[derive(Clone)]
pub struct Feed {
    /// The latest snapshot.
    pub status: watch::Receiver<Arc<NodeStatus>>,
    /// All current settings, as TOML.
    pub configuration: watch::Receiver<Arc<str>>,
    /// Recent events, for resuming a stream; oldest first, bounded by the daemon. An event is added here before it is sent.
    pub recent: Arc<Mutex<VecDeque<Event>>>,
    /// New events.
    pub events: broadcast::Sender<Event>,
    /// Commands; if the channel is full, the client gets status 503.
    pub commands: mpsc::Sender<Request<Command>>,
    /// Requests for recordings; if the channel is full, the client gets status 503.
    pub recordings: mpsc::Sender<RecordingRequest>,
    /// History queries; if the channel is full, the client gets status 503.
    pub history: mpsc::Sender<HistoryRequest>,
}

/// A history query with a channel for the reply.
pub struct HistoryRequest {
    /// The query.
    pub query: HistoryQuery,
    /// Receives the reply.
    pub reply: oneshot::Sender<Result<HistoryAnswer, Refusal>>,
}

/// A request for a recording of all ticks from now on.
pub struct RecordingRequest {
    /// Receives the lines of a [recording](model::RecordingLine), each with its line feed, the header first. The daemon drops it
    /// if there are too many recordings, and when the reader falls behind.
    pub lines: mpsc::Sender<Bytes>,
}
