//! Jobs with deadlines on existing nodes: the order of waiting jobs, and forecasts of all ends.
//!
//! Source: the thesis of [`super::deadlines`]: jobs in order of pressure Δ = now + t − d (eq. 3.1), then a local search. The thesis rents nodes
//! of any type and gives a job any number of GPUs. Here nodes and requests are fixed, so only the order is searched. Pressure grows equally
//! for all jobs, so its order is that of the *latest start* d − t, no earlier than the arrival. The latest start of a job without a deadline
//! is `overtaken_for` after its arrival. A job that arrives after the latest start of another has a later one itself, so no job starves. Jobs
//! whose latest start was `overtaken_for` ago come first and are excluded from the search. With `reclaim`, a job that would be late otherwise
//! preempts running jobs that save their state and can wait: their latest start is later than its end. So it goes before them in the queue too.
//!
//! A job of unknown run time is ordered as if it took `unknown_takes`. Neither its end nor the ends of jobs that start after it are forecast.

use super::capacity::{FreeCapacity, When};
use super::deadlines::Draw;
use super::price::price;
use super::queue::weight;
use super::ranked::Score;
use model::Millis;
use model::cluster::{ClusterJob, ClusterObservation, ClusterSettings, NodeState, Phase, Worker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A worker that uses fewer cores than this has no forecast from its work left: it would never end.
const CORES_LEAST: f64 = 0.01;
/// Maximum number of jobs that the search reorders, and of orders that it tries.
const SEARCHED: usize = 32;
const TRIES: u64 = 64;
const SEED: u64 = 0x0D0E;
/// Maximum number of job ends that are simulated.
const ENDS_MOST: usize = 512;

/// Forecast for all jobs.
pub(super) struct Forecast {
    /// The waiting jobs, in the order in which they should start.
    pub order: Vec<usize>,
    /// Expected ends of jobs, where known.
    pub ends: Vec<(usize, Millis)>,
}

/// Run time of a job from now on.
#[derive(Clone, Copy)]
struct RunTime {
    seconds: f64,
    /// False if `seconds` is a guess.
    is_known: bool,
}

/// What is assumed of jobs of which nothing is known.
#[derive(Clone, Copy)]
struct Guess {
    /// CPU-seconds of earlier jobs.
    work: Option<f64>,
    /// Run time if there is no such job either.
    seconds: f64,
}

impl Guess {
    fn of(observation: &ClusterObservation, settings: &ClusterSettings) -> Guess {
        Guess { work: observation.usual_work, seconds: settings.unknown_takes.as_secs_f64() }
    }
}

/// A running or simulated job and the nodes that it frees at its end.
struct Leaving<'a> {
    job: &'a ClusterJob,
    nodes: Vec<usize>,
    is_known: bool,
}

/// A waiting job.
struct Queued<'a> {
    at: usize,
    job: &'a ClusterJob,
    run_time: RunTime,
    /// Nodes that could run it, the cheapest first.
    nodes: Vec<usize>,
}

/// Simulated outcome of one order of the waiting jobs.
struct Outcome {
    /// Σ weight × seconds after the deadline.
    lateness: f64,
    /// End of each waiting job in seconds from now, where known.
    ends: Vec<Option<f64>>,
}

/// Orders the waiting jobs and forecasts all ends.
pub(super) fn forecast(
    observation: &ClusterObservation,
    free: &FreeCapacity<'_>,
    settings: &ClusterSettings,
) -> Forecast {
    let (now, overtaken_for) = (observation.now, settings.overtaken_for);
    let guess = Guess::of(observation, settings);
    let all = || observation.jobs.iter().enumerate();
    let mut by_price: Vec<usize> = (0..observation.nodes.len()).collect();
    by_price.sort_by(|a, b| price(observation, *a).total_cmp(&price(observation, *b)));
    let latest = |at: &usize| latest_start(&observation.jobs[*at], guess, overtaken_for);
    let mut order: Vec<usize> = all().filter(|(_, job)| job.placed.is_empty()).map(|(at, _)| at).collect();
    order.sort_by_cached_key(|at| (latest(at), observation.jobs[*at].arrived, observation.jobs[*at].name.clone()));
    let mut ends: Vec<(usize, f64)> = Vec::new();
    let mut leaving: Vec<(f64, Leaving<'_>)> = Vec::new();
    for (at, job) in all().filter(|(_, job)| !job.placed.is_empty()) {
        let RunTime { seconds, is_known } = time_left(job, guess);
        ends.extend(is_known.then_some((at, seconds)));
        let nodes = job.placed.iter().flat_map(Worker::occupies).collect();
        leaving.push((seconds, Leaving { job, nodes, is_known }));
    }
    let aged = order.iter().take_while(|at| now >= latest(at).after(overtaken_for)).count();
    let searched = (aged + SEARCHED).min(order.len());
    let entry = |at: &usize| {
        let job = &observation.jobs[*at];
        let nodes = by_price.iter().copied().filter(|node| free.admits(*node, job)).collect();
        Queued { at: *at, job, run_time: run_time(job, guess), nodes }
    };
    let mut queued: Vec<Queued<'_>> = order[..searched].iter().map(entry).collect();
    let mut outcome = simulate(now, free, &leaving, &queued);
    let mut draw = Draw::new(SEED, 0);
    for _ in 0..TRIES {
        let count = queued.len() - aged.min(queued.len());
        if outcome.lateness <= 0.0 || count < 2 {
            break;
        }
        let mut drawn = || aged + (draw.uniform() * count as f64) as usize;
        let (from, to) = (drawn(), drawn());
        if from == to {
            continue;
        }
        let moved = queued.remove(from);
        queued.insert(to, moved);
        let tried = simulate(now, free, &leaving, &queued);
        if tried.lateness < outcome.lateness {
            outcome = tried;
        } else {
            let moved = queued.remove(to);
            queued.insert(from, moved);
        }
    }
    ends.extend(queued.iter().zip(&outcome.ends).filter_map(|(entry, end)| Some((entry.at, (*end)?))));
    for (slot, entry) in order.iter_mut().zip(&queued) {
        *slot = entry.at;
    }
    Forecast { order, ends: ends.into_iter().map(|(at, seconds)| (at, now.after(millis(seconds)))).collect() }
}

/// Whether a job's latest start has passed. Such a job reserves the nodes that could run it.
pub(super) fn is_overdue(job: &ClusterJob, observation: &ClusterObservation, settings: &ClusterSettings) -> bool {
    observation.now >= latest_start(job, Guess::of(observation, settings), settings.overtaken_for)
}

/// Whether a job's latest start passed so long ago that it goes before all others.
pub(super) fn is_long_overdue(job: &ClusterJob, observation: &ClusterObservation, settings: &ClusterSettings) -> bool {
    let latest = latest_start(job, Guess::of(observation, settings), settings.overtaken_for);
    observation.now >= latest.after(settings.overtaken_for)
}

/// Whether a job with a deadline will be late unless it starts now, even in its fastest alternative.
pub(super) fn must_start_soon(job: &ClusterJob, observation: &ClusterObservation, settings: &ClusterSettings) -> bool {
    let ways = 0..job.alternatives.len().max(1);
    let slack = ways.map(|way| slack_s(&job.settled_on(way), observation, settings)).fold(f64::NEG_INFINITY, f64::max);
    job.deadline.is_some() && slack <= stop_and_start_s(observation)
}

/// Returns the seconds to the end of a job that starts now, or is running.
pub(super) fn takes(job: &ClusterJob, observation: &ClusterObservation, settings: &ClusterSettings) -> f64 {
    time_left(job, Guess::of(observation, settings)).seconds
}

/// Returns the seconds until a job's latest start; negative once it has passed.
pub(super) fn slack_s(job: &ClusterJob, observation: &ClusterObservation, settings: &ClusterSettings) -> f64 {
    let latest = latest_start(job, Guess::of(observation, settings), settings.overtaken_for);
    latest.as_secs_f64() - observation.now.as_secs_f64()
}

/// Whether a waiting job, which would end at `end`, meets its deadline only if running jobs make room for it now.
pub(super) fn needs_room(
    job: &ClusterJob,
    end: Option<Millis>,
    observation: &ClusterObservation,
    settings: &ClusterSettings,
) -> bool {
    job.deadline.is_some_and(|deadline| end.is_none_or(|end| end > deadline))
        && slack_s(job, observation, settings) <= stop_and_start_s(observation)
}

/// Returns the slack that a running job needs to make room for a waiting one: it stops, and starts again when that has run.
pub(super) fn slack_needed_s(
    waiting: &ClusterJob,
    observation: &ClusterObservation,
    settings: &ClusterSettings,
) -> f64 {
    run_time(waiting, Guess::of(observation, settings)).seconds + stop_and_start_s(observation)
}

/// Two moves: the stop of one job with the start of the other, and back.
fn stop_and_start_s(observation: &ClusterObservation) -> f64 {
    2.0 * observation.jobs.iter().flat_map(|job| &job.placed).map(|worker| worker.move_s).fold(0.0, f64::max)
}

/// Returns the run time of a waiting job in seconds, if it is known.
pub(super) fn known_run_time(job: &ClusterJob, observation: &ClusterObservation) -> Option<f64> {
    let time = run_time(job, Guess { work: observation.usual_work, seconds: 0.0 });
    time.is_known.then_some(time.seconds)
}

/// Returns the distinct prices of the ready nodes in ascending order. At most `TIERS_MOST` are kept, and the last is infinite, so it admits
/// all nodes.
pub(super) fn price_tiers(observation: &ClusterObservation) -> Vec<f64> {
    const TIERS_MOST: usize = 8;
    let ready = (0..observation.nodes.len()).filter(|node| observation.nodes[*node].state == NodeState::Ready);
    let mut prices: Vec<f64> = ready.map(|node| price(observation, node)).collect();
    prices.sort_by(f64::total_cmp);
    prices.dedup();
    prices.truncate(TIERS_MOST);
    prices.last_mut().into_iter().for_each(|dearest| *dearest = f64::INFINITY);
    prices
}

fn latest_start(job: &ClusterJob, guess: Guess, overtaken_for: Millis) -> Millis {
    match job.deadline {
        Some(deadline) => Millis(deadline.0.saturating_sub(millis(run_time(job, guess).seconds).0)).max(job.arrived),
        None => job.arrived.after(overtaken_for),
    }
}

/// Returns the run time of a job that starts now: as configured, else its own or the usual work divided by the cores that it reserves.
fn run_time(job: &ClusterJob, guess: Guess) -> RunTime {
    let work = job.work.or(guess.work).filter(|_| job.request.cores > 0.0);
    let on_cores = |work: f64| work / (job.request.cores * f64::from(job.workers.initial.max(1)));
    known(job.takes_s.or(work.map(on_cores)), guess)
}

/// Returns the time until the last worker of a running job ends, as forecast by the nodes.
fn time_left(job: &ClusterJob, guess: Guess) -> RunTime {
    let whole = run_time(job, guess);
    let of = |worker: &Worker| {
        let by_work = worker.work_left.zip(worker.cores).filter(|(_, cores)| *cores >= CORES_LEAST);
        let by_report = worker.report.map(|report| report.unit_s * report.units_left);
        let by_node = known(by_work.map(|(work, cores)| work.likely / cores).or(by_report), guess);
        match worker.phase {
            Phase::Starting => whole,
            Phase::Stopping => RunTime { seconds: worker.move_s, is_known: false },
            _ if by_node.is_known => by_node,
            _ => RunTime { is_known: false, ..whole },
        }
    };
    let each = job.placed.iter().map(of);
    each.reduce(|one, other| RunTime {
        seconds: one.seconds.max(other.seconds),
        is_known: one.is_known && other.is_known,
    })
    .unwrap_or(whole)
}

fn known(seconds: Option<f64>, guess: Guess) -> RunTime {
    match seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
        Some(seconds) => RunTime { seconds, is_known: true },
        None => RunTime { seconds: guess.seconds, is_known: false },
    }
}

/// Simulates starting each waiting job, in order, as soon as there is room.
fn simulate(now: Millis, free: &FreeCapacity<'_>, leaving: &[(f64, Leaving<'_>)], queued: &[Queued<'_>]) -> Outcome {
    let mut free = free.clone();
    let mut started: Vec<Leaving<'_>> = Vec::new();
    let mut ends: BinaryHeap<Reverse<(Score, usize)>> =
        leaving.iter().enumerate().map(|(at, (end, _))| Reverse((Score(*end), at))).collect();
    let mut outcome = Outcome { lateness: 0.0, ends: vec![None; queued.len()] };
    let mut waiting: Vec<usize> = (0..queued.len()).collect();
    let (mut clock, mut is_known) = (0.0, true);
    let late = |entry: &Queued<'_>, end: f64| match entry.job.deadline {
        Some(deadline) => weight(entry.job.priority) * (now.as_secs_f64() + end - deadline.as_secs_f64()).max(0.0),
        None => 0.0,
    };
    for _ in 0..ENDS_MOST {
        waiting.retain(|number| {
            let entry = &queued[*number];
            let Some(nodes) = free.seat(entry.job, entry.nodes.iter().copied(), When::Now) else { return true };
            let (end, is_known) = (clock + entry.run_time.seconds, is_known && entry.run_time.is_known);
            outcome.ends[*number] = is_known.then_some(end);
            outcome.lateness += late(entry, end);
            ends.push(Reverse((Score(end), leaving.len() + started.len())));
            started.push(Leaving { job: entry.job, nodes, is_known });
            false
        });
        let Some(Reverse((Score(end), at))) = ends.pop().filter(|_| !waiting.is_empty()) else { break };
        clock = f64::max(clock, end);
        let Leaving { job, nodes, is_known: was_known } =
            leaving.get(at).map_or_else(|| &started[at - leaving.len()], |(_, known)| known);
        is_known &= was_known;
        nodes.iter().for_each(|node| free.give_back(*node, job.request));
    }
    for number in waiting {
        outcome.lateness += late(&queued[number], clock + queued[number].run_time.seconds);
    }
    outcome
}

fn millis(seconds: f64) -> Millis {
    Millis((seconds * 1000.0) as u64)
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
