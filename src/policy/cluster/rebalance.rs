//! The default's moves: only where the forecasts gain more than the measured price.
//!
//! A job that leaves a node spares the sum of completions what it would add there, and adds to another node what it costs there
//! (see [`placement`](super::placement)). The difference, less the seconds without progress that the move costs, is the gain. It is computed
//! for the near, the likely and the far end of the job's forecast, and the least of the three must be a gain: what is not known well does not
//! move. One job at a time leaves or reaches a node. Imports: model.

use super::placement::{Load, Placer, usual_work};
use super::rooms::{Rooms, When};
use crate::model::Estimate;
use crate::model::cluster::{
    ClusterJob, ClusterObservation, ClusterReason, ClusterSettings, Move, NodeState, Phase, PlacementRule, Worker,
};

/// A node that uses less of its cores than this has CPU to spare: nobody is in another's way there.
const SPARE_BELOW: f64 = 0.9;

/// What is ahead of the jobs of one node.
struct Node {
    cores: f64,
    loads: Vec<(usize, Load)>,
    has_spare_cpu: bool,
}

/// Moves in flight: how many may still begin.
pub(super) struct Allowance {
    a_node: Vec<usize>,
    in_all: usize,
}

impl Allowance {
    pub(super) fn of(observation: &ClusterObservation, settings: &ClusterSettings) -> Allowance {
        let mut allowance =
            Allowance { a_node: vec![settings.moves_a_node; observation.nodes.len()], in_all: settings.moves_in_all };
        for worker in observation.jobs.iter().flat_map(|job| &job.placed) {
            if let Phase::MovingTo(to) = worker.phase {
                allowance.take(worker.node, to);
            }
        }
        allowance
    }

    pub(super) fn allows(&self, from: usize, to: usize) -> bool {
        self.in_all > 0 && self.a_node[from] > 0 && self.a_node[to] > 0
    }

    pub(super) fn take(&mut self, from: usize, to: usize) {
        self.in_all = self.in_all.saturating_sub(1);
        self.a_node[from] = self.a_node[from].saturating_sub(1);
        self.a_node[to] = self.a_node[to].saturating_sub(1);
    }
}

/// Moves that gain, the best first.
pub(super) fn moves(
    observation: &ClusterObservation,
    rooms: &mut Rooms<'_>,
    allowance: &mut Allowance,
    closed: &[bool],
) -> Vec<Move> {
    if allowance.in_all == 0 {
        return Vec::new();
    }
    let usual = usual_work(observation);
    let mut nodes = nodes(observation, usual);
    let mut placer = Placer::new(observation, PlacementRule::LeastAdded);
    let mut candidates: Vec<(f64, usize)> = Vec::new();
    for (at, job) in observation.jobs.iter().enumerate() {
        if let Some((gain, _)) = best(observation, at, job, &nodes, rooms, allowance, &mut placer, closed) {
            candidates.push((gain, at));
        }
    }
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut moves = Vec::new();
    for (_, at) in candidates {
        let job = &observation.jobs[at];
        // Earlier moves of this plan changed what it gains.
        let Some((seconds, to)) = best(observation, at, job, &nodes, rooms, allowance, &mut placer, closed) else {
            continue;
        };
        let worker = &job.placed[0];
        let work = worker.work_left.map(|work| work.likely);
        rooms.take(to, job.request);
        allowance.take(worker.node, to);
        nodes[worker.node].loads.retain(|(job, _)| *job != at);
        nodes[to].loads.push((at, Load::of(worker, usual)));
        nodes[to].has_spare_cpu = false;
        placer.place(to, work);
        let reason = ClusterReason::Gains { seconds, price_s: worker.move_s };
        moves.push(Move { job: at, worker: worker.number, from: worker.node, to, reason });
    }
    moves
}

/// The best move of a job: seconds gained, and where to.
fn best(
    observation: &ClusterObservation,
    at: usize,
    job: &ClusterJob,
    nodes: &[Node],
    rooms: &Rooms<'_>,
    allowance: &Allowance,
    placer: &mut Placer,
    closed: &[bool],
) -> Option<(f64, usize)> {
    let (worker, work) = candidate(job)?;
    let from = &nodes[worker.node];
    if from.has_spare_cpu || allowance.in_all == 0 || allowance.a_node[worker.node] == 0 {
        return None;
    }
    // Nothing can be gained that is not lost here.
    let spared = |work: f64| from.added(at, work);
    if spared(work.low).max(spared(work.high)) <= worker.move_s {
        return None;
    }
    let accepts = |to: usize| {
        to != worker.node
            && !closed[to]
            && allowance.allows(worker.node, to)
            && rooms.fits(to, job.request, 1, When::Now)
            && rooms.admits(to, job)
            && observation.nodes[to].state == NodeState::Ready
    };
    let (to, _) = placer.choose(Some(work.likely), accepts)?;
    let gain = |work: f64| spared(work) - nodes[to].added(at, work) - worker.move_s;
    let least = gain(work.low).min(gain(work.likely)).min(gain(work.high));
    (least > 0.0).then_some((least, to))
}

/// A job of one worker that runs, may be moved, and whose work is foreseen.
fn candidate(job: &ClusterJob) -> Option<(&Worker, Estimate)> {
    let [worker] = job.placed.as_slice() else { return None };
    let may = job.movable && worker.phase == Phase::Running && worker.move_s.is_finite();
    Some((worker, worker.work_left.filter(|_| may)?))
}

impl Node {
    /// Seconds that a job with this work adds to the sum of completions here, beside the others.
    fn added(&self, job: usize, work: f64) -> f64 {
        let others = self.loads.iter().filter(|(other, _)| *other != job && !self.has_spare_cpu);
        (work + others.map(|(_, load)| load.shared_with(work)).sum::<f64>()) / self.cores
    }
}

fn nodes(observation: &ClusterObservation, usual: f64) -> Vec<Node> {
    let seen = observation.nodes.iter().map(|node| Node {
        cores: node.capacity.cores.max(f64::MIN_POSITIVE),
        loads: Vec::new(),
        has_spare_cpu: node.used_cores.is_some_and(|used| used < SPARE_BELOW * node.capacity.cores),
    });
    let mut nodes: Vec<Node> = seen.collect();
    for (at, job) in observation.jobs.iter().enumerate() {
        for worker in &job.placed {
            let (node, arrives) = match worker.phase {
                Phase::Stopping => continue,
                Phase::Running => (worker.node, false),
                Phase::Starting => (worker.node, true),
                Phase::MovingTo(to) => (to, true),
            };
            nodes[node].loads.push((at, Load::of(worker, usual)));
            nodes[node].has_spare_cpu &= !arrives;
        }
    }
    nodes
}
