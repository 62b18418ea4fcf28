//! Settings of the daemon. Every value is valid; it was parsed and checked before.

use super::notify::TargetSettings;
use super::users::UserSettings;
use model::{Bytes, Millis, PolicySettings};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The engine to govern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// `DOCKER_HOST`, or the first standard socket that exists.
    Auto,
    /// No engine: scopes only.
    Off,
    /// The engine at this address.
    At(String),
    /// The pods of the container runtime at this socket, and the containers that are in none.
    Pods(PathBuf),
}

/// What happens to the limits when the daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// The original limits are restored.
    Restore,
    /// The planned limits are left to the next daemon.
    Keep,
}

/// How jobs that share a GPU are controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuControl {
    /// GPUs are only observed.
    Off,
    /// Jobs are frozen for part of each period, so that the preferred one keeps its speed.
    DutyCycle,
    /// NVIDIA MPS divides the GPUs, by the shares that jobs requested at their start; nothing is frozen.
    Mps,
}

/// Settings of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// Whether the history is recorded.
    pub enabled: bool,
    /// Maximum age of records.
    pub max_age: Millis,
    /// Maximum size of the database.
    pub max_size: Bytes,
}

impl Default for HistorySettings {
    fn default() -> Self {
        HistorySettings { enabled: true, max_age: Millis::from_secs(30 * 86_400), max_size: Bytes(200_000_000) }
    }
}

/// All settings of the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Path of the API socket; scopes register on a socket beside it.
    pub socket: PathBuf,
    /// Directory of the journal of original limits.
    pub state_dir: PathBuf,
    /// What happens to the limits when the daemon stops.
    pub on_exit: OnExit,
    /// Settings of the policy.
    pub policy: PolicySettings,
    /// Users between whom the node can be divided.
    pub users: UserSettings,
    /// The engine.
    pub engine: EngineChoice,
    /// Label of governed containers, `key=value`.
    pub label: String,
    /// Whether commands of `flowctl run` are governed.
    pub scopes: bool,
    /// Maximum number of governed commands per user, except for root and admins.
    pub scopes_per_user: usize,
    /// Maximum size of all labels of such a user's commands.
    pub scope_label_bytes: Bytes,
    /// Group whose members may read the API.
    pub group: Option<String>,
    /// Users other than root that may change things.
    pub admins: Vec<String>,
    /// Name or path of the library used to observe GPUs; `None` = GPUs are not observed.
    pub gpu_library: Option<PathBuf>,
    /// How GPUs are controlled.
    pub gpu_control: GpuControl,
    /// The longest time that a job is frozen without a break.
    pub freeze_at_most: Millis,
    /// Settings of the history.
    pub history: HistorySettings,
    /// Targets of messages by name.
    pub notify: BTreeMap<String, TargetSettings>,
}

impl Settings {
    /// Returns the keys that differ in `new` and cannot be changed while the daemon is running.
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
            users: UserSettings::default(),
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
            notify: BTreeMap::new(),
        }
    }
}
