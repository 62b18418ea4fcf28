//! Decisions about the jobs of a cluster. A plan is complete: applying it involves no further decisions.

use super::ClusterReason;
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
