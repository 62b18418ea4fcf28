//! The default: a new job goes where it adds least to the sum of all completion times.
//!
//! On a node whose governor favours short work, a job with `w` CPU-seconds ahead ends after its own work and that of the shorter ones, and
//! delays the longer ones by its own: in all it adds `(w + Σ min(w, w_j)) / cores` seconds. How much a job has ahead is known only with an
//! interval, and of a new one mostly nothing is known: then the expectation is taken, with the work of a new job distributed exponentially
//! around what trainings here take as a rule. Where the CPU is not used up, a job delays nobody. Imports: model.

use super::ranked::Ranked;
use crate::model::Estimate;
use crate::model::cluster::{ClusterObservation, ClusterReason, Phase, Worker};
use std::collections::BTreeMap;

/// A node that uses less of its cores than this has CPU to spare.
const SPARE_BELOW: f64 = 0.9;

/// Work of a training where nothing at all is known, CPU-seconds: only its ratio to itself counts then.
const UNKNOWN_WORK: f64 = 1000.0;

/// Swanson's rule: the mean of a quantity by its quantiles of 10, 50 and 90 %.
const SWANSON: [f64; 3] = [0.3, 0.4, 0.3];

/// Works within a factor of √2 are ranked alike.
const CLASSES_A_DOUBLING: f64 = 2.0;

/// How much work a job has ahead, in CPU-seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::policy::cluster) enum Load {
    /// Foreseen by its node, or known from earlier runs.
    Foreseen(Estimate),
    /// Distributed exponentially around this mean.
    Expected(f64),
}

impl Load {
    /// What is ahead of a worker that is somewhere.
    pub(in crate::policy::cluster) fn of(worker: &Worker, usual: f64) -> Load {
        worker.work_left.map_or(Load::Expected(usual), Load::Foreseen)
    }

    /// Expected CPU-seconds for which this job and one with `work` ahead are in each other's way.
    pub(in crate::policy::cluster) fn shared_with(self, work: f64) -> f64 {
        match self {
            Load::Foreseen(Estimate { low, likely, high }) => {
                let [a, b, c] = SWANSON;
                a * low.min(work) + b * likely.min(work) + c * high.min(work)
            }
            Load::Expected(mean) => least_of(mean, work),
        }
    }

    /// The same with a job whose work is distributed exponentially around `mean`.
    fn shared_with_unknown(self, mean: f64) -> f64 {
        match self {
            Load::Foreseen(Estimate { low, likely, high }) => {
                let [a, b, c] = SWANSON;
                a * least_of(mean, low) + b * least_of(mean, likely) + c * least_of(mean, high)
            }
            Load::Expected(other) => mean * other / (mean + other),
        }
    }
}

/// Expectation of the lesser of `work` and something distributed exponentially around `mean`.
fn least_of(mean: f64, work: f64) -> f64 {
    -mean * (-work / mean).exp_m1()
}

/// CPU-seconds of a whole training, as a rule: of those that ended, or else twice what is ahead of those that run.
pub(in crate::policy::cluster) fn usual_work(observation: &ClusterObservation) -> f64 {
    let ahead = observation.jobs.iter().flat_map(|job| &job.placed).filter_map(|worker| worker.work_left);
    let (count, sum) = ahead.fold((0.0, 0.0), |(count, sum), work| (count + 1.0, sum + work.likely));
    let running = (count > 0.0).then(|| 2.0 * sum / count);
    let usual = observation.usual_work.or(running).filter(|work| work.is_finite() && *work > 0.0);
    usual.unwrap_or(UNKNOWN_WORK)
}

/// One node.
struct Loaded {
    cores: f64,
    loads: Vec<Load>,
    has_spare_cpu: bool,
}

/// The nodes by what a job would add there, for each class of work.
pub(in crate::policy::cluster) struct Added {
    nodes: Vec<Loaded>,
    usual: f64,
    /// By class; `None` = nothing is known of the new job.
    ranked: BTreeMap<Option<i32>, Ranked>,
}

impl Added {
    pub(super) fn new(observation: &ClusterObservation) -> Added {
        let usual = usual_work(observation);
        let empty = observation.nodes.iter().map(|node| Loaded {
            cores: node.capacity.cores.max(f64::MIN_POSITIVE),
            loads: Vec::new(),
            has_spare_cpu: node.used_cores.is_some_and(|used| used < SPARE_BELOW * node.capacity.cores),
        });
        let mut nodes: Vec<Loaded> = empty.collect();
        for worker in observation.jobs.iter().flat_map(|job| &job.placed) {
            let (node, arrives) = match worker.phase {
                Phase::Stopping => continue,
                Phase::Running => (worker.node, false),
                Phase::Starting => (worker.node, true),
                Phase::MovingTo(to) => (to, true),
            };
            nodes[node].loads.push(Load::of(worker, usual));
            nodes[node].has_spare_cpu &= !arrives;
        }
        Added { nodes, usual, ranked: BTreeMap::new() }
    }

    pub(super) fn choose(
        &mut self,
        work: Option<f64>,
        accepts: impl FnMut(usize) -> bool,
    ) -> Option<(usize, ClusterReason)> {
        let class = work.filter(|work| work.is_finite() && *work > 0.0).map(class_of);
        let Added { nodes, usual, ranked } = self;
        let ranked = ranked
            .entry(class)
            .or_insert_with(|| Ranked::new(nodes.iter().map(|node| Some(node.added(class, *usual)))));
        let (node, seconds) = ranked.first(accepts)?;
        Some((node, ClusterReason::LeastAdded { seconds }))
    }

    pub(super) fn place(&mut self, node: usize, work: Option<f64>) {
        let load = match work {
            Some(work) => Load::Foreseen(Estimate { low: work, likely: work, high: work }),
            None => Load::Expected(self.usual),
        };
        let loaded = &mut self.nodes[node];
        loaded.loads.push(load);
        loaded.has_spare_cpu = false;
        for (class, ranked) in &mut self.ranked {
            ranked.set(node, Some(loaded.added(*class, self.usual)));
        }
    }
}

impl Loaded {
    /// Seconds that a new job of this class adds to the sum of completions.
    fn added(&self, class: Option<i32>, usual: f64) -> f64 {
        let own = class.map_or(usual, work_in);
        if self.has_spare_cpu {
            return own / self.cores;
        }
        let others: f64 = match class {
            Some(class) => self.loads.iter().map(|load| load.shared_with(work_in(class))).sum(),
            None => self.loads.iter().map(|load| load.shared_with_unknown(usual)).sum(),
        };
        (own + others) / self.cores
    }
}

fn class_of(work: f64) -> i32 {
    (CLASSES_A_DOUBLING * work.log2()).round() as i32
}

fn work_in(class: i32) -> f64 {
    (f64::from(class) / CLASSES_A_DOUBLING).exp2()
}
