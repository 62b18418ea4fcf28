//! ProCon: a new job is placed on the node with the lowest contention rate.
//!
//! Source: "Progress-based Container Scheduling" (ProCon), equations 1 to 4, Algorithms 1 and 2. Each job's remaining-time indicator is
//! `i = (f / u) · (MAX − P)` with f = seconds between its last two reports and u = its fraction of the CPU that all jobs of the node use.
//! The contention rate c(W) is the sum, over all future seconds, of the number of remaining jobs less one. Its closed form is
//! Σ i − max i. Nodes with spare CPU come first; if there is none, the rate is computed again with u = 1 / (jobs + 1).
//!
//! Not specified by the source: a job that has not reported twice counts with the mean f · (MAX − P) of those that have, and a job whose CPU
//! use is unknown with an equal share. The source names a limit L(W) and gives no number for it.

use crate::cluster::ranked::Ranked;
use model::cluster::{ClusterObservation, ClusterReason, Report, Worker};

/// Jobs and load of one node.
#[derive(Clone, Default)]
struct Contention {
    /// Cores that its jobs use.
    used: f64,
    jobs: Vec<NodeJob>,
    /// `upper_limit` of the source.
    is_full: bool,
}

/// A job on a node.
#[derive(Clone, Copy)]
struct NodeJob {
    /// [f, MAX − P] `None` = it has not reported.
    report: Option<Report>,
    /// Cores that it uses; `None` = unknown.
    cores: Option<f64>,
}

impl NodeJob {
    /// [f · (MAX − P)]
    fn ahead(self, usual: f64) -> f64 {
        self.report.map_or(usual, ahead)
    }
}

/// Nodes ranked by their contention rates.
pub(in crate::cluster) struct ProCon {
    nodes: Vec<Contention>,
    /// f · (MAX − P) of a job that has not reported.
    usual: f64,
    spare: Ranked,
    full: Ranked,
}

impl ProCon {
    /// A node that uses less than the part `limit` [L(W)] of its cores has spare CPU.
    pub(super) fn new(observation: &ClusterObservation, limit: f64) -> ProCon {
        let mut nodes = vec![Contention::default(); observation.nodes.len()];
        for worker in observation.jobs.iter().flat_map(|job| &job.placed) {
            take(&mut nodes, worker);
        }
        for (node, seen) in nodes.iter_mut().zip(&observation.nodes) {
            let used = seen.used_cores.unwrap_or(node.used);
            node.is_full |= used >= limit * seen.capacity.cores;
        }
        let known = nodes.iter().flat_map(|node| &node.jobs).filter_map(|job| job.report).map(ahead);
        let (count, sum) = known.fold((0.0, 0.0), |(count, sum), ahead| (count + 1.0, sum + ahead));
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
        contention.jobs.push(NodeJob { report: None, cores: None });
        contention.is_full = true;
        let rate = contention.rate_with_one_more(self.usual);
        self.spare.set(node, None);
        self.full.set(node, Some(rate));
    }
}

fn take(nodes: &mut [Contention], worker: &Worker) {
    let Some((node, arrives)) = worker.counts_on() else { return };
    let node = &mut nodes[node];
    node.used += worker.cores.unwrap_or(0.0);
    // The CPU use of an arriving worker is not known yet.
    node.is_full |= arrives;
    node.jobs.push(match arrives {
        true => NodeJob { report: None, cores: None },
        false => NodeJob { report: worker.report, cores: worker.cores },
    });
}

fn ahead(report: Report) -> f64 {
    report.unit_s * report.units_left
}

impl Contention {
    /// [c(W)] at the current shares of the CPU, each a part of what all jobs of the node use.
    fn rate(&self, usual: f64) -> f64 {
        let used: f64 = self.jobs.iter().filter_map(|job| job.cores).sum();
        let equal = 1.0 / self.jobs.len() as f64;
        let share = |job: &NodeJob| job.cores.filter(|cores| *cores > 0.0).map_or(equal, |cores| cores / used);
        contention(self.jobs.iter().map(|job| job.ahead(usual) / share(job)))
    }

    /// [c(W)] with one more job and equal shares.
    fn rate_with_one_more(&self, usual: f64) -> f64 {
        let jobs = self.jobs.len() as f64 + 1.0;
        contention(self.jobs.iter().map(|job| job.ahead(usual) * jobs))
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

    const LIMIT: f64 = 0.95;

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
        assert_eq!(ProCon::new(&observation, LIMIT).choose(|_| true).map(|(node, _)| node), Some(0));
    }

    #[test]
    fn if_all_nodes_are_full_the_job_is_placed_where_jobs_end_soonest() {
        let mut observation = cluster(2, 8.0);
        for (node, units_left) in [(0, 100.0), (0, 100.0), (1, 20.0), (1, 30.0)] {
            let report = Some(Report { unit_s: 1.0, units_left });
            observation.jobs.push(worker(node, |worker| (worker.report, worker.cores) = (report, Some(4.0))));
        }
        // i = 1 s · (2 + 1) · units: Σ − max = 20 · 3 on the second node.
        let (node, reason) = ProCon::new(&observation, LIMIT).choose(|_| true).expect("a node");
        assert_eq!((node, reason), (1, ClusterReason::LeastContention { rate: 60.0 }));
    }

    #[test]
    fn jobs_that_never_report_take_part_in_the_shares_and_in_the_contention() {
        let mut observation = cluster(2, 8.0);
        let report = Some(Report { unit_s: 1.0, units_left: 60.0 });
        for (node, report) in [(0, report), (0, report), (1, report), (1, None), (1, None)] {
            observation.jobs.push(worker(node, |worker| (worker.report, worker.cores) = (report, Some(2.0))));
        }
        let procon = ProCon::new(&observation, LIMIT);
        // A share is a half on the first node and a third on the second, though two of its jobs print no total.
        assert_eq!(procon.nodes.iter().map(|node| node.rate(procon.usual).round()).collect::<Vec<_>>(), [120.0, 360.0]);
        let one_more = procon.nodes.iter().map(|node| node.rate_with_one_more(procon.usual));
        assert_eq!(one_more.collect::<Vec<_>>(), [180.0, 480.0], "the shares of silent jobs shrink like all others");
    }

    #[test]
    fn a_node_has_spare_cpu_below_the_limit_that_is_set() {
        let mut observation = cluster(2, 8.0);
        for (node, cores) in [(0, 6.0), (1, 7.0)] {
            observation.jobs.push(worker(node, |worker| worker.cores = Some(cores)));
        }
        let spare = |limit: f64| ProCon::new(&observation, limit).nodes.iter().filter(|node| !node.is_full).count();
        assert_eq!([spare(0.95), spare(0.8), spare(0.5)], [2, 1, 0]);
    }
}
