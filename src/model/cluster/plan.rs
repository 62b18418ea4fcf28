//! What is to be done with the jobs of a cluster. A plan leaves no choice to whoever carries it out.

use super::ClusterReason;
use crate::model::Millis;
use serde::{Deserialize, Serialize};

/// Decisions for the whole cluster. Nodes and jobs are named by their places in the observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// The observation's instant.
    pub at: Millis,
    /// Workers to start, those of a gang one after another.
    pub starts: Vec<Start>,
    /// Workers to stop. What they leave is free only once they are gone: no start of this plan needs it.
    pub stops: Vec<Stop>,
    /// Workers to move.
    pub moves: Vec<Move>,
    /// Jobs that have no workers and get none now.
    pub waits: Vec<Wait>,
    /// Jobs that asked to move and are best where they are: they count as moved (SpeCon).
    pub settled: Vec<usize>,
    /// When jobs are expected to end, where that is known (`QueueRule::Deadlines`).
    pub ends: Vec<(usize, Millis)>,
}

/// A worker that starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Whose.
    pub job: usize,
    /// Its number within the job.
    pub worker: u32,
    /// Where.
    pub node: usize,
    /// Why there.
    pub reason: ClusterReason,
}

/// A worker that stops: its job goes on with the others, or waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Whose.
    pub job: usize,
    /// Its number within the job.
    pub worker: u32,
    /// Why.
    pub reason: ClusterReason,
}

/// A worker that moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// Whose.
    pub job: usize,
    /// Its number within the job.
    pub worker: u32,
    /// From where.
    pub from: usize,
    /// To where.
    pub to: usize,
    /// Why.
    pub reason: ClusterReason,
}

/// A job that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Which.
    pub job: usize,
    /// For what.
    pub reason: ClusterReason,
}
