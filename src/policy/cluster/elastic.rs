//! Jobs with more workers than they need: who gives workers up, and who gets more.
//!
//! Source: weighted DRAGON, sections III-C and III-D. Workers are stopped only if the job that waits then fits; if not even all of them
//! would make enough room, none is stopped. Imports: model.

use super::gang::seat;
use super::placement::Placer;
use super::queue::{is_urgent, weight};
use super::rooms::{Rooms, When};
use crate::model::Millis;
use crate::model::cluster::{
    ClusterJob, ClusterObservation, ClusterReason, Phase, PlacementRule, QueueRule, Start, Stop,
};

/// DRAGON: a job that has waited so long may have others scaled down.
const DRAGON_WAITS: Millis = Millis::from_secs(30);

/// DRAGON: jobs are scaled up after so long a time in which nothing happened.
const DRAGON_IDLES: Millis = Millis::from_secs(60);

/// What making room for a job comes to.
pub(super) enum MakingRoom {
    /// It cannot be made, or must not.
    No,
    /// These workers stop; none, if enough of them are stopping already. The room is taken.
    Yes(Vec<Stop>),
}

/// Makes room for a waiting job that fits nowhere.
pub(super) fn make_room(
    observation: &ClusterObservation,
    waiting: usize,
    rule: QueueRule,
    rooms: &mut Rooms<'_>,
    stopped: &mut [u32],
    open: &impl Fn(usize) -> bool,
) -> MakingRoom {
    let job = &observation.jobs[waiting];
    // Which node is best is seen again when there is room; here it is enough that there is one.
    let mut placer = Placer::new(observation, PlacementRule::Spread);
    let workers = job.workers.min.max(1);
    if rule == QueueRule::FirstFit {
        return MakingRoom::No;
    }
    if seat(job, workers, rooms, &mut placer, open, When::Soon).is_some() {
        return MakingRoom::Yes(Vec::new());
    }
    let surplus = surplus_for(observation, job, rule, stopped);
    let mut trial = rooms.clone();
    let mut stops: Vec<(usize, u32, usize)> = Vec::new();
    for (from, worker, node) in surplus {
        trial.will_leave(node, observation.jobs[from].request);
        stops.push((from, worker, node));
        if seat(job, workers, &mut trial, &mut placer, open, When::Soon).is_none() {
            continue;
        }
        let stops = needed(observation, job, workers, rooms, stops, &mut placer, open);
        for (from, _, node) in &stops {
            rooms.will_leave(*node, observation.jobs[*from].request);
            stopped[*from] += 1;
        }
        seat(job, workers, rooms, &mut placer, open, When::Soon);
        let stop = |(job, worker, _)| Stop { job, worker, reason: ClusterReason::ScaledDown { waiting } };
        return MakingRoom::Yes(stops.into_iter().map(stop).collect());
    }
    MakingRoom::No
}

/// Leaves out what need not stop: stops on other nodes than the one that is large enough in the end.
fn needed(
    observation: &ClusterObservation,
    job: &ClusterJob,
    workers: u32,
    rooms: &Rooms<'_>,
    stops: Vec<(usize, u32, usize)>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
) -> Vec<(usize, u32, usize)> {
    let mut kept = stops;
    let mut at = 0;
    while at < kept.len() {
        let mut without = rooms.clone();
        for (_, (from, _, node)) in kept.iter().enumerate().filter(|(other, _)| *other != at) {
            without.will_leave(*node, observation.jobs[*from].request);
        }
        if seat(job, workers, &mut without, placer, open, When::Soon).is_some() {
            kept.remove(at);
        } else {
            at += 1;
        }
    }
    kept
}

/// Workers that could stop for this job, (job, worker, node), the first to stop first.
fn surplus_for(
    observation: &ClusterObservation,
    waiting: &ClusterJob,
    rule: QueueRule,
    stopped: &[u32],
) -> Vec<(usize, u32, usize)> {
    let waited = observation.now.since(waiting.arrived);
    let keeps = |job: &ClusterJob| match rule {
        QueueRule::FirstFit => u32::MAX,
        QueueRule::Dragon if waited >= DRAGON_WAITS => job.workers.min,
        QueueRule::Dragon => u32::MAX,
        QueueRule::Weighted if weight(job.priority) < weight(waiting.priority) => job.workers.min,
        // What it got because nobody wanted it.
        QueueRule::Weighted if weight(job.priority) == weight(waiting.priority) => job.workers.initial,
        QueueRule::Weighted => u32::MAX,
    };
    let mut surplus: Vec<(f64, usize, u32, usize)> = Vec::new();
    for (at, job) in observation.jobs.iter().enumerate() {
        let running: Vec<_> = job.placed.iter().filter(|worker| worker.phase == Phase::Running).collect();
        let there = (running.len() as u32).saturating_sub(stopped[at]);
        let spare = there.saturating_sub(keeps(job).max(1)) as usize;
        // The last that came goes first; those that stop already are at the end of the list.
        let last_first = running.iter().rev().skip(stopped[at] as usize).take(spare);
        surplus.extend(last_first.map(|worker| (weight(job.priority), at, worker.number, worker.node)));
    }
    surplus.sort_by(|a, b| a.0.total_cmp(&b.0));
    surplus.into_iter().map(|(_, job, worker, node)| (job, worker, node)).collect()
}

/// Gives running jobs another worker each, while resources last, the most important first.
pub(super) fn scale_up(
    observation: &ClusterObservation,
    rule: QueueRule,
    rooms: &mut Rooms<'_>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
) -> Vec<Start> {
    let may = match rule {
        QueueRule::FirstFit => false,
        QueueRule::Dragon => observation.now.since(observation.quiet_since) >= DRAGON_IDLES,
        QueueRule::Weighted => true,
    };
    let is_settled = |job: &ClusterJob| {
        let count = job.placed.len() as u32;
        count > 0 && count < job.workers.max && job.placed.iter().all(|worker| worker.phase == Phase::Running)
    };
    let mut growing: Vec<usize> =
        (0..observation.jobs.len()).filter(|&at| may && is_settled(&observation.jobs[at])).collect();
    growing.sort_by(|a, b| {
        weight(observation.jobs[*b].priority).total_cmp(&weight(observation.jobs[*a].priority)).then(a.cmp(b))
    });
    let mut starts: Vec<Start> = Vec::new();
    let mut more: Vec<u32> = vec![0; growing.len()];
    loop {
        let before = starts.len();
        for (at, more) in growing.iter().zip(&mut more) {
            let job = &observation.jobs[*at];
            if job.placed.len() as u32 + *more >= job.workers.max {
                continue;
            }
            let Some(seats) = seat(job, 1, rooms, placer, open, When::Now) else { continue };
            let worker = free_number(job, *more);
            *more += 1;
            starts.extend(seats.into_iter().map(|(node, _)| Start {
                job: *at,
                worker,
                node,
                reason: ClusterReason::ScaledUp,
            }));
        }
        if starts.len() == before {
            return starts;
        }
    }
}

/// The least number that no worker of the job has, after `skip` others.
pub(super) fn free_number(job: &ClusterJob, skip: u32) -> u32 {
    let taken = |number: &u32| job.placed.iter().any(|worker| worker.number == *number);
    (0..).filter(|number| !taken(number)).nth(skip as usize).unwrap_or(u32::MAX)
}

/// Whether a waiting job may have others stopped now; others would only waste the search.
pub(super) fn may_ask(observation: &ClusterObservation, job: &ClusterJob, rule: QueueRule, is_stuck: bool) -> bool {
    match rule {
        QueueRule::FirstFit => false,
        QueueRule::Dragon => observation.now.since(job.arrived) >= DRAGON_WAITS,
        QueueRule::Weighted => is_urgent(job.priority) || is_stuck || observation.jobs.iter().any(has_extra),
    }
}

/// Whether a job has more workers than it started with.
fn has_extra(job: &ClusterJob) -> bool {
    job.placed.len() as u32 > job.workers.initial
}
