//! What the governor wants. A plan leaves no choice to whoever carries it out.

use super::{Bytes, ContainerId, CpuWeight, Millis, Quota, Reason, Share};
use serde::{Deserialize, Serialize};

/// FlowCon's three lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum List {
    /// Young, or growing fast [NL].
    New,
    /// Near convergence [WL].
    Watching,
    /// Converging, growing slowly [CL].
    Completing,
}

/// Evaluation gained per unit of each resource [G, eq. 2]; `None` = not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrowthEfficiency {
    /// Per node-CPU-second: range of the evaluation gained in one second on all cores.
    pub cpu: Option<f64>,
    /// Per second with the node's whole memory.
    pub memory: Option<f64>,
    /// Per GiB read or written.
    pub block_io: Option<f64>,
    /// Per GiB received or sent.
    pub network_io: Option<f64>,
    /// Per GPU-second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<f64>,
}

/// Decisions for the whole node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePlan {
    /// The observation's instant.
    pub at: Millis,
    /// One for each observed container, in the observation's order.
    pub containers: Vec<ContainerPlan>,
    /// When to decide again, unless a container starts or ends before.
    pub next_tick: Millis,
    /// The present interval [itval]; longer than the configured one while backing off.
    pub interval: Millis,
}

/// Decisions for one container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerPlan {
    /// Whose.
    pub id: ContainerId,
    /// Its list. Under `flowcon` lists decide; under the other policies they are information. `None` in recordings of earlier versions.
    pub list: Option<List>,
    /// Whom it competes with.
    #[serde(default)]
    pub contention: Contention,
    /// Its growth efficiency in the last measured interval.
    pub growth: GrowthEfficiency,
    /// The limit L in the policy's own terms: 1 = free competition.
    pub limit: Share,
    /// The part of the node that it gets when every container wants more than that.
    pub share: Share,
    /// What must stand in the cgroup; `None` = leave everything as it is.
    pub limits: Option<PlannedLimits>,
    /// What it gets of its GPUs, under the default policy; empty = it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuPlan>,
    /// Why.
    pub reason: Reason,
}

/// A container's part of one GPU, or of one instance of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuPlan {
    /// The GPU's number.
    pub gpu: u32,
    /// The instance's number, on a divided GPU.
    pub instance: Option<u32>,
    /// Part of the GPU's time that it should have where all want more. Only what can share a GPU's time out makes it so.
    pub share: Share,
    /// Its place among those that this GPU limits, from 1; `None` = something else limits it, or nothing is known of its work.
    pub rank: Option<usize>,
    /// How many this GPU limits.
    pub of: usize,
}

/// A container's contention domain: those that compete with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// Containers in the domain, itself included.
    pub containers: usize,
    /// Cores that they can have together, as last measured: what they used and what was idle.
    pub cores: f64,
    /// Cores that it could use if it were alone: those that it may run on, less quotas.
    pub most: f64,
}

/// What must stand in the cgroup; each `None` means the original value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedLimits {
    /// `cpu.weight`.
    pub cpu_weight: Option<CpuWeight>,
    /// `cpu.max`, under `enforcement = "quota"` only.
    pub cpu_quota: Option<Quota>,
    /// `memory.low`.
    pub memory_low: Option<Bytes>,
    /// `memory.high`.
    pub memory_high: Option<Bytes>,
    /// `io.weight`.
    pub io_weight: Option<u16>,
}
