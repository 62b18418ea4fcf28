//! ProCon: a new job is placed on the node with the lowest contention rate.
//!
//! Source: "Progress-based Container Scheduling" (ProCon), equations 1 to 4, Algorithms 1 and 2. Each job's remaining-time indicator is
//! `i = (f / u) · (MAX − P)` with f = seconds between its last two reports and u = its fraction of the CPU that all jobs of the node use.
//! The contention rate c(W) is the sum, over all future seconds, of the number of remaining jobs less one. Its closed form is
//! Σ i − max i. Nodes with spare CPU come first; if there is none, the rate is computed again with u = 1 / (jobs + 1).
//!
//! Not specified by the source: a job that has not reported twice counts with the mean indicator of those that have.

use crate::cluster::ranked::Ranked;
use model::cluster::{ClusterObservation, ClusterReason, Report, Worker};

/// [L(W)] A node that uses less than this fraction of its cores has spare CPU.
const SPARE_BELOW: f64 = 0.95;

/// Jobs and load of one node.
#[derive(Clone, Default)]
struct Contention {
    /// Cores that its jobs use.
    used: f64,
    /// [f, MAX − P] and used cores of each job that has reported.
    reported: Vec<(Report, f64)>,
    /// Number of jobs that have not reported.
    silent: usize,
    /// `upper_limit` of the source.
    is_full: bool,
}

/// Nodes ranked by their contention rates.
pub(in crate::cluster) struct ProCon {
    nodes: Vec<Contention>,
    /// The indicator of a job that has not reported.
    usual: f64,
    spare: Ranked,
    full: Ranked,
}

impl ProCon {
    pub(super) fn new(observation: &ClusterObservation) -> ProCon {
        let mut nodes = vec![Contention::default(); observation.nodes.len()];
        for worker in observation.jobs.iter().flat_map(|job| &job.placed) {
            take(&mut nodes, worker);
        }
        for (node, seen) in nodes.iter_mut().zip(&observation.nodes) {
            let used = seen.used_cores.unwrap_or(node.used);
            node.is_full |= used >= SPARE_BELOW * seen.capacity.cores;
        }
        let known = nodes.iter().flat_map(Contention::indicators);
        let (count, sum) = known.fold((0.0, 0.0), |(count, sum), indicator| (count + 1.0, sum + indicator));
        let usual = if count > 0.0 { sum / count } else { 1.0 };
        let spare = Ranked::new(nodes.iter().map(|node| (!node.is_full).then(|| node.rate(usual))));
        let full = Ranked::new(nodes.iter().map(|node| Some(node.rate_with_one_more(usual))));
        ProCon { nodes, usual, spare, full }
    }

    pub(super) fn choose(&self, mut accepts: impl FnMut(usize) -> bool) -> Option<(usize, ClusterReason)> {
        let (node, rate) =
            self.spare.first(usize::MAX, &mut accepts).or_else(|| self.full.first(usize::MAX, &mut accepts))?;
        Some((node, ClusterReason::LeastContention { rate }))
    }

    pub(super) fn place(&mut self, node: usize) {
        let contention = &mut self.nodes[node];
        contention.silent += 1;
        contention.is_full = true;
        let rate = contention.rate_with_one_more(self.usual);
        self.spare.set(node, None);
        self.full.set(node, Some(rate));
    }
}

fn take(nodes: &mut [Contention], worker: &Worker) {
    let Some((node, arrives)) = worker.counts_on() else { return };
    let node = &mut nodes[node];
    let cores = worker.cores.unwrap_or(0.0);
    node.used += cores;
    // The CPU use of an arriving worker is not known yet.
    node.is_full |= arrives;
    match worker.report {
        Some(report) if !arrives => node.reported.push((report, cores)),
        _ => node.silent += 1,
    }
}

impl Contention {
    /// [i] at the current shares of the CPU.
    fn indicators(&self) -> impl Iterator<Item = f64> {
        let used: f64 = self.reported.iter().map(|(_, cores)| cores).sum();
        self.reported
            .iter()
            .filter(|(_, cores)| *cores > 0.0)
            .map(move |(report, cores)| report.unit_s / (cores / used.max(*cores)) * report.units_left)
    }

    /// [c(W)]
    fn rate(&self, usual: f64) -> f64 {
        contention(self.indicators().chain(std::iter::repeat_n(usual, self.silent)))
    }

    /// [c(W)] with one more job and equal shares.
    fn rate_with_one_more(&self, usual: f64) -> f64 {
        let jobs = (self.reported.len() + self.silent) as f64;
        let reported = self.reported.iter().map(|(report, _)| report.unit_s * (jobs + 1.0) * report.units_left);
        contention(reported.chain(std::iter::repeat_n(usual, self.silent)))
    }
}

/// Σ over all future seconds of (remaining jobs − 1).
fn contention(indicators: impl Iterator<Item = f64>) -> f64 {
    let (sum, longest) = indicators.fold((0.0, 0.0), |(sum, longest): (f64, f64), i| (sum + i, longest.max(i)));
    sum - longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{cluster, worker};

    #[test]
    fn the_closed_form_is_the_sum_over_seconds() {
        let indicators = [3.0, 7.0, 7.0, 12.0];
        let jobs_at = |second: f64| indicators.iter().filter(|i| **i > second).count() as f64;
        let summed: f64 = (0..12).map(|second| jobs_at(f64::from(second)) - 1.0).sum();
        assert_eq!(contention(indicators.into_iter()), summed);
    }

    #[test]
    fn a_node_with_spare_cpu_comes_before_one_with_less_contention() {
        // Two jobs use half of the first node; one job fills the second.
        let mut observation = cluster(2, 8.0);
        for (node, cores) in [(0, 2.0), (0, 2.0), (1, 8.0)] {
            let report = Some(Report { unit_s: 1.0, units_left: 100.0 });
            observation.jobs.push(worker(node, |worker| (worker.report, worker.cores) = (report, Some(cores))));
        }
        assert_eq!(ProCon::new(&observation).choose(|_| true).map(|(node, _)| node), Some(0));
    }

    #[test]
    fn if_all_nodes_are_full_the_job_is_placed_where_jobs_end_soonest() {
        let mut observation = cluster(2, 8.0);
        for (node, units_left) in [(0, 100.0), (0, 100.0), (1, 20.0), (1, 30.0)] {
            let report = Some(Report { unit_s: 1.0, units_left });
            observation.jobs.push(worker(node, |worker| (worker.report, worker.cores) = (report, Some(4.0))));
        }
        // i = 1 s · (2 + 1) · units: Σ − max = 20 · 3 on the second node.
        let (node, reason) = ProCon::new(&observation).choose(|_| true).expect("a node");
        assert_eq!((node, reason), (1, ClusterReason::LeastContention { rate: 60.0 }));
    }
}
