//! What the daemon runs with. Every value here is valid; reading and checking happened before.

use crate::model::PolicySettings;
use std::path::PathBuf;

/// Which engine to govern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// `DOCKER_HOST`, or the first usual socket that exists.
    Auto,
    /// No engine: scopes only.
    Off,
    /// This address.
    At(String),
}

/// What to do with the limits when the daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// Put the originals back.
    Restore,
    /// Leave ours standing for the next daemon.
    Keep,
}

/// Everything that the daemon can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the API listens; scopes register beside it.
    pub socket: PathBuf,
    /// Where the journal of originals lives.
    pub state_dir: PathBuf,
    /// What happens to the limits at the end.
    pub on_exit: OnExit,
    /// How to decide.
    pub policy: PolicySettings,
    /// Which engine.
    pub engine: EngineChoice,
    /// Containers with this label are governed, `key=value`.
    pub label: String,
    /// Whether `flowctl run` registers here.
    pub scopes: bool,
    /// Members of this group may read the API.
    pub group: Option<String>,
    /// Users, besides root, that may change things.
    pub admins: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            socket: "/run/flowcon/flowcond.sock".into(),
            state_dir: "/var/lib/flowcon".into(),
            on_exit: OnExit::Restore,
            policy: PolicySettings::default(),
            engine: EngineChoice::Auto,
            label: "flowcon.enable=true".to_owned(),
            scopes: true,
            group: Some("flowcon".to_owned()),
            admins: Vec::new(),
        }
    }
}
