//! Status of a cluster as published by its coordinator: for the API, `flowctl cluster status` and `flowctl explain`.

use super::{Cost, NodeState, Resources};
use crate::Millis;
use crate::swarm::{NodeId, ServiceId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The cluster at one instant, as its coordinator sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Time of the status, on the manager's wall clock since 1970.
    pub at: Millis,
    /// Whether this coordinator is active: its node is the Swarm leader.
    pub acts: bool,
    /// Why it is not active, and what to do about it.
    pub why: Option<String>,
    /// Ordered by id.
    pub nodes: Vec<ClusterNodeStatus>,
    /// One entry per service with our label, ordered by name.
    pub jobs: Vec<ClusterJobStatus>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterNodeStatus {
    /// Its id.
    pub id: NodeId,
    /// Its host name.
    pub name: Arc<str>,
    /// Whether it accepts jobs.
    pub state: NodeState,
    /// Why it accepts none.
    pub why: Option<String>,
    /// Resources available to jobs, without those reserved by other services.
    pub capacity: Resources,
    /// Cores in use.
    pub used_cores: Option<f64>,
    /// Number of workers on the node or on their way to it.
    pub workers: usize,
    /// Version of its agent.
    pub agent: Option<Arc<str>>,
}

/// One worker: a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterJobStatus {
    /// The service.
    pub service: ServiceId,
    /// Its name.
    pub name: Arc<str>,
    /// The job's name, if it has several workers.
    pub gang: Option<Arc<str>>,
    /// Its state.
    pub state: JobState,
    /// The node on which it is running, or which holds its saved state.
    pub node: Option<NodeId>,
    /// The node that it is moving to.
    pub to: Option<NodeId>,
    /// Why it is waiting or makes no progress, and what to do about it.
    pub why: Option<Why>,
    /// Why it was started, moved or stopped last.
    pub reason: Option<Arc<str>>,
    /// Its latest events, oldest first, with their times since 1970.
    pub log: Vec<(Millis, Arc<str>)>,
    /// The last failure, with the node.
    pub mark: Option<String>,
    /// Number of moves so far.
    pub moves: u32,
    /// Progress units done.
    pub units: Option<f64>,
    /// Total units.
    pub total: Option<f64>,
    /// Duration of its last move, in seconds without progress.
    pub last_move_s: Option<f64>,
    /// Its deadline, on the manager's wall clock since 1970.
    pub deadline: Option<Millis>,
    /// Its expected end, if the plan forecasts it.
    pub expected_end: Option<Millis>,
    /// Its alternatives, as the last plan compared them.
    pub alternatives: Vec<AlternativeStatus>,
    /// What it has cost so far, in the currency of the node prices.
    pub cost: Option<f64>,
    /// Its exit code, if it has ended.
    pub exit_code: Option<i64>,
}

/// One alternative of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlternativeStatus {
    /// As its owner wrote it.
    pub text: Arc<str>,
    /// Whether it is the chosen one.
    pub is_chosen: bool,
    /// What the rest of the job costs in it; `None` = no node can run it, or it was not compared.
    pub cost: Option<Cost>,
}

impl ClusterJobStatus {
    /// Returns a worker of which nothing else is known.
    pub fn new(service: ServiceId, name: Arc<str>, state: JobState) -> ClusterJobStatus {
        ClusterJobStatus {
            service,
            name,
            gang: None,
            state,
            node: None,
            to: None,
            why: None,
            reason: None,
            log: Vec::new(),
            mark: None,
            moves: 0,
            units: None,
            total: None,
            last_move_s: None,
            deadline: None,
            expected_end: None,
            alternatives: Vec::new(),
            cost: None,
            exit_code: None,
        }
    }

    /// Whether it is late or expected to be late; `None` = it has no deadline, has ended, or its end is unknown.
    pub fn is_late(&self, at: Millis) -> Option<bool> {
        let deadline = self.deadline.filter(|_| self.exit_code.is_none())?;
        match self.expected_end {
            _ if at > deadline => Some(true),
            expected => expected.map(|end| end > deadline),
        }
    }
}

/// State of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Waiting in the queue.
    Waiting,
    /// Suspended by an operator.
    Suspended,
    /// Starting up.
    Starting,
    /// Training.
    Running,
    /// Requested to stop, but not proven to be gone yet.
    Stopping,
    /// Its saved state is being transferred to another node.
    Carrying,
    /// Ended with exit code 0.
    Done,
    /// Ended with another exit code.
    Failed,
    /// Ended because an operator cancelled it.
    Cancelled,
    /// Its service cannot be a job as configured, and is not modified.
    Refused,
}

impl JobState {
    /// All states.
    pub const ALL: [JobState; 10] = [
        JobState::Waiting,
        JobState::Suspended,
        JobState::Starting,
        JobState::Running,
        JobState::Stopping,
        JobState::Carrying,
        JobState::Done,
        JobState::Failed,
        JobState::Cancelled,
        JobState::Refused,
    ];
}

/// Why a worker waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// Machine-readable kind.
    pub kind: WhyKind,
    /// Message with the next step.
    pub text: String,
}

/// Kinds of reasons for waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhyKind {
    /// A label, the mode or the restart condition is invalid for a job.
    Invalid,
    /// Someone else changed the service.
    Foreign,
    /// An operator suspended it.
    Suspended,
    /// The plan found no node for it.
    NoPlace,
    /// Its gang is not complete.
    Gang,
    /// A job that it depends on is not done.
    After,
    /// It is not proven that all of its processes have ended.
    NoProof,
    /// The node with its saved state does not respond.
    StateOutOfReach,
    /// Its checkpoint volume holds the saved state of another job.
    VolumeTaken,
    /// Its saved state is being transferred, or the transfer failed.
    Carrying,
    /// It failed to start too often.
    GaveUp,
    /// Its next step is being written or awaited.
    InProgress,
}
