//! Input and output of a decision, and the invariants of every plan.

use super::catalogue::{Catalogue, RunTimes};

/// GPUs of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The node.
    pub node: usize,
    /// Number of its GPUs, at least one.
    pub gpus: usize,
}

/// A job that has been submitted and has not ended.
#[derive(Clone, Debug)]
pub struct SubmittedJob<'a> {
    /// Run times of the whole job.
    pub times: &'a RunTimes,
    /// Fraction of the job that is left, above 0 and at most 1.
    pub left: f64,
    /// Number in order of submission.
    pub number: usize,
    /// d: deadline, in seconds.
    pub deadline_s: f64,
    /// ω: cost of each second after the deadline.
    pub weight: f64,
    /// Current place.
    pub place: Option<Assignment>,
    /// Whether it has run before: starting it anywhere else costs [`Situation::restart_s`].
    pub started: bool,
    /// Seconds left of a restart at its current place.
    pub owed_s: f64,
}

/// Input of a decision.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// T_c: current time, in seconds.
    pub now_s: f64,
    /// Node types that can be opened.
    pub catalogue: &'a Catalogue,
    /// Open type of each node: an index into [`Catalogue::nodes`].
    pub nodes: &'a [Option<usize>],
    /// The only type that each node can have, on machines that exist; empty: each may be opened with any type, as in the thesis.
    pub fixed: &'a [usize],
    /// The jobs, in any order.
    pub jobs: &'a [SubmittedJob<'a>],
    /// Seconds without progress of a job that is moved, stopped or resized, or whose node changes its type.
    pub restart_s: f64,
}

impl Situation<'_> {
    /// Whether a node may have this type.
    pub(super) fn may_be(&self, node: usize, node_type: usize) -> bool {
        self.fixed.get(node).is_none_or(|fixed| *fixed == node_type)
    }

    /// Returns the GPU type at the current place of a job.
    pub(super) fn gpu_now(&self, job: &SubmittedJob<'_>) -> Option<usize> {
        let node = job.place?.node;
        self.nodes.get(node).copied().flatten().map(|node_type| self.catalogue.nodes()[node_type].gpu)
    }

    /// Returns the seconds without progress if a job is started anew.
    pub(super) fn restart_of(&self, job: &SubmittedJob<'_>) -> f64 {
        f64::from(u8::from(job.started)) * self.restart_s
    }

    /// Returns the seconds to the end of a job on `gpus` GPUs, moved there or staying.
    pub fn seconds_left(&self, job: &SubmittedJob<'_>, gpu: usize, gpus: usize, stays: bool) -> Option<f64> {
        let restart = if stays { job.owed_s } else { self.restart_of(job) };
        job.times.seconds(gpu, gpus).map(|seconds| seconds * job.left + restart)
    }
}

/// Types of the nodes and places of the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Type of each node; `None` = closed.
    pub nodes: Vec<Option<usize>>,
    /// Assignment of each job; `None` = it waits.
    pub places: Vec<Option<Assignment>>,
}

impl Plan {
    /// Whether a job keeps its place, on a node that keeps its type.
    pub fn stays(&self, situation: &Situation<'_>, job: usize) -> bool {
        let Some(place) = self.places[job] else { return false };
        situation.jobs[job].place == Some(place) && self.nodes[place.node] == situation.nodes[place.node]
    }
}

/// Times of a job on a number of GPUs, independent of the node's price.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// GPUs times seconds to the end.
    pub gpu_s: f64,
    /// Seconds to the end.
    pub seconds: f64,
    /// Cost of lateness, without the price of the node or of scarcity.
    pub lateness: f64,
}

/// A violated invariant of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The plan has another number of nodes or jobs than the situation.
    WrongSize,
    /// More GPUs are used than the node has.
    Overfull {
        /// The node.
        node: usize,
    },
    /// A node has a type that it cannot have.
    WrongType {
        /// The node.
        node: usize,
    },
    /// A job is on a closed node, has no GPU, or has GPUs that it cannot use.
    CannotRun {
        /// The job.
        job: usize,
    },
    /// A node is open without jobs.
    Idle {
        /// The node.
        node: usize,
    },
    /// There are jobs and none of them runs.
    NoneRuns,
}

/// Returns all violations of a plan; empty if it can be executed.
pub fn check(situation: &Situation<'_>, plan: &Plan) -> Vec<Violation> {
    if plan.nodes.len() != situation.nodes.len() || plan.places.len() != situation.jobs.len() {
        return vec![Violation::WrongSize];
    }
    let mut wrong = Vec::new();
    let mut used = vec![0; plan.nodes.len()];
    for (at, (job, place)) in situation.jobs.iter().zip(&plan.places).enumerate() {
        let Some(place) = place else { continue };
        let node_type = plan.nodes.get(place.node).copied().flatten();
        let gpu = node_type.map(|node_type| situation.catalogue.nodes()[node_type].gpu);
        if gpu.is_none_or(|gpu| job.times.seconds(gpu, place.gpus).is_none()) {
            wrong.push(Violation::CannotRun { job: at });
        } else {
            used[place.node] += place.gpus;
        }
    }
    for (node, node_type) in plan.nodes.iter().enumerate() {
        if node_type.is_some_and(|node_type| !situation.may_be(node, node_type)) {
            wrong.push(Violation::WrongType { node });
        }
        match node_type.map(|node_type| situation.catalogue.nodes()[node_type].gpus) {
            Some(gpus) if used[node] > gpus => wrong.push(Violation::Overfull { node }),
            Some(_) if used[node] == 0 => wrong.push(Violation::Idle { node }),
            _ => {}
        }
    }
    if !situation.jobs.is_empty() && plan.places.iter().all(Option::is_none) {
        wrong.push(Violation::NoneRuns);
    }
    wrong
}
