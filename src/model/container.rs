//! Who a governed container is and what its owner asked for by label.

use super::{Bytes, Direction, Millis, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The engine's full container id, or `scope:NAME` for a command started by `flowctl run`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContainerId(Arc<str>);

impl ContainerId {
    /// Wraps the identifier as the runtime spells it.
    pub fn new(id: &str) -> Self {
        ContainerId(id.into())
    }

    /// The whole identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Twelve characters, as `docker ps` prints them; a scope's id whole.
    pub fn short(&self) -> &str {
        if self.0.starts_with("scope:") { &self.0 } else { self.0.get(..12).unwrap_or(&self.0) }
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// What runs the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// An engine that speaks the Docker Engine API.
    Docker,
    /// A command in a cgroup of its own, started by `flowctl run`.
    Scope,
}

/// Whether the container's processes can run at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Running.
    Running,
    /// Frozen by `docker pause` or the freezer.
    Paused,
}

/// Why the governor keeps its hands off a container that it watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// An operator said `flowctl release`.
    Operator,
    /// Somebody else changed a limit: it is theirs. The text names the file, our value and theirs.
    Foreign(String),
    /// The daemon just started, or found the container already running: observe one full interval first.
    Settling,
    /// The limits could not be written or read back. The text says what failed.
    Unwritable(String),
}

/// Limits in the engine's own numbers, as `inspect` shows them; 0 = never set, −1 = set to unlimited.
///
/// Kept beside [`super::Limits`] because those are rounded to the governor's units: restoring 777 `cpu_shares` needs the 777.
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

/// Which engine a container is in. What another engine does not know may well exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineMark {
    /// What the engine calls itself, where that stays the same.
    pub id: Option<String>,
    /// Its socket, without symbolic links.
    pub socket: String,
}

impl EngineMark {
    /// Whether these are two engines. An id counts before a socket, which may have moved.
    pub fn is_other(&self, other: &EngineMark) -> bool {
        match (&self.id, &other.id) {
            (Some(id), Some(other)) => id != other,
            _ => self.socket != other.socket,
        }
    }
}

/// The share of the node that the owner allows, from `flowcon.min-share` and `flowcon.max-share`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Never plan less than this (0 = no bound of the owner's).
    pub min: Share,
    /// Never plan more than this (1 = no bound of the owner's).
    pub max: Share,
}

impl Bounds {
    /// The one share that both bounds say, as a pin does.
    pub fn fixed(self) -> Option<Share> {
        (self.min == self.max && self.min > Share::NONE).then_some(self.min)
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { min: Share::NONE, max: Share::ALL }
    }
}

/// An operator's word that a container without the label is governed all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The container's name then.
    pub name: String,
    /// When, Unix time in milliseconds.
    pub unix_ms: u64,
    /// The `flowcon.*` labels that it is taken to have, besides its own.
    pub labels: BTreeMap<String, String>,
}

/// What the container's `flowcon.*` labels ask for, already parsed; see `config::labels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Directives {
    /// `flowcon.min-share`, `flowcon.max-share`.
    pub bounds: Bounds,
    /// `flowcon.weight`: importance relative to other jobs, 1 by default, 0.01 ..= 100.
    pub weight: f64,
    /// `flowcon.log`: a file (or directory) inside the container instead of its output.
    pub log: Option<String>,
    /// `flowcon.metric`: the name of the evaluation function.
    pub metric: Option<String>,
    /// `flowcon.direction`.
    pub direction: Option<Direction>,
    /// `flowcon.pattern`: a regular expression with the groups `value`, optional `current` and `total`.
    pub pattern: Option<String>,
    /// `flowcon.total`: how many progress units the job will do.
    pub total: Option<f64>,
    /// `flowcon.unit`: the name of a progress unit.
    pub unit: Option<String>,
    /// `flowcon.ignore`: metric names that are never the evaluation function.
    pub ignore: Vec<String>,
    /// `flowcon.memory-floor`: never squeeze below this.
    pub memory_floor: Option<Bytes>,
    /// `flowcon.deadline`: how long after its start it should be done, a soft hint.
    pub deadline: Option<Millis>,
}

impl Default for Directives {
    fn default() -> Self {
        Directives {
            bounds: Bounds::default(),
            weight: 1.0,
            log: None,
            metric: None,
            direction: None,
            pattern: None,
            total: None,
            unit: None,
            ignore: Vec::new(),
            memory_floor: None,
            deadline: None,
        }
    }
}
