//! Scaling of elastic jobs: which jobs give up workers for a waiting job, and which get more.
//!
//! Source: weighted DRAGON, sections III-C and III-D. Workers are stopped only if the waiting job fits afterwards. Where the operator allows
//! it, whole jobs are stopped for a more important one: all workers of a gang, or none.

use super::capacity::{FreeCapacity, When};
use super::due;
use super::gang::seat;
use super::placement::Placer;
use super::queue::{is_urgent, weight};
use model::cluster::{
    ClusterJob, ClusterObservation, ClusterReason, ClusterSettings, Phase, PlacementRule, QueueRule, Start, Stop,
};

/// Maximum number of candidates for being stopped as a whole, per waiting job.
const RECLAIMED_MOST: usize = 64;

/// Result of [`make_room`].
pub(super) enum MakingRoom {
    /// Room cannot be made, or must not be.
    No,
    /// The workers to stop; empty if enough workers are stopping already. The room is reserved.
    Yes(Vec<Stop>),
}

/// Workers of one job that stop together: one surplus worker, or all workers of the job.
#[derive(Clone)]
struct Leaving {
    job: usize,
    /// Number and node of each worker.
    workers: Vec<(u32, usize)>,
}

/// Makes room for a waiting job that fits nowhere. `stopped`: workers that the plan already stops, by job; `stops`: those stops.
pub(super) fn make_room(
    observation: &ClusterObservation,
    waiting: usize,
    settings: &ClusterSettings,
    free: &mut FreeCapacity<'_>,
    stopped: &mut [u32],
    stops: &[Stop],
    open: &impl Fn(usize) -> bool,
) -> MakingRoom {
    let job = &observation.jobs[waiting];
    // The best node is chosen once there is room; here any node will do.
    let mut placer = Placer::new(observation, PlacementRule::Spread, settings.procon_limit);
    let workers = job.workers.min.max(1);
    if settings.queue == QueueRule::FirstFit {
        return MakingRoom::No;
    }
    if seat(job, workers, free, &mut placer, open, When::Soon).is_some() {
        return MakingRoom::Yes(Vec::new());
    }
    let mut trial = free.clone();
    let mut leaving: Vec<Leaving> = Vec::new();
    let mut candidates = surplus_for(observation, job, settings, stopped, stops);
    if settings.reclaim && matches!(settings.queue, QueueRule::Weighted | QueueRule::Deadlines) {
        candidates.extend(reclaimable_for(observation, job, settings, free, stopped));
    }
    for candidate in candidates {
        // Some workers of a job that stops as a whole may be leaving already.
        let is_leaving = |worker: &(u32, usize)| {
            leaving.iter().any(|other| other.job == candidate.job && other.workers.contains(worker))
        };
        let request = observation.jobs[candidate.job].request;
        let more = candidate.workers.iter().filter(|worker| !is_leaving(worker));
        more.for_each(|(_, node)| trial.will_leave(*node, request));
        if candidate.workers.len() > 1 {
            leaving.retain(|other| other.job != candidate.job);
        }
        leaving.push(candidate);
        if seat(job, workers, &mut trial, &mut placer, open, When::Soon).is_none() {
            continue;
        }
        let leaving = needed(observation, job, workers, free, leaving, &mut placer, open);
        for Leaving { job, workers } in &leaving {
            workers.iter().for_each(|(_, node)| free.will_leave(*node, observation.jobs[*job].request));
            stopped[*job] += workers.len() as u32;
        }
        seat(job, workers, free, &mut placer, open, When::Soon);
        let reason = |job: usize| match stopped[job] as usize == observation.jobs[job].placed.len() {
            true if settings.queue == QueueRule::Deadlines => ClusterReason::Preempted { waiting },
            true => ClusterReason::Reclaimed { waiting },
            false => ClusterReason::ScaledDown { waiting },
        };
        let stops = leaving.iter().flat_map(|Leaving { job, workers }| {
            let reason = reason(*job);
            workers.iter().map(move |(worker, _)| Stop { job: *job, worker: *worker, reason: reason.clone() })
        });
        return MakingRoom::Yes(stops.collect());
    }
    MakingRoom::No
}

/// Drops the candidates that need not stop: the job still fits without stopping them.
fn needed(
    observation: &ClusterObservation,
    job: &ClusterJob,
    workers: u32,
    free: &FreeCapacity<'_>,
    leaving: Vec<Leaving>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
) -> Vec<Leaving> {
    let mut kept = leaving;
    let mut at = 0;
    while at < kept.len() {
        let mut without = free.clone();
        for (_, other) in kept.iter().enumerate().filter(|(other, _)| *other != at) {
            let request = observation.jobs[other.job].request;
            other.workers.iter().for_each(|(_, node)| without.will_leave(*node, request));
        }
        if seat(job, workers, &mut without, placer, open, When::Soon).is_some() {
            kept.remove(at);
        } else {
            at += 1;
        }
    }
    kept
}

/// Returns the jobs of less weight that save their state, each as a whole: by ascending weight, then by node, then the youngest first. With
/// deadlines, those that can wait, the one with the most slack first.
fn reclaimable_for(
    observation: &ClusterObservation,
    waiting: &ClusterJob,
    settings: &ClusterSettings,
    free: &FreeCapacity<'_>,
    stopped: &[u32],
) -> Vec<Leaving> {
    let is_by_deadline = settings.queue == QueueRule::Deadlines;
    let claim = |job: &ClusterJob| match is_by_deadline {
        true => -due::slack_s(job, observation, settings),
        false => weight(job.priority),
    };
    let stronger = match is_by_deadline {
        true => -due::slack_needed_s(waiting, observation, settings),
        false => weight(waiting.priority),
    };
    // An incomplete gang is completed or stopped elsewhere.
    let is_up = |job: &ClusterJob| {
        let is_whole = job.placed.len() >= job.workers.min.max(1) as usize;
        is_whole && job.placed.iter().all(|worker| worker.phase == Phase::Running)
    };
    let helps = |job: &ClusterJob| job.placed.iter().any(|worker| free.admits(worker.node, waiting));
    let may = |(at, job): &(usize, &ClusterJob)| {
        job.movable && stopped[*at] == 0 && claim(job) < stronger && is_up(job) && helps(job)
    };
    let mut jobs: Vec<(usize, &ClusterJob)> = observation.jobs.iter().enumerate().filter(may).collect();
    jobs.sort_by(|(_, a), (_, b)| {
        let first_node = |job: &ClusterJob| job.placed.first().map(|worker| worker.node);
        let by_claim = claim(a).total_cmp(&claim(b));
        by_claim.then_with(|| first_node(a).cmp(&first_node(b))).then_with(|| b.arrived.cmp(&a.arrived))
    });
    let whole = |(at, job): (usize, &ClusterJob)| Leaving {
        job: at,
        workers: job.placed.iter().map(|worker| (worker.number, worker.node)).collect(),
    };
    jobs.into_iter().take(RECLAIMED_MOST).map(whole).collect()
}

/// Returns the workers that could stop one by one for the waiting job, in the order in which they should stop.
fn surplus_for(
    observation: &ClusterObservation,
    waiting: &ClusterJob,
    settings: &ClusterSettings,
    stopped: &[u32],
    stops: &[Stop],
) -> Vec<Leaving> {
    let waited = observation.now.since(waiting.arrived);
    let keeps = |job: &ClusterJob| match settings.queue {
        QueueRule::FirstFit | QueueRule::Deadlines => u32::MAX,
        QueueRule::Dragon if waited >= settings.dragon_waits => job.workers.min,
        QueueRule::Dragon => u32::MAX,
        QueueRule::Weighted if weight(job.priority) < weight(waiting.priority) => job.workers.min,
        // Workers beyond `initial` were added only because resources were unused.
        QueueRule::Weighted if weight(job.priority) == weight(waiting.priority) => job.workers.initial,
        QueueRule::Weighted => u32::MAX,
    };
    let mut surplus: Vec<(f64, usize, u32, usize)> = Vec::new();
    for (at, job) in observation.jobs.iter().enumerate() {
        let running: Vec<_> = job.placed.iter().filter(|worker| worker.phase == Phase::Running).collect();
        let there = (running.len() as u32).saturating_sub(stopped[at]);
        let spare = there.saturating_sub(keeps(job).max(1)) as usize;
        let stops = |number: u32| stops.iter().any(|stop| stop.job == at && stop.worker == number);
        // The most recently started worker stops first.
        let remaining = running.iter().rev().filter(|worker| stopped[at] == 0 || !stops(worker.number));
        let last_first = remaining.take(spare);
        surplus.extend(last_first.map(|worker| (weight(job.priority), at, worker.number, worker.node)));
    }
    surplus.sort_by(|a, b| a.0.total_cmp(&b.0));
    surplus.into_iter().map(|(_, job, worker, node)| Leaving { job, workers: vec![(worker, node)] }).collect()
}

/// Adds workers to running jobs, one per job and round, by descending weight, as long as resources last.
pub(super) fn scale_up(
    observation: &ClusterObservation,
    settings: &ClusterSettings,
    free: &mut FreeCapacity<'_>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
) -> Vec<Start> {
    let may = match settings.queue {
        QueueRule::FirstFit | QueueRule::Deadlines => false,
        QueueRule::Dragon => observation.now.since(observation.quiet_since) >= settings.dragon_idles,
        QueueRule::Weighted => true,
    };
    let is_settled = |job: &ClusterJob| {
        let count = job.placed.len() as u32;
        // An incomplete gang is completed or stopped, not scaled.
        count >= job.workers.min.max(1)
            && count < job.workers.max
            && job.placed.iter().all(|worker| worker.phase == Phase::Running)
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
            let Some(seats) = seat(job, 1, free, placer, open, When::Now) else { continue };
            let worker = free_number(job, *more);
            *more += 1;
            starts.extend(seats.into_iter().map(|(node, _)| Start {
                job: *at,
                worker,
                node,
                alternative: None,
                reason: ClusterReason::ScaledUp,
            }));
        }
        if starts.len() == before {
            return starts;
        }
    }
}

/// Returns the smallest unused worker number of the job, after skipping `skip` unused ones.
pub(super) fn free_number(job: &ClusterJob, skip: u32) -> u32 {
    let taken = |number: &u32| job.placed.iter().any(|worker| worker.number == *number);
    (0..).filter(|number| !taken(number)).nth(skip as usize).unwrap_or(u32::MAX)
}

/// Whether workers may be stopped for this waiting job now. Saves a futile search.
pub(super) fn may_ask(
    observation: &ClusterObservation,
    job: &ClusterJob,
    settings: &ClusterSettings,
    is_stuck: bool,
) -> bool {
    match settings.queue {
        QueueRule::FirstFit | QueueRule::Deadlines => false,
        QueueRule::Dragon => observation.now.since(job.arrived) >= settings.dragon_waits,
        QueueRule::Weighted => is_urgent(job.priority) || is_stuck || observation.jobs.iter().any(has_extra),
    }
}

/// Whether a job has more workers than it started with.
fn has_extra(job: &ClusterJob) -> bool {
    job.placed.len() as u32 > job.workers.initial
}

#[cfg(test)]
mod tests {
    use crate::cluster::testing::{cluster, gang, worker};
    use crate::cluster::{check, plan};
    use model::Millis;
    use model::cluster::{ClusterObservation, ClusterSettings, NodeState, QueueRule, WorkerRange};

    /// Jobs and workers that a plan stops.
    fn stops(observation: &ClusterObservation, reclaim: bool) -> Vec<(usize, u32)> {
        let settings = ClusterSettings { reclaim, ..ClusterSettings::default() };
        let plan = plan(observation, &settings);
        assert_eq!(check(observation, &settings, &plan), []);
        plan.stops.iter().map(|stop| (stop.job, stop.worker)).collect()
    }

    #[test]
    fn a_worker_is_stopped_only_once_for_two_waiting_jobs() {
        let mut observation = cluster(2, 6.0);
        observation.nodes[1].state = NodeState::Draining;
        let mut elastic = gang("elastic", 1, 2.0);
        elastic.workers = WorkerRange { min: 1, initial: 1, max: 4 };
        // The most recently started worker is on the draining node: stopping it would not help, so the others make room.
        let place = |(number, node)| worker(node, |worker| worker.number = number).placed.remove(0);
        elastic.placed = [(0, 0), (1, 0), (2, 0), (3, 1)].map(place).into();
        elastic.movable = false;
        observation.jobs = vec![elastic, gang("one", 1, 2.0), gang("other", 1, 2.0)];
        assert_eq!(stops(&observation, false), [(0, 2), (0, 1)]);
    }

    #[test]
    fn whole_jobs_are_reclaimed_for_a_more_important_one_where_the_operator_allows_it() {
        let mut observation = cluster(4, 4.0);
        let place = |name: &str, nodes: &[usize], level: f64| {
            let mut job = gang(name, nodes.len() as u32, 4.0);
            job.priority.level = level;
            let placed = nodes.iter().enumerate();
            job.placed =
                placed.flat_map(|(at, node)| worker(*node, |worker| worker.number = at as u32).placed).collect();
            job
        };
        let mut urgent = gang("urgent", 2, 4.0);
        urgent.priority.level = 50.0;
        observation.jobs = vec![place("low", &[0, 1], 1.0), place("middle", &[2, 3], 20.0), urgent];
        assert_eq!(stops(&observation, false), [], "not allowed by default");
        assert_eq!(stops(&observation, true), [(0, 0), (0, 1)]);
        observation.jobs[0].movable = false;
        assert_eq!(stops(&observation, true), [(1, 0), (1, 1)], "a job that does not save its state is not stopped");
        observation.jobs[2].priority.level = 20.0;
        assert_eq!(stops(&observation, true), [], "not for a job of equal weight");
        observation.jobs[0].movable = true;
        (observation.jobs[2].workers, observation.jobs[2].priority.level) =
            (WorkerRange { min: 5, initial: 5, max: 5 }, 100.0);
        assert_eq!(stops(&observation, true), [], "the waiting job would not fit anyway");
    }

    #[test]
    fn dragon_scales_down_and_up_after_the_times_that_are_set() {
        let mut observation = cluster(1, 4.0);
        observation.now = Millis::from_secs(100);
        let mut elastic = gang("elastic", 1, 2.0);
        elastic.workers = WorkerRange { min: 1, initial: 1, max: 2 };
        let place = |number| worker(0, |worker| worker.number = number).placed.remove(0);
        elastic.placed = [0, 1].map(place).into();
        let mut waiting = gang("waiting", 1, 2.0);
        waiting.arrived = Millis::from_secs(60);
        observation.jobs = vec![elastic, waiting];
        let with = |dragon_waits, dragon_idles| ClusterSettings {
            queue: QueueRule::Dragon,
            dragon_waits: Millis::from_secs(dragon_waits),
            dragon_idles: Millis::from_secs(dragon_idles),
            ..ClusterSettings::default()
        };
        let stopped = |waits| plan(&observation, &with(waits, 60)).stops.len();
        assert_eq!([stopped(30), stopped(40), stopped(41)], [1, 1, 0]);
        observation.jobs.pop();
        observation.jobs[0].placed.pop();
        observation.quiet_since = Millis::from_secs(30);
        let started = |idles| plan(&observation, &with(30, idles)).starts.len();
        assert_eq!([started(60), started(70), started(71)], [1, 1, 0]);
    }
}
