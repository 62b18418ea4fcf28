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
    /// What a message about it says, if somebody may want one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<Box<Alert>>,
}

/// The facts for a message about an event: `flowcon-notify` sends them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    /// `done`, `failed`, `killed-for-memory`, `killed`, `stopped`, `ended`, `starving-gpu`, `overfitting`, `late`, `short-of-memory`,
    /// `stalled`, `diverging`, `nan` or `recovered`.
    pub kind: String,
    /// A few words, to follow the name of the job.
    pub words: String,
    /// The evidence and the next step, in sentences.
    pub detail: String,
    /// The user to whom the job belongs.
    pub user: Option<String>,
    /// Names of targets by the label `flowcon.notify`; null if it has none.
    pub notify: Option<Vec<String>>,
    /// Of an end: how long the job ran.
    pub ran_s: Option<u64>,
    /// Of the end of a trial: trials of its sweep that still run.
    pub trials_left: Option<u32>,
}

impl Alert {
    fn of(alert: &model::Alert) -> Alert {
        Alert {
            kind: word(alert.kind),
            words: alert.words.clone(),
            detail: alert.detail.clone(),
            user: alert.user.clone(),
            notify: alert.notify.clone(),
            ran_s: alert.ran_s,
            trials_left: alert.trials_left,
        }
    }
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
            alert: event.alert.as_deref().map(|alert| Box::new(Alert::of(alert))),
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
