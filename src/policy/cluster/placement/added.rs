//! The default rule: a new job is placed where it adds least to the sum of all completion times.
//!
//! If the governor of a node always ran the shortest job, a job with `w` CPU-seconds left would end after its own work and that of shorter
//! jobs, and delay longer jobs by its own work: it would add `(w + Σ min(w, w_j)) / cores` seconds in total. With plain sharing the sum would
//! count twice. A governor is between the two: it also serves young jobs and lets none fall far behind. The work left of a running job is an
//! interval. That of a new job is often unknown: its expectation is used, with an exponential distribution around the usual work. On a node
//! with spare CPU a job delays no other.

use super::load::{Load, usual_work, work_of};
use crate::cluster::ranked::Ranked;
use model::Estimate;
use model::cluster::{ClusterObservation, ClusterReason, Phase};
use std::collections::BTreeMap;

/// Fraction of a node's cores that must be unused for it to have spare CPU, besides as many cores as a job uses: a full node looks slightly
/// less than full whenever one of its jobs starts, ends or waits for the disk. What each of its jobs uses must be known.
const SPARE_AT_LEAST: f64 = 0.1;

/// How often the competition with another job counts, from 1 (the shortest job always runs) to 2 (plain sharing). It matters if nodes differ
/// in size: with 1, too many jobs are placed on the large ones.
const COMPETITION: f64 = 1.5;

/// Number of work classes per doubling: jobs whose work is within a factor of √2 share a class.
const CLASSES_A_DOUBLING: f64 = 2.0;

/// One node and the work left of its jobs.
struct Loaded {
    cores: f64,
    /// By the job's index in the observation; `None` for a job that this plan starts.
    loads: Vec<(Option<usize>, Load)>,
    has_spare_cpu: bool,
}

/// Nodes ranked by the seconds that a job would add there, for each class of work.
pub(in crate::cluster) struct Added {
    nodes: Vec<Loaded>,
    usual: f64,
    /// By class; `None` = the work of the new job is unknown.
    ranked: BTreeMap<Option<i32>, Ranked>,
}

impl Added {
    pub(in crate::cluster) fn new(observation: &ClusterObservation) -> Added {
        let usual = usual_work(observation);
        let empty = observation.nodes.iter().map(|node| Loaded {
            cores: node.capacity.cores.max(f64::MIN_POSITIVE),
            loads: Vec::new(),
            has_spare_cpu: false,
        });
        let mut nodes: Vec<Loaded> = empty.collect();
        let wanted = wanted(observation);
        for ((node, seen), wanted) in nodes.iter_mut().zip(&observation.nodes).zip(wanted) {
            node.has_spare_cpu = seen.used_cores.is_some_and(|used| seen.capacity.cores - used > wanted);
        }
        for (at, job) in observation.jobs.iter().enumerate() {
            let known = work_of(job, job.placed.len() as u32);
            for worker in &job.placed {
                let Some((node, arrives)) = worker.counts_on() else { continue };
                nodes[node].loads.push((Some(at), Load::of(worker, known, usual)));
                nodes[node].has_spare_cpu &= !arrives && worker.cores.is_some();
            }
        }
        Added { nodes, usual, ranked: BTreeMap::new() }
    }

    /// Returns the first acceptable node among the `most` best for a job with this work (CPU-seconds; `None` = unknown).
    pub(in crate::cluster) fn choose(
        &mut self,
        work: Option<f64>,
        most: usize,
        accepts: impl FnMut(usize) -> bool,
    ) -> Option<(usize, ClusterReason)> {
        let class = work.filter(|work| work.is_finite() && *work > 0.0).map(class_of);
        let Added { nodes, usual, ranked } = self;
        let ranked = ranked
            .entry(class)
            .or_insert_with(|| Ranked::new(nodes.iter().map(|node| Some(node.added_by_one_of(class, *usual)))));
        let (node, seconds) = ranked.first(most, accepts)?;
        Some((node, ClusterReason::LeastAdded { seconds }))
    }

    /// Records that a job with this work starts on the node.
    pub(super) fn place(&mut self, node: usize, work: Option<f64>) {
        let load = work.map_or(Load::Expected(self.usual), |work| Load::Forecast(Estimate::exactly(work)));
        self.nodes[node].loads.push((None, load));
        self.nodes[node].has_spare_cpu = false;
        self.rank(node);
    }

    /// Records that an observed job moves from one node to another.
    pub(in crate::cluster) fn relocate(&mut self, job: usize, from: usize, to: usize) {
        let Some(at) = self.nodes[from].loads.iter().position(|(known, _)| *known == Some(job)) else { return };
        let load = self.nodes[from].loads.swap_remove(at);
        self.nodes[to].loads.push(load);
        self.nodes[to].has_spare_cpu = false;
        self.rank(from);
        self.rank(to);
    }

    /// Whether the node has spare CPU, so that jobs there do not delay each other.
    pub(in crate::cluster) fn has_spare_cpu(&self, node: usize) -> bool {
        self.nodes[node].has_spare_cpu
    }

    /// Returns the seconds that an observed job with this work adds, or would add, to the sum of completion times on the node.
    pub(in crate::cluster) fn seconds(&self, node: usize, job: usize, work: f64) -> f64 {
        let Loaded { cores, loads, has_spare_cpu } = &self.nodes[node];
        let others = loads.iter().filter(|(other, _)| *other != Some(job) && !has_spare_cpu);
        (work + COMPETITION * others.map(|(_, load)| load.shared_with(work)).sum::<f64>()) / cores
    }

    fn rank(&mut self, node: usize) {
        for (class, ranked) in &mut self.ranked {
            ranked.set(node, Some(self.nodes[node].added_by_one_of(*class, self.usual)));
        }
    }
}

impl Loaded {
    /// Returns the seconds that a new job of this class adds to the sum of completion times.
    fn added_by_one_of(&self, class: Option<i32>, usual: f64) -> f64 {
        let own = class.map_or(usual, work_in);
        if self.has_spare_cpu {
            return own / self.cores;
        }
        let loads = self.loads.iter().map(|(_, load)| load);
        let others: f64 = match class {
            Some(class) => loads.map(|load| load.shared_with(work_in(class))).sum(),
            None => loads.map(|load| load.shared_with_unknown(usual)).sum(),
        };
        (own + COMPETITION * others) / self.cores
    }
}

/// Returns, per node, the cores that must be unused so that one more job delays no other: the larger of what its largest job uses and what
/// jobs use on average.
fn wanted(observation: &ClusterObservation) -> Vec<f64> {
    let mut largest: Vec<f64> = observation.nodes.iter().map(|node| SPARE_AT_LEAST * node.capacity.cores).collect();
    let workers = observation.jobs.iter().flat_map(|job| &job.placed);
    let running = workers.filter(|worker| worker.phase == Phase::Running);
    let (mut count, mut sum) = (0.0, 0.0);
    for (node, cores) in running.filter_map(|worker| Some((worker.node, worker.cores?))) {
        (count, sum) = (count + 1.0, sum + cores);
        largest[node] = largest[node].max(cores);
    }
    let mean = if count > 0.0 { sum / count } else { 0.0 };
    largest.into_iter().map(|largest| largest.max(mean)).collect()
}

fn class_of(work: f64) -> i32 {
    (CLASSES_A_DOUBLING * work.log2()).round() as i32
}

fn work_in(class: i32) -> f64 {
    (f64::from(class) / CLASSES_A_DOUBLING).exp2()
}
