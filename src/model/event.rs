//! What happened, for `flowctl events` and the SSE stream: small, numbered, kept for a while.

use serde::{Deserialize, Serialize};

/// The kinds of things that happen.
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
    /// A container is left alone from now on, or no longer.
    Hold,
    /// A runtime was connected or lost.
    Runtime,
    /// An operator's command was carried out.
    Command,
    /// A notice was raised.
    Notice,
    /// A control period of the holdback began or ended.
    Holdback,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Counts up by one from 1 since the daemon started.
    pub sequence: u64,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// What kind.
    pub kind: EventKind,
    /// The container's id, where it is about one.
    pub container: Option<String>,
    /// The container's name, where it is about one.
    pub name: Option<String>,
    /// In words.
    pub text: String,
}
