//! What the daemon runs with. Every value here is valid; reading and checking happened before.

use crate::model::{Bytes, Millis, PolicySettings};
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

/// What may be done so that jobs which share a GPU share it well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuControl {
    /// Nothing: GPUs are only looked at.
    Off,
    /// Jobs are frozen for parts of each period, so that the favoured one keeps its speed.
    DutyCycle,
    /// NVIDIA's MPS divides them, by what jobs asked for at their start; nothing is frozen.
    Mps,
}

/// How much of the past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// Whether anything is.
    pub enabled: bool,
    /// What is older is dropped.
    pub max_age: Millis,
    /// The database's size at most.
    pub max_size: Bytes,
}

impl Default for HistorySettings {
    fn default() -> Self {
        HistorySettings { enabled: true, max_age: Millis::from_secs(30 * 86_400), max_size: Bytes(200_000_000) }
    }
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
    /// Commands that a user who is neither root nor an admin may have governed at a time.
    pub scopes_per_user: usize,
    /// Bytes of all labels of such a user's commands.
    pub scope_label_bytes: Bytes,
    /// Members of this group may read the API.
    pub group: Option<String>,
    /// Users, besides root, that may change things.
    pub admins: Vec<String>,
    /// By which library GPUs are looked at, a name or a path; `None` = they are not.
    pub gpu_library: Option<PathBuf>,
    /// What may be done about GPUs.
    pub gpu_control: GpuControl,
    /// No job is frozen for longer at a time.
    pub freeze_at_most: Millis,
    /// How much of the past is kept.
    pub history: HistorySettings,
}

impl Settings {
    /// The keys that differ in `new` and cannot change while the daemon runs.
    pub fn restart_needed(&self, new: &Settings) -> Vec<&'static str> {
        let differing = [
            ("socket", self.socket != new.socket),
            ("state-dir", self.state_dir != new.state_dir),
            ("engine.address", self.engine != new.engine),
            ("engine.label", self.label != new.label),
            ("scopes.enabled", self.scopes != new.scopes),
            ("scopes.per-user", self.scopes_per_user != new.scopes_per_user),
            ("scopes.label-bytes", self.scope_label_bytes != new.scope_label_bytes),
            ("api.group", self.group != new.group),
            ("api.admins", self.admins != new.admins),
            ("gpu.library", self.gpu_library != new.gpu_library),
            ("history.enabled", self.history.enabled != new.history.enabled),
        ];
        differing.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
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
            scopes_per_user: 64,
            scope_label_bytes: Bytes(64 << 10),
            group: Some("flowcon".to_owned()),
            admins: Vec::new(),
            gpu_library: Some("libnvidia-ml.so.1".into()),
            gpu_control: GpuControl::Off,
            freeze_at_most: Millis(500),
            history: HistorySettings::default(),
        }
    }
}
