//! The events of `/v1/events`. Imports: model.

use super::word;
use crate::model;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One thing that happened: the `data` of a server-sent event whose name is `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counts up by one from 1 since the daemon started.
    pub sequence: u64,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// `started`, `ended`, `list`, `limit`, `hold`, `runtime`, `command` or `notice`.
    pub kind: String,
    /// The container's id, where it is about one.
    pub container: Option<String>,
    /// The container's name, where it is about one.
    pub name: Option<String>,
    /// In words.
    pub text: String,
}

impl Event {
    /// The wire form.
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

/// Events that can no longer be told: the `data` of a server-sent event named `gap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// How many were lost; null when the daemon was restarted in between.
    pub lost: Option<u64>,
    /// In words.
    pub text: String,
}
