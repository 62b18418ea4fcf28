//! The cluster as observed at one instant. Missing data is a value: readings that can be missing are an `Option`.

use crate::{Bytes, Estimate, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The whole cluster at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterObservation {
    /// Time of the observation.
    pub now: Millis,
    /// The last time at which a job arrived, started, ended or was scaled.
    pub quiet_since: Millis,
    /// Mean CPU-seconds of the trainings that have ended in this cluster; `None` = none has ended yet.
    pub usual_work: Option<f64>,
    /// Priority and demand of jobs that have ended, as far as they are known: the window of the prices (OASIS).
    #[serde(default)]
    pub ended: Vec<(Priority, Resources)>,
    /// The nodes; plans refer to them by index in this list.
    pub nodes: Vec<ClusterNode>,
    /// The waiting and running jobs; plans refer to them by index in this list.
    pub jobs: Vec<ClusterJob>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterNode {
    /// Its name, unique in the cluster.
    pub name: Arc<str>,
    /// Whether it accepts jobs.
    pub state: NodeState,
    /// Total resources.
    pub capacity: Resources,
    /// Cores in use by all processes; `None` = unknown.
    pub used_cores: Option<f64>,
    /// `node.labels`, for constraints.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// Whether a node accepts jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// Up, and `flowcond` is running.
    Ready,
    /// Being emptied for maintenance.
    Draining,
    /// No response from the node; its jobs may still be running.
    Unreachable,
    /// Up, but `flowcond` is not running.
    Ungoverned,
    /// A rented node that is closed until a job needs it.
    Closed,
}

impl NodeState {
    /// All states.
    pub const ALL: [NodeState; 5] =
        [NodeState::Ready, NodeState::Draining, NodeState::Unreachable, NodeState::Ungoverned, NodeState::Closed];
}

/// The resources of a node, or those reserved by a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Cores.
    pub cores: f64,
    /// Main memory.
    pub memory: Bytes,
    /// GPUs (a generic resource of Swarm, which only counts them).
    pub gpus: u32,
}

impl Resources {
    /// Returns these resources minus `others`, at least zero.
    pub fn without(self, others: Resources) -> Resources {
        Resources {
            cores: (self.cores - others.cores).max(0.0),
            memory: Bytes(self.memory.0.saturating_sub(others.memory.0)),
            gpus: self.gpus.saturating_sub(others.gpus),
        }
    }

    /// Returns the sum.
    pub fn with(self, others: Resources) -> Resources {
        Resources {
            cores: self.cores + others.cores,
            memory: Bytes(self.memory.0.saturating_add(others.memory.0)),
            gpus: self.gpus.saturating_add(others.gpus),
        }
    }
}

/// One job, waiting or running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterJob {
    /// Its name, unique in the cluster.
    pub name: Arc<str>,
    /// Time of submission.
    pub arrived: Millis,
    /// Its priority.
    pub priority: Priority,
    /// Resources reserved by each worker.
    pub request: Resources,
    /// Allowed number of workers.
    pub workers: WorkerRange,
    /// Constraints on its nodes, all of which must hold.
    pub constraints: Vec<Constraint>,
    /// Expected CPU-seconds to the end of all its workers, known from its own saved state or from jobs with the same command. For workers
    /// on a node, the node's forecast takes precedence.
    pub work: Option<f64>,
    /// Its deadline.
    pub deadline: Option<Millis>,
    /// Duration of the job in seconds if it starts now, as stated by its owner.
    pub takes_s: Option<f64>,
    /// Cost of each hour after the deadline, in the currency of the node prices; `None` = by its priority.
    #[serde(default)]
    pub late_cost: Option<f64>,
    /// The ways to run it, of which one is chosen at each start; empty: only with its `request`. Only for jobs of one worker.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
    /// Whether it saves its state when it is stopped, so that it may be moved.
    pub movable: bool,
    /// Number of moves so far.
    pub moves: u32,
    /// The workers that are placed on a node; none = the job is waiting.
    pub placed: Vec<Worker>,
}

/// One way to run a job: what it reserves, where, and how long it then takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Resources that it reserves.
    pub request: Resources,
    /// Constraints on its node, besides those of the job.
    pub constraints: Vec<Constraint>,
    /// Duration of the rest of the job in seconds: as earlier runs took, as a table says, or as its owner states.
    pub takes_s: Option<f64>,
}

impl ClusterJob {
    /// Returns all ways to run it; the only one of a job without alternatives is its request.
    pub fn ways(&self) -> Vec<Alternative> {
        let only = || Alternative { request: self.request, constraints: Vec::new(), takes_s: self.takes_s };
        if self.alternatives.is_empty() { vec![only()] } else { self.alternatives.clone() }
    }

    /// Returns what a worker reserves in this alternative; `None` = its request.
    pub fn request_in(&self, alternative: Option<usize>) -> Resources {
        alternative.and_then(|at| self.alternatives.get(at)).map_or(self.request, |alternative| alternative.request)
    }

    /// Settles a waiting job on one alternative.
    #[must_use]
    pub fn settled_on(&self, alternative: usize) -> ClusterJob {
        let mut job = self.clone();
        if let Some(chosen) = self.alternatives.get(alternative) {
            job.request = chosen.request;
            job.constraints.extend(chosen.constraints.iter().cloned());
            job.takes_s = chosen.takes_s;
        }
        job
    }
}

/// Parameters [γ1, γ2] of the weight of a job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Priority {
    /// [γ1] Level, 1 ..= 100.
    pub level: f64,
    /// [γ2] Decay factor, 0 ..= 1. The weight is γ1 / (1 + e^γ2): the more decay, the less weight, at all times.
    pub decay: f64,
}

impl Default for Priority {
    fn default() -> Self {
        Priority { level: 1.0, decay: 0.0 }
    }
}

/// Allowed number of workers of a job. An elastic job may have more than its minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRange {
    /// Minimum: with fewer workers the job cannot train, so they start together or not at all.
    pub min: u32,
    /// Number of workers to start with if there is room.
    pub initial: u32,
    /// Maximum useful number. Smaller than `min` if a running gang lacks a worker that cannot start.
    pub max: u32,
}

impl WorkerRange {
    /// A job with a single worker.
    pub const ONE: WorkerRange = WorkerRange { min: 1, initial: 1, max: 1 };
}

/// A constraint `label==value` or `label!=value`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// Label of the node.
    pub label: Arc<str>,
    /// Whether the label must have the value or must not have it.
    pub equal: bool,
    /// The value.
    pub value: Arc<str>,
}

/// One worker of a job on its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number within the job.
    pub number: u32,
    /// Index of its node in the list of nodes.
    pub node: usize,
    /// Its phase.
    pub phase: Phase,
    /// Cores used recently; `None` = unknown.
    pub cores: Option<f64>,
    /// CPU-seconds to its end, as forecast by its node.
    pub work_left: Option<Estimate>,
    /// Its latest progress, for ProCon.
    pub report: Option<Report>,
    /// Its convergence state, for SpeCon.
    pub convergence: Option<Convergence>,
    /// Measured cost of moving it, in seconds without progress: stop, transfer, start and warm-up.
    pub move_s: f64,
}

impl Worker {
    /// Returns the nodes on which its resources are reserved: its node and, while it moves, the target.
    pub fn occupies(&self) -> impl Iterator<Item = usize> {
        let target = match self.phase {
            Phase::MovingTo(to) => Some(to),
            Phase::Starting | Phase::Running | Phase::Stopping => None,
        };
        std::iter::once(self.node).chain(target)
    }

    /// Returns the node on which it trains or will train, and whether it has yet to arrive there. `None` if it is stopping.
    pub fn counts_on(&self) -> Option<(usize, bool)> {
        match self.phase {
            Phase::Starting => Some((self.node, true)),
            Phase::Running => Some((self.node, false)),
            Phase::Stopping => None,
            Phase::MovingTo(to) => Some((to, true)),
        }
    }
}

/// Phase of a worker. In every phase it occupies its reserved resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Starting up.
    Starting,
    /// Training.
    Running,
    /// Requested to stop, but not stopped yet.
    Stopping,
    /// Moving to the node with this index, where its resources are reserved as well.
    MovingTo(usize),
}

/// The progress reported by a job [f, MAX − P].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seconds between the last two reports.
    pub unit_s: f64,
    /// Units left.
    pub units_left: f64,
}

/// The category of a job, and the time at which it entered that category.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Its category.
    pub category: Category,
    /// Whether it asks to be moved.
    pub asks: bool,
    /// Time at which it entered the category.
    pub since: Millis,
}

/// The categories of SpeCon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// Growing fast [PC].
    Progressing,
    /// Slowing down [WC].
    Watching,
    /// Growing slowly [CC].
    Converged,
}
