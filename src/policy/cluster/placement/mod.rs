//! Placement of a waiting job: the best node with room, by one of several rules.
//!
//! A [`Placer`] keeps the nodes' scores and updates them as workers are placed. Choosing and placing take O(log nodes) as long as the best
//! nodes have room.

mod added;
mod load;
mod procon;

use super::ranked::Ranked;
use model::cluster::{ClusterObservation, ClusterReason, PlacementRule, Worker};
use procon::ProCon;

pub(super) use added::Added;
pub(super) use load::work_of;

/// Ranks the nodes by one of the rules.
pub(super) enum Placer {
    Spread { workers: Vec<usize>, ranked: Ranked },
    ProCon(ProCon),
    Added(Added),
}

impl Placer {
    /// `procon_limit` is ProCon's L(W).
    pub(super) fn new(observation: &ClusterObservation, rule: PlacementRule, procon_limit: f64) -> Placer {
        match rule {
            PlacementRule::Spread => {
                let workers = workers(observation);
                let ranked = Ranked::new(workers.iter().map(|count| Some(*count as f64)));
                Placer::Spread { workers, ranked }
            }
            PlacementRule::ProCon => Placer::ProCon(ProCon::new(observation, procon_limit)),
            PlacementRule::LeastAdded => Placer::Added(Added::new(observation)),
        }
    }

    /// Returns the best acceptable node for a worker with this remaining work (CPU-seconds; `None` = unknown).
    pub(super) fn choose(
        &mut self,
        work: Option<f64>,
        accepts: impl FnMut(usize) -> bool,
    ) -> Option<(usize, ClusterReason)> {
        match self {
            Placer::Spread { workers, ranked } => {
                let (node, _) = ranked.first(usize::MAX, accepts)?;
                Some((node, ClusterReason::FewestWorkers { workers: workers[node] }))
            }
            Placer::ProCon(procon) => procon.choose(accepts),
            Placer::Added(added) => added.choose(work, usize::MAX, accepts),
        }
    }

    /// Records that a worker with this remaining work is placed on the node.
    pub(super) fn place(&mut self, node: usize, work: Option<f64>) {
        match self {
            Placer::Spread { workers, ranked } => {
                workers[node] += 1;
                ranked.set(node, Some(workers[node] as f64));
            }
            Placer::ProCon(procon) => procon.place(node),
            Placer::Added(added) => added.place(node, work),
        }
    }
}

/// Counts the workers that each node has, or will have after the moves in flight.
fn workers(observation: &ClusterObservation) -> Vec<usize> {
    let mut counts = vec![0; observation.nodes.len()];
    let workers = observation.jobs.iter().flat_map(|job| &job.placed);
    workers.filter_map(Worker::counts_on).for_each(|(node, _)| counts[node] += 1);
    counts
}

#[cfg(test)]
mod tests;
