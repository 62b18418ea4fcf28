//! What is known at an instant, what is decided, and what every decision must respect.
//!
//! Imports: nothing of this crate but the catalogue.

use super::catalogue::{Catalogue, RunTimes};

/// GPUs of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which node.
    pub node: usize,
    /// How many of its GPUs, at least one.
    pub gpus: usize,
}

/// A job that has been submitted and has not ended.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// How long the whole of it takes.
    pub times: &'a RunTimes,
    /// The part of it that is left, above 0 and at most 1.
    pub left: f64,
    /// When it was submitted, counted from the first job: what first come, first served goes by.
    pub number: usize,
    /// d: when it should have ended, in seconds.
    pub deadline_s: f64,
    /// ω: cost of each second after the deadline.
    pub weight: f64,
    /// Where it is now.
    pub place: Option<Place>,
    /// It has run before: starting it anywhere else costs [`Situation::restart_s`].
    pub started: bool,
    /// Seconds of a restart that are still ahead where it is now.
    pub owed_s: f64,
}

/// Everything a decision depends on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// T_c, in seconds.
    pub now_s: f64,
    /// What can be opened.
    pub catalogue: &'a Catalogue,
    /// What is open on each node: an index into [`Catalogue::nodes`].
    pub nodes: &'a [Option<usize>],
    /// The jobs, in any order.
    pub jobs: &'a [Job<'a>],
    /// Seconds without progress that a job costs that is moved, stopped or resized, or whose node gets another type.
    pub restart_s: f64,
}

impl Situation<'_> {
    /// The type of GPU where a job is now.
    pub(super) fn gpu_now(&self, job: &Job<'_>) -> Option<usize> {
        let node = job.place?.node;
        self.nodes.get(node).copied().flatten().map(|node_type| self.catalogue.nodes()[node_type].gpu)
    }

    /// Seconds without progress of a job that is started anew.
    pub(super) fn restart_of(&self, job: &Job<'_>) -> f64 {
        f64::from(u8::from(job.started)) * self.restart_s
    }

    /// Seconds to the end of a job on so many GPUs, moved there or staying.
    pub fn seconds_left(&self, job: &Job<'_>, gpu: usize, gpus: usize, stays: bool) -> Option<f64> {
        let restart = if stays { job.owed_s } else { self.restart_of(job) };
        job.times.seconds(gpu, gpus).map(|seconds| seconds * job.left + restart)
    }
}

/// What is open and who runs where.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The type of each node; `None` is a closed one.
    pub nodes: Vec<Option<usize>>,
    /// The place of each job; `None` waits.
    pub places: Vec<Option<Place>>,
}

impl Plan {
    /// A job is where it was, on a node that is what it was.
    pub fn stays(&self, situation: &Situation<'_>, job: usize) -> bool {
        let Some(place) = self.places[job] else { return false };
        situation.jobs[job].place == Some(place) && self.nodes[place.node] == situation.nodes[place.node]
    }
}

/// A job on so many GPUs, before the node's price is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// GPUs times seconds to the end.
    pub gpu_s: f64,
    /// Seconds to the end.
    pub seconds: f64,
    /// Lateness, without the price of the node or of scarcity.
    pub lateness: f64,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It speaks of other nodes or jobs than there are.
    WrongSize,
    /// More GPUs are used than the node has.
    Overfull {
        /// The node.
        node: usize,
    },
    /// A job is on a closed node, on no GPU, or on GPUs that it cannot use.
    CannotRun {
        /// The job.
        job: usize,
    },
    /// A node is open and nobody is on it.
    Idle {
        /// The node.
        node: usize,
    },
    /// Jobs are there and none of them runs.
    NobodyRuns,
}

/// Everything that is wrong with a plan; nothing, if it can be carried out.
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
        match node_type.map(|node_type| situation.catalogue.nodes()[node_type].gpus) {
            Some(gpus) if used[node] > gpus => wrong.push(Violation::Overfull { node }),
            Some(_) if used[node] == 0 => wrong.push(Violation::Idle { node }),
            _ => {}
        }
    }
    if !situation.jobs.is_empty() && plan.places.iter().all(Option::is_none) {
        wrong.push(Violation::NobodyRuns);
    }
    wrong
}
