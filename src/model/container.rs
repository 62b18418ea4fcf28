//! Identity of a governed container, and what its owner requested by label.

use super::{Bytes, Hints, Millis, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The engine's full container id, or `scope:NAME` for a command started by `flowctl run`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContainerId(Arc<str>);

impl ContainerId {
    /// Wraps an identifier as spelled by the runtime.
    pub fn new(id: &str) -> Self {
        ContainerId(id.into())
    }

    /// Returns the whole identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns twelve characters, as printed by `docker ps`; an id that is made of names is returned whole.
    pub fn short(&self) -> &str {
        if self.0.contains([':', '/']) { &self.0 } else { self.0.get(..12).unwrap_or(&self.0) }
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// The runtime of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// An engine that speaks the Docker Engine API.
    Docker,
    /// A command in its own cgroup, started by `flowctl run`.
    Scope,
    /// A pod, with all its containers.
    Pod,
    /// A container of containerd that is in no pod, such as of nerdctl or ctr.
    Containerd,
}

/// Whether the processes of a container can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Running.
    Running,
    /// Frozen by `docker pause` or the freezer.
    Paused,
}

/// Why the governor leaves an observed container alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// An operator ran `flowctl release`. Earlier recordings call it `operator`.
    #[serde(alias = "operator")]
    Released,
    /// Someone else changed a limit, so flowcon no longer writes it. The text names the file, our value and the value found.
    Foreign(String),
    /// The container's processes were moved out of its cgroup, into the one that the text names: its limits apply to none of them.
    Moved(String),
    /// The daemon has just started, or found the container already running: one full interval is observed first.
    Settling,
    /// The limits could not be written or read back. The text says what failed.
    Unwritable(String),
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::Released => f.write_str("an operator released it"),
            Hold::Foreign(change) => write!(f, "somebody else changed a limit, so it is left alone: {change}"),
            Hold::Moved(cgroup) => {
                write!(f, "its processes were moved to the cgroup {cgroup}, where they have other limits")
            }
            Hold::Settling => f.write_str("found already running: observed for one full interval first"),
            Hold::Unwritable(failure) => write!(f, "its limits could not be written: {failure}"),
        }
    }
}

/// Limits in the units of the engine, as shown by `docker inspect`; 0 = never set, −1 = set to unlimited.
///
/// Kept beside [`super::Limits`], which is rounded to the governor's units: restoring 777 `cpu_shares` needs the exact number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineLimits {
    /// `HostConfig.CpuShares`.
    pub cpu_shares: i64,
    /// `HostConfig.NanoCpus`: what `--cpus` sets, billionths of a core.
    pub nano_cpus: i64,
    /// `HostConfig.CpuQuota`, microseconds a period.
    pub cpu_quota: i64,
    /// `HostConfig.CpuPeriod`, microseconds; 0 means the kernel's 100,000.
    pub cpu_period: i64,
    /// `HostConfig.Memory`: the hard limit, bytes.
    pub memory: i64,
    /// `HostConfig.MemoryReservation`, bytes.
    pub memory_reservation: i64,
    /// `HostConfig.BlkioWeight`, 10 ..= 1,000.
    pub blkio_weight: i64,
}

/// Identifies an engine. A container that one engine does not know may exist on another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineMark {
    /// The id of the engine, if it does not change between restarts.
    pub id: Option<String>,
    /// The path of its socket, symbolic links resolved.
    pub socket: String,
}

impl EngineMark {
    /// Whether these are two different engines. Ids are compared first, because a socket may have moved.
    pub fn is_other(&self, other: &EngineMark) -> bool {
        match (&self.id, &other.id) {
            (Some(id), Some(other)) => id != other,
            _ => self.socket != other.socket,
        }
    }
}

/// The range of shares that the owner allows, from `flowcon.min-share` and `flowcon.max-share`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The smallest share to plan (0 = no bound).
    pub min: Share,
    /// The largest share to plan (1 = no bound).
    pub max: Share,
}

impl Bounds {
    /// Returns the share if both bounds are equal, as for a pinned container.
    pub fn fixed(self) -> Option<Share> {
        (self.min == self.max && self.min > Share::NONE).then_some(self.min)
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { min: Share::NONE, max: Share::ALL }
    }
}

/// An operator's request to govern a container without the label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The name of the container at that time.
    pub name: String,
    /// Time of the request, Unix time in milliseconds.
    pub unix_ms: u64,
    /// `flowcon.*` labels that the container is treated as having, in addition to its own labels.
    pub labels: BTreeMap<String, String>,
}

/// The parsed `flowcon.*` labels of a container; see `config::labels`.
#[derive(Clone, Debug, PartialEq)]
pub struct Directives {
    /// `flowcon.min-share`, `flowcon.max-share`.
    pub bounds: Bounds,
    /// `flowcon.weight`: importance relative to other jobs, 1 by default, 0.01 ..= 100.
    pub weight: f64,
    /// `flowcon.log`: a file (or directory) inside the container that is read instead of its output.
    pub log: Option<String>,
    /// `flowcon.metric`, `flowcon.direction`, `flowcon.pattern`, `flowcon.total`, `flowcon.unit` and `flowcon.ignore`: how the log is read.
    pub hints: Hints,
    /// `flowcon.memory-floor`: memory is never squeezed below this.
    pub memory_floor: Option<Bytes>,
    /// `flowcon.turns`: whether it may wait for the turns of others.
    pub takes_turns: bool,
    /// `flowcon.user`: the user to whom the job belongs.
    pub user: Option<String>,
    /// `flowcon.notify`: names of targets of messages about it; none of them = no messages. `None` = as configured.
    pub notify: Option<Vec<String>>,
    /// `flowcon.deadline`: time after its start by which the job should be done, a soft hint.
    pub deadline: Option<Millis>,
    /// `flowcon.group`: the sweep of which it is a trial.
    pub group: Group,
    /// `flowcon.group-stop`: number of the rung at which it is stopped if it has lost there, from 1.
    pub group_stop: Option<u8>,
}

/// The sweep that a job belongs to, by `flowcon.group`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// Those with the same image and command, numbers aside.
    #[default]
    SameTraining,
    /// The sweep of that name.
    Named(String),
    /// None: it is a single job.
    Single,
}

impl Group {
    /// The name of the sweep, if its owner gave it one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Group::Named(name) => Some(name),
            Group::SameTraining | Group::Single => None,
        }
    }
}

impl Default for Directives {
    fn default() -> Self {
        Directives {
            bounds: Bounds::default(),
            weight: 1.0,
            log: None,
            hints: Hints::default(),
            memory_floor: None,
            takes_turns: true,
            user: None,
            notify: None,
            deadline: None,
            group: Group::default(),
            group_stop: None,
        }
    }
}
