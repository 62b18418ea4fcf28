//! Jobs with deadlines on existing nodes: the order of waiting jobs, and forecasts of all ends.
//!
//! Source: the thesis of [`super::deadlines`]: jobs in order of pressure Δ = now + t − d (eq. 3.1), then a local search. The thesis rents nodes
//! of any type and gives a job any number of GPUs. Here nodes and requests are fixed, so only the order is searched. Pressure grows equally
//! for all jobs, so its order is that of the *latest start* d − t, no earlier than the arrival. The latest start of a job without a deadline
//! is `overtaken_for` after its arrival. A job that arrives after the latest start of another has a later one itself, so no job starves. Jobs
//! whose latest start was `overtaken_for` ago come first and are excluded from the search. Running jobs are never touched.
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
mod tests {
    use super::*;
    use crate::cluster::testing::{cluster, waiting, worker};
    use crate::cluster::{check, plan};
    use model::cluster::{MoveRule, QueueRule};

    const OVERTAKEN_FOR: Millis = Millis::from_secs(600);

    /// A waiting job that fills a node of four cores; times in seconds.
    fn due(name: &str, arrived: u64, takes_s: f64, deadline: Option<u64>, level: f64) -> ClusterJob {
        waiting(name, |job| {
            (job.request.cores, job.priority.level, job.takes_s) = (4.0, level, Some(takes_s));
            (job.arrived, job.deadline) = (Millis::from_secs(arrived), deadline.map(Millis::from_secs));
        })
    }

    /// A running job that fills a node and ends in `ends_in` seconds.
    fn busy(node: usize, ends_in: f64) -> ClusterJob {
        let report = model::cluster::Report { unit_s: ends_in, units_left: 1.0 };
        let mut job = worker(node, |worker| worker.report = Some(report));
        job.request.cores = 4.0;
        job
    }

    fn order_and_ends(observation: &ClusterObservation) -> (Vec<&str>, Vec<(usize, Millis)>) {
        let Forecast { order, ends } =
            forecast(observation, &FreeCapacity::of(observation), &ClusterSettings::default());
        (order.into_iter().map(|at| &*observation.jobs[at].name).collect(), ends)
    }

    #[test]
    fn jobs_start_in_order_of_their_latest_start_and_all_ends_are_forecast() {
        let mut observation = cluster(1, 4.0);
        observation.jobs = vec![
            busy(0, 50.0),
            due("whenever", 20, 100.0, None, 1.0),
            due("later", 30, 100.0, Some(1000), 1.0),
            due("long", 40, 600.0, Some(1100), 1.0),
        ];
        let (order, ends) = order_and_ends(&observation);
        assert_eq!(order, ["long", "whenever", "later"], "latest starts at 500, 620 and 900 s");
        let at = |job, seconds| (job, Millis::from_secs(seconds));
        assert_eq!(ends, [at(0, 150), at(3, 750), at(1, 850), at(2, 950)]);
        observation.jobs[0].placed[0].report = None;
        assert_eq!(order_and_ends(&observation).1, [], "an unknown end makes all later ends unknown");
    }

    #[test]
    fn the_search_reduces_lateness_but_does_not_postpone_a_job_that_is_long_overdue() {
        let mut observation = cluster(1, 4.0);
        observation.jobs =
            vec![busy(0, 100.0), due("light", 0, 1000.0, Some(900), 1.0), due("heavy", 0, 100.0, Some(500), 100.0)];
        let (order, ends) = order_and_ends(&observation);
        assert_eq!(order, ["heavy", "light"], "400 s of lateness of the light one against 800 of the heavy one");
        assert_eq!(ends[1..], [(2, Millis::from_secs(300)), (1, Millis::from_secs(1300))]);
        assert_eq!(order_and_ends(&observation), order_and_ends(&observation), "deterministic");
        observation.now = OVERTAKEN_FOR;
        assert_eq!(order_and_ends(&observation).0, ["light", "heavy"]);
    }

    #[test]
    fn jobs_with_deadlines_start_on_the_cheapest_nodes() {
        let mut observation = cluster(3, 4.0);
        for (node, price) in observation.nodes.iter_mut().zip(["3.5", "0.9", "2"]) {
            node.labels.insert(crate::cluster::price::PRICE.into(), price.into());
        }
        let settings = ClusterSettings { queue: QueueRule::Deadlines, ..ClusterSettings::default() };
        observation.jobs = vec![due("a", 0, 60.0, Some(900), 1.0), due("b", 1, 60.0, None, 1.0)];
        let seats = |plan: model::cluster::ClusterPlan| -> Vec<(usize, usize)> {
            plan.starts.iter().map(|start| (start.job, start.node)).collect()
        };
        assert_eq!(seats(plan(&observation, &settings)), [(1, 1), (0, 2)]);
        let usual = seats(plan(&observation, &ClusterSettings::default()));
        assert_ne!(usual, [(1, 1), (0, 2)], "other rules do not look at prices");
    }

    /// Returns when a job without a deadline starts on one node, while twice as many heavy jobs with deadlines arrive as the node can run.
    fn start_of_the_patient(overtaken_for: Millis) -> Option<u64> {
        let settings = ClusterSettings {
            queue: QueueRule::Deadlines,
            moves: MoveRule::Never,
            overtaken_for,
            ..ClusterSettings::default()
        };
        let mut observation = cluster(1, 4.0);
        observation.jobs = vec![due("patient", 0, 120.0, None, 1.0)];
        for step in 0..60 {
            let now = step * 60;
            observation.now = Millis::from_secs(now);
            observation.jobs.retain(|job| job.placed.is_empty() || job.deadline.is_some_and(|_| step % 2 == 1));
            observation.jobs.push(due(&format!("heavy-{step}"), now, 120.0, Some(now + 200), 100.0));
            let plan = plan(&observation, &settings);
            assert_eq!(check(&observation, &settings, &plan), []);
            assert!(plan.stops.is_empty() && plan.moves.is_empty());
            for start in &plan.starts {
                if &*observation.jobs[start.job].name == "patient" {
                    return Some(now);
                }
                observation.jobs[start.job].placed = worker(start.node, |_| {}).placed;
            }
        }
        None
    }

    #[test]
    fn no_job_starves() {
        let started = start_of_the_patient(OVERTAKEN_FOR).unwrap();
        assert!((600..=1320).contains(&started), "{started}");
        assert_eq!(start_of_the_patient(Millis::from_secs(86_400)), None, "there is always a heavier one");
    }
}
