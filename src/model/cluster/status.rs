//! What a coordinator says of its cluster: for its API, and for `flowctl cluster status` and `explain`.
//!
//! Imports: model.

use super::{ClusterReason, NodeState, Resources};
use crate::model::Millis;
use crate::model::swarm::{NodeId, ServiceId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The cluster at one instant, as its coordinator sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// When, on the manager's wall clock since 1970.
    pub at: Millis,
    /// Whether this coordinator acts: its node is Swarm's leader.
    pub acts: bool,
    /// Why it does not act, and what to do about it.
    pub why: Option<String>,
    /// In the order of their ids.
    pub nodes: Vec<ClusterNodeStatus>,
    /// One for each service that has our label, in the order of their names.
    pub jobs: Vec<ClusterJobStatus>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterNodeStatus {
    /// Its id.
    pub id: NodeId,
    /// The name that it gives itself.
    pub name: Arc<str>,
    /// Whether it may get jobs.
    pub state: NodeState,
    /// Why it gets none.
    pub why: Option<String>,
    /// What jobs can have of it: not what services that are no jobs reserve.
    pub capacity: Resources,
    /// Cores in use.
    pub used_cores: Option<f64>,
    /// Workers that are on it or on their way to it.
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
    /// What it is doing.
    pub state: JobState,
    /// Where it is, or where its saved state lies.
    pub node: Option<NodeId>,
    /// Where it is going.
    pub to: Option<NodeId>,
    /// Why it waits or does not get on, and what to do about it.
    pub why: Option<Why>,
    /// Why it is where it is, or goes where it goes: what the last plan said.
    pub reason: Option<ClusterReason>,
    /// What went wrong last, with the node.
    pub mark: Option<String>,
    /// How often it has been moved.
    pub moves: u32,
    /// Progress units done, and of how many.
    pub units: Option<f64>,
    /// Units in all.
    pub total: Option<f64>,
    /// Seconds without progress that its last move took.
    pub last_move_s: Option<f64>,
    /// When it should end, on the manager's wall clock since 1970.
    pub deadline: Option<Millis>,
    /// When it is expected to end, where the plan foresees that.
    pub expected_end: Option<Millis>,
    /// Its exit code, if it has ended.
    pub exit_code: Option<i64>,
}

impl ClusterJobStatus {
    /// Whether it is, or will be, late; `None` = it has no deadline, has ended, or nobody knows.
    pub fn is_late(&self, at: Millis) -> Option<bool> {
        let deadline = self.deadline.filter(|_| self.exit_code.is_none())?;
        match self.expected_end {
            _ if at > deadline => Some(true),
            expected => expected.map(|end| end > deadline),
        }
    }
}

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// In the queue.
    Waiting,
    /// An operator wants it to wait.
    Paused,
    /// On its way up.
    Starting,
    /// Training.
    Running,
    /// Told to stop; not proven gone yet.
    Stopping,
    /// Its saved state is on its way to another node.
    Carrying,
    /// It ended with code 0.
    Done,
    /// It ended with another code.
    Failed,
    /// It cannot be a job as it is: nothing of it is touched.
    Refused,
}

/// Why a worker waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// For programs.
    pub kind: WhyKind,
    /// In words, with the next step.
    pub text: String,
}

/// Kinds of reasons to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhyKind {
    /// A label, the mode or the restart condition is not what a job may have.
    Odd,
    /// Somebody changed the service by hand.
    Foreign,
    /// An operator paused it.
    Paused,
    /// The plan found no place for it.
    NoPlace,
    /// Its gang is not complete.
    Gang,
    /// A job that it comes after is not done.
    After,
    /// It is not proven that nothing of it lives any more.
    NoProof,
    /// The node with its saved state does not answer.
    StateOutOfReach,
    /// Its saved state is being carried, or could not be.
    Carrying,
    /// It failed to start, and is tried again later.
    TriedAgainLater,
    /// It failed to start too often.
    GaveUp,
    /// Its next step is being written or awaited.
    InProgress,
}
