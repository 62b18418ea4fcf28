//! Decisions about the jobs of a cluster. A plan is complete: applying it involves no further decisions.

use super::{ClusterReason, Cost};
use crate::Millis;
use serde::{Deserialize, Serialize};

/// Decisions for the whole cluster. Nodes and jobs are referred to by index in the observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// Time of the observation.
    pub at: Millis,
    /// Workers to start; those of one gang are consecutive.
    pub starts: Vec<Start>,
    /// Workers to stop. Their resources are free only once they have stopped: no start of this plan depends on them.
    pub stops: Vec<Stop>,
    /// Workers to move.
    pub moves: Vec<Move>,
    /// Jobs without workers that get none now.
    pub waits: Vec<Wait>,
    /// Jobs that asked to be moved but are already on the best node: they count as moved (SpeCon).
    pub settled: Vec<usize>,
    /// Expected end of jobs, where known (`QueueRule::Deadlines`).
    pub ends: Vec<(usize, Millis)>,
    /// What was compared for each job of one worker (`QueueRule::Deadlines`).
    pub choices: Vec<Choice>,
}

/// The alternatives of one job, and which of them was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The job.
    pub job: usize,
    /// The chosen alternative, or that in which it is running.
    pub chosen: usize,
    /// The node on which it is to run, which may be closed yet; `None` = it waits.
    pub node: Option<usize>,
    /// Cost of each alternative if it started now, on the node where that is cheapest; `None` if no node can run it.
    pub costs: Vec<Option<Cost>>,
    /// Cost of each hour after its deadline.
    pub late_cost: f64,
}

/// A worker to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The job.
    pub job: usize,
    /// Its number within the job.
    pub worker: u32,
    /// The node.
    pub node: usize,
    /// The alternative in which it starts; `None` = as it is.
    #[serde(default)]
    pub alternative: Option<usize>,
    /// Why this node.
    pub reason: ClusterReason,
}

/// A worker to stop; its job continues with the other workers, or waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// The job.
    pub job: usize,
    /// Its number within the job.
    pub worker: u32,
    /// The reason.
    pub reason: ClusterReason,
}

/// A worker to move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The job.
    pub job: usize,
    /// Its number within the job.
    pub worker: u32,
    /// The source node.
    pub from: usize,
    /// The target node.
    pub to: usize,
    /// The reason.
    pub reason: ClusterReason,
}

/// A waiting job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The job.
    pub job: usize,
    /// What it waits for.
    pub reason: ClusterReason,
}
