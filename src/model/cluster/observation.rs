//! What was seen of the cluster at one instant. Missing is a value: what nobody could tell is an `Option`.

use crate::model::{Bytes, Estimate, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The whole cluster at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterObservation {
    /// When it was observed.
    pub now: Millis,
    /// Since when no job has arrived, started, ended or been scaled.
    pub quiet_since: Millis,
    /// CPU-seconds of a whole training here, as a rule: the mean of those that ended. `None` = none ended yet.
    pub usual_work: Option<f64>,
    /// The nodes; plans name them by their place in this list.
    pub nodes: Vec<ClusterNode>,
    /// The jobs that wait or run; plans name them by their place in this list.
    pub jobs: Vec<ClusterJob>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterNode {
    /// Its name, unique in the cluster.
    pub name: Arc<str>,
    /// Whether it may get jobs.
    pub state: NodeState,
    /// All that it has.
    pub capacity: Resources,
    /// Cores that are in use, whoever uses them; `None` = unknown.
    pub used_cores: Option<f64>,
    /// `node.labels`, for constraints.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// Whether a node may get jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// Up, and governed.
    Ready,
    /// Being emptied for maintenance.
    Draining,
    /// Nobody answers there: its jobs may be running all the same.
    Unreachable,
    /// Up, but `flowcond` is not running.
    Ungoverned,
    /// Rented, and closed until a job waits for it.
    Closed,
}

/// What a node has, or a worker reserves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Cores.
    pub cores: f64,
    /// Main memory.
    pub memory: Bytes,
    /// GPUs (a generic resource of Swarm's: it only counts them).
    pub gpus: u32,
}

impl Resources {
    /// What `others` leave of it, which may be nothing.
    pub fn without(self, others: Resources) -> Resources {
        Resources {
            cores: (self.cores - others.cores).max(0.0),
            memory: Bytes(self.memory.0.saturating_sub(others.memory.0)),
            gpus: self.gpus.saturating_sub(others.gpus),
        }
    }

    /// Both together.
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
    /// When it was submitted.
    pub arrived: Millis,
    /// How important it is.
    pub priority: Priority,
    /// What each worker reserves.
    pub request: Resources,
    /// How many workers it may have.
    pub workers: WorkerRange,
    /// Where it may run; all must hold.
    pub constraints: Vec<Constraint>,
    /// CPU-seconds of the whole training, where an earlier run tells it.
    pub work: Option<f64>,
    /// When it should have ended.
    pub deadline: Option<Millis>,
    /// Seconds that it takes when it starts now, as its owner says.
    pub takes_s: Option<f64>,
    /// It saves its state when it is stopped, and may be moved.
    pub movable: bool,
    /// How often it has been moved.
    pub moves: u32,
    /// The workers that are somewhere; none = it waits.
    pub placed: Vec<Worker>,
}

/// [γ1, γ2] of the weight of a job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Priority {
    /// [γ1] 1 ..= 100.
    pub level: f64,
    /// [γ2] 0 ..= 1: how much of it is lost with time.
    pub decay: f64,
}

impl Default for Priority {
    fn default() -> Self {
        Priority { level: 1.0, decay: 0.0 }
    }
}

/// How many workers a job may have. An elastic job may have more than its least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRange {
    /// With fewer it cannot train: they start together or not at all.
    pub min: u32,
    /// As many as it starts with where there is room.
    pub initial: u32,
    /// More would not help. Fewer than `min` where a gang that runs lacks a worker that cannot start.
    pub max: u32,
}

impl WorkerRange {
    /// A job of one worker.
    pub const ONE: WorkerRange = WorkerRange { min: 1, initial: 1, max: 1 };
}

/// `label==value` or `label!=value`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// The node's label.
    pub label: Arc<str>,
    /// Whether it must have that value, or must not.
    pub equal: bool,
    /// The value.
    pub value: Arc<str>,
}

/// One worker of a job on its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number within the job.
    pub number: u32,
    /// Its node's place in the list of nodes.
    pub node: usize,
    /// What it is doing.
    pub phase: Phase,
    /// Cores that it has used lately; `None` = unknown.
    pub cores: Option<f64>,
    /// CPU-seconds to its end, as its node foresees them.
    pub work_left: Option<Estimate>,
    /// Its latest progress, for ProCon.
    pub report: Option<Report>,
    /// How it converges, for SpeCon.
    pub convergence: Option<Convergence>,
    /// Seconds without progress that a move of it costs: stop, carry, start and warm-up, as measured.
    pub move_s: f64,
}

/// What a worker is doing. In every phase it occupies what it reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// On its way up.
    Starting,
    /// Training.
    Running,
    /// Told to stop; not gone yet.
    Stopping,
    /// On its way to another node, where its room is reserved too.
    MovingTo(usize),
}

/// A job's own account of its progress [f, MAX − P].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seconds between the last two reports.
    pub unit_s: f64,
    /// Units still to do.
    pub units_left: f64,
}

/// A job's category, and since when it is converged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Its category.
    pub category: Category,
    /// It asks to be moved.
    pub asks: bool,
    /// When it entered its category.
    pub since: Millis,
}

/// SpeCon's categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// Grows fast [PC].
    Progressing,
    /// Slows down [WC].
    Watching,
    /// Grows slowly [CC].
    Converged,
}
