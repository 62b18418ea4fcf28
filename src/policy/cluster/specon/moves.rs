//! Algorithms 2 and 3: the target of a converged job, and the rebalancing of nodes.
//!
//! A job moves at most once because it converged, and once more to rebalance nodes.

use crate::cluster::ranked::Score;
use model::Millis;
use model::cluster::{Category, ClusterObservation, ClusterReason, Move, NodeState, Phase, Worker};
use std::collections::BTreeSet;

/// [w_pc, w_wc, w_cc]
const WEIGHTS: [f64; 3] = [2.0, 1.5, 1.0];

/// One node as the manager sees it.
#[derive(Clone, Default)]
struct ManagedNode {
    /// [S_w]
    score: f64,
    /// [R(w, t)]
    used: f64,
    /// [|w|]
    jobs: usize,
    /// [|PC| + |WC|]
    growing: usize,
}

/// Returns the moves, and the jobs that asked for a move but stay: these are also marked as moved.
pub(in crate::cluster) fn moves(
    observation: &ClusterObservation,
    mut accepts: impl FnMut(usize, usize) -> bool,
) -> (Vec<Move>, Vec<usize>) {
    let mut nodes = nodes(observation);
    // By ascending score, then by ascending use.
    let key = |nodes: &[ManagedNode], node: usize| (Score(nodes[node].score), Score(nodes[node].used), node);
    let mut order: BTreeSet<(Score, Score, usize)> = usable(observation).map(|node| key(&nodes, node)).collect();
    let mut moves = Vec::new();
    let mut stay = Vec::new();
    for (job, worker) in single(observation) {
        let seen = &observation.jobs[job];
        let asks = worker.convergence.is_some_and(|convergence| convergence.asks);
        if !asks || seen.moves > 0 || !seen.movable || nodes[worker.node].growing == 0 {
            continue;
        }
        let Some((Score(least), _, to)) = order.first().copied() else { break };
        if nodes[worker.node].score <= least {
            stay.push(job);
            continue;
        }
        if !accepts(job, to) {
            continue;
        }
        let (from, at) = (nodes[worker.node].score, least);
        let changed = [worker.node, to];
        let was_usable = changed.map(|node| order.remove(&key(&nodes, node)));
        leave(&mut nodes, worker, to);
        order.extend(changed.into_iter().zip(was_usable).filter(|(_, was)| *was).map(|(node, _)| key(&nodes, node)));
        let reason = ClusterReason::Converged { from, to: at };
        moves.push(Move { job, worker: worker.number, from: worker.node, to, reason });
    }
    rebalance(observation, &mut nodes, &mut moves, &mut accepts);
    (moves, stay)
}

/// Algorithm 3, once all running jobs have converged. An idle node takes one job per run. Without idle nodes, each node that has enough jobs
/// gives at most one.
fn rebalance(
    observation: &ClusterObservation,
    nodes: &mut [ManagedNode],
    moves: &mut Vec<Move>,
    accepts: &mut impl FnMut(usize, usize) -> bool,
) {
    if nodes.iter().any(|node| node.growing > 0) {
        return;
    }
    let usable: Vec<usize> = usable(observation).collect();
    let jobs: usize = usable.iter().map(|node| nodes[*node].jobs).sum();
    let Some(factor) = jobs.checked_div(usable.len()) else { return };
    let idle: Vec<usize> = usable.iter().copied().filter(|node| nodes[*node].jobs == 0).collect();
    let has_idle = !idle.is_empty();
    let below = if has_idle { factor } else { factor.saturating_sub(1) };
    let takers = if has_idle { idle } else { usable.into_iter().filter(|node| nodes[*node].jobs < below).collect() };
    let mut takes = vec![false; nodes.len()];
    takers.iter().for_each(|node| takes[*node] = true);
    let planned: BTreeSet<usize> = moves.iter().map(|planned| planned.job).collect();
    let mut durations: Vec<(Millis, usize, &Worker)> = single(observation)
        .filter(|(job, worker)| {
            let seen = &observation.jobs[*job];
            seen.movable && seen.moves < 2 && !takes[worker.node] && !planned.contains(job)
        })
        .filter_map(|(job, worker)| {
            let convergence = worker.convergence.filter(|convergence| convergence.category == Category::Converged)?;
            Some((observation.now.since(convergence.since), job, worker))
        })
        .collect();
    durations.sort_by_key(|(duration, job, _)| (*duration, *job));
    let mut next = durations.into_iter();
    let mut gave = vec![false; nodes.len()];
    for to in takers {
        while nodes[to].jobs < below {
            let Some((_, job, worker)) = next.next() else { return };
            if (!has_idle && gave[worker.node]) || !accepts(job, to) {
                continue;
            }
            gave[worker.node] = true;
            leave(nodes, worker, to);
            let reason = ClusterReason::Rebalanced;
            moves.push(Move { job, worker: worker.number, from: worker.node, to, reason });
            if has_idle {
                break;
            }
        }
    }
}

fn leave(nodes: &mut [ManagedNode], worker: &Worker, to: usize) {
    let mut leaving = ManagedNode::default();
    count(&mut leaving, worker);
    let from = &mut nodes[worker.node];
    from.score -= leaving.score;
    from.jobs -= leaving.jobs;
    from.growing -= leaving.growing;
    count(&mut nodes[to], worker);
}

fn count(node: &mut ManagedNode, worker: &Worker) {
    let category = worker.convergence.map_or(Category::Progressing, |convergence| convergence.category);
    node.score += WEIGHTS[category as usize];
    node.jobs += 1;
    node.growing += usize::from(category != Category::Converged);
    node.used += worker.cores.unwrap_or(0.0);
}

fn nodes(observation: &ClusterObservation) -> Vec<ManagedNode> {
    let mut nodes = vec![ManagedNode::default(); observation.nodes.len()];
    for worker in observation.jobs.iter().flat_map(|job| &job.placed) {
        if let Some((node, _)) = worker.counts_on() {
            count(&mut nodes[node], worker);
        }
    }
    for (node, seen) in nodes.iter_mut().zip(&observation.nodes) {
        node.used = seen.used_cores.unwrap_or(node.used);
    }
    nodes
}

fn usable(observation: &ClusterObservation) -> impl Iterator<Item = usize> {
    observation.nodes.iter().enumerate().filter(|(_, node)| node.state == NodeState::Ready).map(|(at, _)| at)
}

/// Returns the running jobs of one worker; the source has no others.
fn single(observation: &ClusterObservation) -> impl Iterator<Item = (usize, &Worker)> {
    observation.jobs.iter().enumerate().filter_map(|(at, job)| match job.placed.as_slice() {
        [worker] if worker.phase == Phase::Running => Some((at, worker)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{cluster, worker};
    use model::cluster::{ClusterJob, Convergence};

    fn job(node: usize, category: Category, since: u64) -> ClusterJob {
        let asks = category == Category::Converged;
        worker(node, |worker| worker.convergence = Some(Convergence { category, asks, since: Millis(since) }))
    }

    fn planned(jobs: Vec<ClusterJob>, nodes: usize) -> (Vec<(usize, usize)>, Vec<usize>) {
        let mut observation = cluster(nodes, 8.0);
        observation.now = Millis::from_secs(1000);
        observation.jobs = jobs;
        let (moves, stay) = moves(&observation, |_, _| true);
        (moves.into_iter().map(|planned| (planned.job, planned.to)).collect(), stay)
    }

    #[test]
    fn a_converged_job_moves_to_the_node_with_the_lowest_score() {
        use Category::{Converged, Progressing, Watching};
        // Scores 2 + 1 = 3, 1.5, 2.
        let jobs = vec![job(0, Progressing, 0), job(0, Converged, 5), job(1, Watching, 0), job(2, Progressing, 0)];
        assert_eq!(planned(jobs, 3), (vec![(1, 1)], vec![]));
    }

    #[test]
    fn a_job_on_the_node_with_the_lowest_score_stays_and_is_marked_as_moved() {
        use Category::{Converged, Progressing};
        let jobs = vec![job(0, Progressing, 0), job(0, Converged, 5), job(1, Progressing, 0), job(1, Progressing, 0)];
        assert_eq!(planned(jobs, 2), (vec![], vec![1]));
    }

    #[test]
    fn no_job_moves_off_a_node_without_growing_jobs() {
        let jobs = vec![job(0, Category::Converged, 5), job(0, Category::Converged, 6), job(1, Category::Converged, 7)];
        assert_eq!(planned(jobs, 2), (vec![], vec![]));
    }

    #[test]
    fn an_idle_node_takes_the_job_that_converged_last() {
        // Four jobs on two of three nodes: the third is idle and takes 4 / 3 = 1 job.
        let jobs = (0..4).map(|n| job(n / 2, Category::Converged, 100 * n as u64)).collect();
        assert_eq!(planned(jobs, 3), (vec![(3, 2)], vec![]));
    }

    #[test]
    fn without_idle_nodes_a_node_with_two_jobs_fewer_than_average_takes_one() {
        // 9 jobs on 3 nodes: the factor is 3, and nodes with fewer than 2 jobs take one.
        let jobs =
            (0..9).map(|n| job(if n == 0 { 0 } else { 1 + n % 2 }, Category::Converged, 100 * n as u64)).collect();
        assert_eq!(planned(jobs, 3), (vec![(8, 0)], vec![]));
    }

    #[test]
    fn an_idle_node_takes_one_job_per_run() {
        // Six jobs on one of two nodes: the factor is 3, and the idle node could hold three.
        let jobs = (0..6).map(|n| job(0, Category::Converged, 100 * n)).collect();
        assert_eq!(planned(jobs, 2), (vec![(5, 1)], vec![]));
    }

    #[test]
    fn nodes_are_rebalanced_only_when_all_jobs_have_converged() {
        let mut jobs: Vec<ClusterJob> = (0..4).map(|n| job(n / 2, Category::Converged, 100 * n as u64)).collect();
        jobs.iter_mut().for_each(|job| job.moves = 1);
        assert_eq!(planned(jobs.clone(), 3), (vec![(3, 2)], vec![]));
        jobs.push(job(0, Category::Progressing, 0));
        assert_eq!(planned(jobs, 3), (vec![], vec![]));
    }
}
