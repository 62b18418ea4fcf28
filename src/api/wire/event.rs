//! The events of `/v1/events`.

use super::word;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event: the `data` of a server-sent event whose name is `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Sequence number, from 1 since the daemon started.
    pub sequence: u64,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// `started`, `ended`, `list`, `limit`, `hold`, `runtime`, `command`, `notice`, `holdback`, `health` or `group-stop`.
    pub kind: String,
    /// Id of the container, if the event concerns one.
    pub container: Option<String>,
    /// Name of the container, if the event concerns one.
    pub name: Option<String>,
    /// Message.
    pub text: String,
}

impl Event {
    /// Converts an event of the model.
    pub fn of(event: &model::Event) -> Event {
        Event {
            sequence: event.sequence,
            unix_ms: event.unix_ms,
            kind: word(event.kind),
            container: event.container.clone(),
            name: event.name.clone(),
            text: event.text.clone(),
        }
    }
}

/// Events that are no longer available: the `data` of a server-sent event named `gap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// Number of lost events; null if the daemon was restarted in between.
    pub lost: Option<u64>,
    /// Message.
    pub text: String,
}
