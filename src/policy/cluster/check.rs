//! Validation of plans: the invariants of every plan, independent of the rules that produced it.
//!
//! Run on every plan before it is executed.

use super::capacity::{allows, holds};
use model::Bytes;
use model::cluster::{ClusterObservation, ClusterPlan, ClusterSettings, NodeState, Phase, Resources, Start};
use std::collections::BTreeMap;

/// A violated invariant. Nodes and jobs are indexes into the observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterViolation {
    /// The plan names a job, worker or node that does not exist.
    Unknown,
    /// Reservations would exceed the capacity of a node.
    Overfull {
        /// The node.
        node: usize,
    },
    /// A job would run with fewer workers than its minimum.
    HalfGang {
        /// The job.
        job: usize,
    },
    /// A job would have more workers than its maximum.
    TooManyWorkers {
        /// The job.
        job: usize,
    },
    /// A worker would be placed on a node that is not ready.
    UnusableNode {
        /// The node.
        node: usize,
    },
    /// A worker would be placed on a node that the job's constraints exclude.
    Constraint {
        /// The job.
        job: usize,
        /// The node.
        node: usize,
    },
    /// Two actions for one worker, a start of a placed worker, or an action for a worker that is stopping or moving.
    Twice {
        /// The job.
        job: usize,
        /// The worker's number.
        worker: u32,
    },
    /// A job that must not move would be moved.
    Unmovable {
        /// The job.
        job: usize,
    },
    /// More moves in flight than allowed, on a node or in total.
    TooManyMoves,
}

/// Returns all violations of a plan; empty if it may be executed.
pub fn check(
    observation: &ClusterObservation,
    settings: &ClusterSettings,
    plan: &ClusterPlan,
) -> Vec<ClusterViolation> {
    if !names_are_known(observation, plan) {
        return vec![ClusterViolation::Unknown];
    }
    let mut violations = Vec::new();
    acts_are_single(observation, plan, &mut violations);
    targets_are_allowed(observation, plan, &mut violations);
    nodes_have_room(observation, plan, &mut violations);
    gangs_are_whole(observation, plan, &mut violations);
    moves_are_few(observation, settings, plan, &mut violations);
    violations
}

fn names_are_known(observation: &ClusterObservation, plan: &ClusterPlan) -> bool {
    let (nodes, jobs) = (observation.nodes.len(), observation.jobs.len());
    let has = |job: usize, worker: u32| {
        observation.jobs.get(job).is_some_and(|job| job.placed.iter().any(|placed| placed.number == worker))
    };
    let has_alternative =
        |start: &Start| start.alternative.is_none_or(|at| at < observation.jobs[start.job].alternatives.len());
    plan.starts.iter().all(|start| start.job < jobs && start.node < nodes && has_alternative(start))
        && plan.stops.iter().all(|stop| has(stop.job, stop.worker))
        && plan.moves.iter().all(|moved| has(moved.job, moved.worker) && moved.to < nodes && moved.from < nodes)
        && plan.waits.iter().all(|wait| wait.job < jobs)
        && plan.ends.iter().all(|(job, _)| *job < jobs)
}

fn acts_are_single(observation: &ClusterObservation, plan: &ClusterPlan, violations: &mut Vec<ClusterViolation>) {
    let mut acts: BTreeMap<(usize, u32), usize> = BTreeMap::new();
    let starts = plan.starts.iter().map(|start| (start.job, start.worker));
    let stops = plan.stops.iter().map(|stop| (stop.job, stop.worker));
    let moves = plan.moves.iter().map(|moved| (moved.job, moved.worker));
    for act in starts.clone().chain(stops.clone()).chain(moves.clone()) {
        *acts.entry(act).or_default() += 1;
    }
    let phase = |(job, worker): (usize, u32)| {
        observation.jobs[job].placed.iter().find(|placed| placed.number == worker).map(|placed| placed.phase)
    };
    // Starting a worker that is already placed would run it twice.
    let wrong = |act: &(usize, u32)| phase(*act).is_some();
    let busy = |act: &(usize, u32)| phase(*act).is_some_and(|phase| !matches!(phase, Phase::Running | Phase::Starting));
    let twice = acts.iter().filter(|(_, count)| **count > 1).map(|(act, _)| *act);
    let all = twice.chain(starts.filter(wrong)).chain(stops.chain(moves).filter(busy));
    violations.extend(all.map(|(job, worker)| ClusterViolation::Twice { job, worker }));
}

fn targets_are_allowed(observation: &ClusterObservation, plan: &ClusterPlan, violations: &mut Vec<ClusterViolation>) {
    for start in &plan.starts {
        let alternative = start.alternative.and_then(|at| observation.jobs[start.job].alternatives.get(at));
        if alternative.is_some_and(|alternative| !allows(&observation.nodes[start.node], &alternative.constraints)) {
            violations.push(ClusterViolation::Constraint { job: start.job, node: start.node });
        }
    }
    let starts = plan.starts.iter().map(|start| (start.job, start.node));
    for (job, at) in starts.chain(plan.moves.iter().map(|moved| (moved.job, moved.to))) {
        let node = &observation.nodes[at];
        if node.state != NodeState::Ready {
            violations.push(ClusterViolation::UnusableNode { node: at });
        }
        if !allows(node, &observation.jobs[job].constraints) {
            violations.push(ClusterViolation::Constraint { job, node: at });
        }
    }
    for moved in &plan.moves {
        let job = &observation.jobs[moved.job];
        let is_there = job.placed.iter().any(|worker| worker.number == moved.worker && worker.node == moved.from);
        if !job.movable || !is_there || moved.from == moved.to {
            violations.push(ClusterViolation::Unmovable { job: moved.job });
        }
    }
}

fn nodes_have_room(observation: &ClusterObservation, plan: &ClusterPlan, violations: &mut Vec<ClusterViolation>) {
    let mut reserved = vec![Resources::default(); observation.nodes.len()];
    let mut add = |node: usize, request: Resources| {
        if let Some(sum) = reserved.get_mut(node) {
            sum.cores += request.cores;
            sum.memory = Bytes(sum.memory.0.saturating_add(request.memory.0));
            sum.gpus = sum.gpus.saturating_add(request.gpus);
        }
    };
    for job in &observation.jobs {
        for worker in &job.placed {
            worker.occupies().for_each(|node| add(node, job.request));
        }
    }
    let starts = || plan.starts.iter().map(|start| (start, observation.jobs[start.job].request_in(start.alternative)));
    starts().for_each(|(start, request)| add(start.node, request));
    plan.moves.iter().for_each(|moved| add(moved.to, observation.jobs[moved.job].request));
    // Nodes that are overfull already do not count against the plan.
    let mut filled: Vec<(usize, Resources)> = starts().map(|(start, request)| (start.node, request)).collect();
    filled.extend(plan.moves.iter().map(|moved| (moved.to, observation.jobs[moved.job].request)));
    filled.retain(|(_, request)| *request != Resources::default());
    let mut filled: Vec<usize> = filled.into_iter().map(|(node, _)| node).collect();
    filled.sort_unstable();
    filled.dedup();
    let overfull = filled.into_iter().filter(|node| !holds(observation.nodes[*node].capacity, reserved[*node], 1));
    violations.extend(overfull.map(|node| ClusterViolation::Overfull { node }));
}

fn gangs_are_whole(observation: &ClusterObservation, plan: &ClusterPlan, violations: &mut Vec<ClusterViolation>) {
    let mut change: BTreeMap<usize, i64> = BTreeMap::new();
    plan.starts.iter().for_each(|start| *change.entry(start.job).or_default() += 1);
    plan.stops.iter().for_each(|stop| *change.entry(stop.job).or_default() -= 1);
    for (job, change) in change {
        let seen = &observation.jobs[job];
        let there = seen.placed.iter().filter(|worker| worker.phase != Phase::Stopping).count() as i64;
        let after = there + change;
        if after > 0 && after < i64::from(seen.workers.min) {
            violations.push(ClusterViolation::HalfGang { job });
        }
        if change > 0 && after > i64::from(seen.workers.max.max(1)) {
            violations.push(ClusterViolation::TooManyWorkers { job });
        }
    }
}

fn moves_are_few(
    observation: &ClusterObservation,
    settings: &ClusterSettings,
    plan: &ClusterPlan,
    violations: &mut Vec<ClusterViolation>,
) {
    if plan.moves.is_empty() {
        return;
    }
    let mut a_node = vec![0; observation.nodes.len()];
    let mut in_all = 0;
    let in_flight = observation.jobs.iter().flat_map(|job| &job.placed).filter_map(|worker| match worker.phase {
        Phase::MovingTo(to) => Some((worker.node, to)),
        _ => None,
    });
    for (from, to) in in_flight.chain(plan.moves.iter().map(|moved| (moved.from, moved.to))) {
        in_all += 1;
        a_node[from] += 1;
        a_node[to] += 1;
    }
    let crowded = plan
        .moves
        .iter()
        .any(|moved| [moved.from, moved.to].iter().any(|node| a_node[*node] > settings.moves_per_node));
    if crowded || in_all > settings.moves_at_once {
        violations.push(ClusterViolation::TooManyMoves);
    }
}
