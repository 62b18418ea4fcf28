//! The decisions of the governor. A plan is complete: applying it involves no further decisions.

use super::{ContainerId, GroupStop, Limits, Millis, Reason, Share};
use serde::{Deserialize, Serialize};

/// The three lists of FlowCon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum List {
    /// New, or growing fast [NL].
    New,
    /// Near convergence [WL].
    Watching,
    /// Converging, growing slowly [CL].
    Completing,
}

/// Evaluation gained per unit of each resource [G, eq. 2]; `None` = not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrowthEfficiency {
    /// Per node-CPU-second: the fraction of the evaluation's range gained in one second on all cores.
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
    /// Time of the observation.
    pub at: Millis,
    /// One plan per observed container, in the order of the observation.
    pub containers: Vec<ContainerPlan>,
    /// Time of the next decision, unless a container starts or ends before.
    pub next_tick: Millis,
    /// The current interval [itval]; longer than the configured one while backing off.
    pub interval: Millis,
    /// Trials to be stopped, because they have lost in their sweeps and carry the label that asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<TrialStop>,
}

/// A trial that is to be stopped through its engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialStop {
    /// The container.
    pub id: ContainerId,
    /// Its result.
    pub why: GroupStop,
}

/// Decisions for one container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerPlan {
    /// The container.
    pub id: ContainerId,
    /// Its list. Under `flowcon` the lists decide; under the other policies they are informational. `None` in recordings of earlier
    /// versions.
    pub list: Option<List>,
    /// The containers that it competes with.
    #[serde(default)]
    pub contention: Contention,
    /// Its growth efficiency in the last measured interval.
    pub growth: GrowthEfficiency,
    /// The limit L in the policy's own terms: 1 = free competition.
    pub limit: Share,
    /// The part of the node that it gets if every container wants more than that.
    pub share: Share,
    /// The limits to apply; `None` = no change. A limit that is `None` gets its original value.
    pub limits: Option<Limits>,
    /// Its shares of GPUs, under the default policy; empty = it uses none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuPlan>,
    /// The reason for the decision.
    pub reason: Reason,
}

/// The share of one container of one GPU or MIG instance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuPlan {
    /// Index of the GPU.
    pub gpu: u32,
    /// Index of the instance, on a divided GPU.
    pub instance: Option<u32>,
    /// Fraction of the GPU's time that it should get under contention. It takes effect only if GPU time can be divided on this node.
    pub share: Share,
    /// Its rank among the containers limited by this GPU, from 1; `None` = something else limits it, or the work that it has left is
    /// unknown.
    pub rank: Option<usize>,
    /// Number of containers that this GPU limits.
    pub of: usize,
}

/// The contention domain of a container: the containers that compete with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// Number of containers in the domain, itself included.
    pub containers: usize,
    /// Cores available to the domain as a whole, as last measured: cores used plus idle cores.
    pub cores: f64,
    /// Cores that the container could use if it were alone: those that it may run on, within its quotas.
    pub most: f64,
}
