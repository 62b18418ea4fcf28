//! The node as observed at one instant. Missing data is a value: every reading that can fail is an `Option`.

use super::{
    Bounds, ByteSeconds, Bytes, ContainerId, CpuTime, CpuWeight, Gpu, GpuUse, Health, Hold, HoldbackBlock, Learning,
    Millis, Place, Quota, RunState, Runtime, Trial,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The whole node at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeObservation {
    /// Time of the observation.
    pub now: Millis,
    /// Usable cores (a fraction on a node that is itself limited).
    pub cores: f64,
    /// Idle time of each processor, by processor number, a counter; empty = unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<CpuTime>,
    /// Main memory.
    pub memory: Bytes,
    /// Node-wide pressure.
    pub pressure: Pressure,
    /// The current block of the holdback experiment, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holdback: Option<HoldbackBlock>,
    /// GPUs by index; empty = there are none, or the driver does not respond.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// The users that are known, ordered by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserObservation>,
    /// The governed containers, ordered by id.
    pub containers: Vec<ContainerObservation>,
}

impl NodeObservation {
    /// Whether this is a control period, in which nothing is governed.
    pub fn is_plain(&self) -> bool {
        self.holdback.is_some_and(|block| block.plain)
    }
}

/// Name of the user to whom all jobs without a user belong.
pub const NOBODY: &str = "-";

/// A person or group that has jobs, named by [`ContainerObservation::user`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserObservation {
    /// The name; [`NOBODY`] for jobs without a user.
    pub name: String,
    /// The weight set in the configuration, 1 by default.
    pub weight: f64,
    /// CPU-seconds used, of which earlier ones count less.
    pub used: f64,
}

/// Pressure stall information: share of the last ten seconds in which some task waited, 0 ..= 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Waited for CPU.
    pub cpu: Option<f64>,
    /// Waited for memory.
    pub memory: Option<f64>,
    /// Waited for block I/O.
    pub io: Option<f64>,
}

/// One governed container at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerObservation {
    /// Identity.
    pub id: ContainerId,
    /// Its name, which need not be unique.
    pub name: String,
    /// Its runtime.
    pub runtime: Runtime,
    /// The user to whom it belongs; jobs of nobody count as those of one user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// Start of the container, on the observer's clock.
    pub started: Millis,
    /// Whether its processes can run.
    pub state: RunState,
    /// Where it may run.
    #[serde(default)]
    pub place: Arc<Place>,
    /// Why its limits must be left alone, if they must.
    pub hold: Option<Hold>,
    /// The bounds set by the owner.
    pub bounds: Bounds,
    /// The weight set by the owner, 1 by default.
    pub weight: f64,
    /// Memory is never squeezed below this.
    pub memory_floor: Option<Bytes>,
    /// Whether it may be made to wait while another job has its turn.
    pub takes_turns: bool,
    /// Time by which it should be done, on the observer's clock: a soft hint of the owner.
    pub deadline: Option<Millis>,
    /// `memory.max`, or `memory.limit_in_bytes`; `None` = unlimited or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// Resources used.
    pub usage: Usage,
    /// GPUs used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUse>,
    /// The current limits of its cgroup.
    pub limits: Limits,
    /// The limits before our first change.
    pub original: Limits,
    /// What its log says about the training.
    pub learning: Learning,
    /// Its sweep, if it runs beside others of the same training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Its health, as judged from all of this.
    #[serde(default)]
    pub health: Health,
}

impl ContainerObservation {
    /// Returns a running container with this id as its name, the kernel's default limits, no usage and no output.
    pub fn new(id: &str) -> ContainerObservation {
        ContainerObservation {
            id: ContainerId::new(id),
            name: id.to_owned(),
            runtime: Runtime::Docker,
            user: None,
            started: Millis(0),
            state: RunState::Running,
            place: Arc::default(),
            hold: None,
            bounds: Bounds::default(),
            weight: 1.0,
            memory_floor: None,
            takes_turns: true,
            deadline: None,
            memory_limit: None,
            usage: Usage::default(),
            gpus: Vec::new(),
            limits: Limits::KERNEL_DEFAULTS,
            original: Limits::KERNEL_DEFAULTS,
            learning: Learning::default(),
            trial: None,
            health: Health::default(),
        }
    }
}

/// Counters since the start of the container, and current gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time used, a counter.
    pub cpu: Option<CpuTime>,
    /// CPU time lost to a quota, a counter.
    pub throttled: Option<CpuTime>,
    /// Quota periods in which it was throttled (`nr_throttled`), a counter.
    pub throttled_periods: Option<u64>,
    /// Memory charged.
    pub memory: Option<Bytes>,
    /// Memory charged over time, a counter since it was first read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_time: Option<ByteSeconds>,
    /// Memory without inactive file cache.
    pub working_set: Option<Bytes>,
    /// Bytes read and written on block devices, a counter.
    pub block_io: Option<Bytes>,
    /// Bytes received and sent on its network interfaces, a counter.
    pub network_io: Option<Bytes>,
    /// Pressure of this cgroup.
    pub pressure: Pressure,
}

impl Usage {
    /// Returns this reading with the memory that was charged since `before`, `passed` earlier.
    pub fn charged_since(self, before: &Usage, passed: Millis) -> Usage {
        let mean = before.memory.zip(self.memory).map(|(before, now)| (before.0 as f64 + now.0 as f64) / 2.0);
        let sum = before.memory_time.unwrap_or_default().0 + mean.unwrap_or(0.0) * passed.as_secs_f64();
        Usage { memory_time: mean.map(|_| ByteSeconds(sum)).or(before.memory_time), ..self }
    }
}

/// The limits of a cgroup. As read, `None` = the kernel has no such file, or it could not be read; in a plan, `None` = the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// `cpu.weight`, or `cpu.shares` converted to its scale.
    pub cpu_weight: Option<CpuWeight>,
    /// `cpu.max`; inner `None` = unlimited.
    #[serde(default, with = "super::unlimited")]
    pub cpu_quota: Option<Option<Quota>>,
    /// `memory.low`; 0 = unprotected.
    pub memory_low: Option<Bytes>,
    /// `memory.high`; inner `None` = `max`.
    #[serde(default, with = "super::unlimited")]
    pub memory_high: Option<Option<Bytes>>,
    /// `io.weight` or `blkio.weight`, 1 ..= 10,000 on the scale of v2.
    pub io_weight: Option<u16>,
}

impl Limits {
    /// The limits of a new cgroup.
    pub const KERNEL_DEFAULTS: Limits = Limits {
        cpu_weight: Some(CpuWeight::DEFAULT),
        cpu_quota: Some(None),
        memory_low: Some(Bytes(0)),
        memory_high: Some(None),
        io_weight: Some(100),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_summed_over_the_time_between_readings() {
        let read = |memory: Option<u64>| Usage { memory: memory.map(Bytes), ..Usage::default() };
        let ten_s = Millis::from_secs(10);
        let first = read(Some(100)).charged_since(&Usage::default(), ten_s);
        assert_eq!(first.memory_time, None, "what was charged before the first reading is unknown");
        let second = read(Some(300)).charged_since(&first, ten_s);
        assert_eq!(second.memory_time, Some(ByteSeconds(2000.0)));
        let gap = read(None).charged_since(&second, ten_s);
        assert_eq!(gap.memory_time, Some(ByteSeconds(2000.0)));
    }
}
