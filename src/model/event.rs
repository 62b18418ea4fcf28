//! Events for `flowctl events` and the SSE stream: small, numbered, and kept for a limited time.

use super::Alert;
use serde::{Deserialize, Serialize};

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A governed container was found or started.
    Started,
    /// A governed container ended.
    Ended,
    /// A container changed its list.
    List,
    /// A limit was written.
    Limit,
    /// A container was put on hold or released from it.
    Hold,
    /// A runtime was connected or lost, or renamed a container.
    Runtime,
    /// An operator's command was executed.
    Command,
    /// A notice was raised.
    Notice,
    /// A control period of the holdback began or ended.
    Holdback,
    /// A job got into trouble, or recovered.
    Health,
    /// A trial that has lost in its sweep is stopped, as its label asks.
    GroupStop,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Number of the event, from 1 since the daemon started.
    pub sequence: u64,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// Id of the container, if the event concerns one.
    pub container: Option<String>,
    /// Name of the container, if the event concerns one.
    pub name: Option<String>,
    /// The event in words.
    pub text: String,
    /// What a message about it says, if somebody may want one.
    pub alert: Option<Box<Alert>>,
}
