//! Jobs with deadlines on the nodes that there are: who of those that wait goes first, and when each is expected to end.
//!
//! Source: the thesis of [`super::deadlines`]: jobs in order of pressure Δ = now + t − d (eq. 3.1), then a local search. That method rents nodes
//! of any type and gives a job any number of GPUs; here nodes are what they are and jobs ask for what they ask for, so what is searched is the
//! order. Pressure grows alike for all, so its order is that of the *latest start* d − t, no earlier than the arrival. A job without
//! a deadline should start `overtaken_for` after its arrival. Who arrives after somebody's latest start has a later one: nobody starves. Jobs
//! whose latest start was `overtaken_for` ago stand first, and the search does not touch them. Nothing that runs is touched at all.
//!
//! Where nobody knows how long a job takes, [`GUESS_S`] orders it, and no end is told of it, nor of who starts after it. Imports: model.

use super::deadlines::Draw;
use super::queue::weight;
use super::ranked::Score;
use super::renting::price;
use super::rooms::{Rooms, When};
use crate::model::Millis;
use crate::model::cluster::{ClusterJob, ClusterObservation, NodeState, Phase, Worker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How long a job takes of which nothing is known.
const GUESS_S: f64 = 3600.0;
/// The same with cores that are not used: nothing would ever end.
const CORES_LEAST: f64 = 0.01;
/// Jobs that the search moves, and orders that it tries.
const SEARCHED: usize = 32;
const TRIES: u64 = 64;
const SEED: u64 = 0x0D0E;
/// Ends of jobs that are foreseen, one after another.
const ENDS_MOST: usize = 512;

/// What is foreseen of the jobs.
pub(super) struct Foreseen {
    /// Those that wait, the first to start first.
    pub order: Vec<usize>,
    /// When jobs end, where that is known.
    pub ends: Vec<(usize, Millis)>,
}

/// How long a job takes from now on, and whether that is known.
#[derive(Clone, Copy)]
struct Takes {
    seconds: f64,
    is_known: bool,
}

/// Room that becomes free.
struct Leaving<'a> {
    job: &'a ClusterJob,
    nodes: Vec<usize>,
    is_known: bool,
}

/// A waiting job.
struct Ahead<'a> {
    at: usize,
    job: &'a ClusterJob,
    takes: Takes,
    /// Nodes that may take it, the cheapest first.
    nodes: Vec<usize>,
}

/// What an order comes to.
struct Outcome {
    /// Σ weight × seconds after the deadline.
    lateness: f64,
    /// Seconds from now, where known, of each waiting job.
    ends: Vec<Option<f64>>,
}

/// Orders the jobs that wait, and foresees all ends.
pub(super) fn foresee(observation: &ClusterObservation, rooms: &Rooms<'_>, overtaken_for: Millis) -> Foreseen {
    let now = observation.now;
    let all = || observation.jobs.iter().enumerate();
    let mut by_price: Vec<usize> = (0..observation.nodes.len()).collect();
    by_price.sort_by(|a, b| price(observation, *a).total_cmp(&price(observation, *b)));
    let latest = |at: &usize| latest_start(&observation.jobs[*at], observation.usual_work, overtaken_for);
    let mut order: Vec<usize> = all().filter(|(_, job)| job.placed.is_empty()).map(|(at, _)| at).collect();
    order.sort_by_cached_key(|at| (latest(at), observation.jobs[*at].arrived, observation.jobs[*at].name.clone()));
    let mut ends: Vec<(usize, f64)> = Vec::new();
    let mut leaving: Vec<(f64, Leaving<'_>)> = Vec::new();
    for (at, job) in all().filter(|(_, job)| !job.placed.is_empty()) {
        let Takes { seconds, is_known } = left(job, observation.usual_work);
        ends.extend(is_known.then_some((at, seconds)));
        let nodes = job.placed.iter().flat_map(|worker| match worker.phase {
            Phase::MovingTo(to) => vec![worker.node, to],
            _ => vec![worker.node],
        });
        leaving.push((seconds, Leaving { job, nodes: nodes.collect(), is_known }));
    }
    let aged = order.iter().take_while(|at| now >= latest(at).after(overtaken_for)).count();
    let searched = (aged + SEARCHED).min(order.len());
    let ahead = |at: &usize| {
        let job = &observation.jobs[*at];
        let nodes = by_price.iter().copied().filter(|node| rooms.admits(*node, job)).collect();
        Ahead { at: *at, job, takes: takes(job, observation.usual_work), nodes }
    };
    let mut aheads: Vec<Ahead<'_>> = order[..searched].iter().map(ahead).collect();
    let mut outcome = simulate(now, rooms, &leaving, &aheads);
    let mut draw = Draw::new(SEED, 0);
    for _ in 0..TRIES {
        let count = aheads.len() - aged.min(aheads.len());
        if outcome.lateness <= 0.0 || count < 2 {
            break;
        }
        let mut drawn = || aged + (draw.uniform() * count as f64) as usize;
        let (from, to) = (drawn(), drawn());
        if from == to {
            continue;
        }
        let moved = aheads.remove(from);
        aheads.insert(to, moved);
        let tried = simulate(now, rooms, &leaving, &aheads);
        if tried.lateness < outcome.lateness {
            outcome = tried;
        } else {
            let moved = aheads.remove(to);
            aheads.insert(from, moved);
        }
    }
    ends.extend(aheads.iter().zip(&outcome.ends).filter_map(|(ahead, end)| Some((ahead.at, (*end)?))));
    for (slot, ahead) in order.iter_mut().zip(&aheads) {
        *slot = ahead.at;
    }
    Foreseen { order, ends: ends.into_iter().map(|(at, seconds)| (at, now.after(millis(seconds)))).collect() }
}

/// Whether a job should have started: it keeps the nodes that could take it.
pub(super) fn is_pressed(job: &ClusterJob, observation: &ClusterObservation, overtaken_for: Millis) -> bool {
    observation.now >= latest_start(job, observation.usual_work, overtaken_for)
}

/// Prices of the nodes that may get jobs, the least first; of many only as many as a choice looks at.
pub(super) fn tiers(observation: &ClusterObservation) -> Vec<f64> {
    const TIERS_MOST: usize = 8;
    let ready = (0..observation.nodes.len()).filter(|node| observation.nodes[*node].state == NodeState::Ready);
    let mut prices: Vec<f64> = ready.map(|node| price(observation, node)).collect();
    prices.sort_by(f64::total_cmp);
    prices.dedup();
    prices.truncate(TIERS_MOST);
    prices.last_mut().into_iter().for_each(|dearest| *dearest = f64::INFINITY);
    prices
}

fn latest_start(job: &ClusterJob, usual: Option<f64>, overtaken_for: Millis) -> Millis {
    match job.deadline {
        Some(deadline) => Millis(deadline.0.saturating_sub(millis(takes(job, usual).seconds).0)).max(job.arrived),
        None => job.arrived.after(overtaken_for),
    }
}

/// How long a job takes that starts now: what its owner says, or else what it or others have needed, on the cores that it reserves.
fn takes(job: &ClusterJob, usual: Option<f64>) -> Takes {
    let work = job.work.or(usual).filter(|_| job.request.cores > 0.0);
    let on_cores = |work: f64| work / (job.request.cores * f64::from(job.workers.initial.max(1)));
    known(job.takes_s.or(work.map(on_cores)))
}

/// How long a job that runs still takes: until the last of its workers is done, as the nodes foresee.
fn left(job: &ClusterJob, usual: Option<f64>) -> Takes {
    let whole = takes(job, usual);
    let of = |worker: &Worker| {
        let by_work = worker.work_left.zip(worker.cores).filter(|(_, cores)| *cores >= CORES_LEAST);
        let by_report = worker.report.map(|report| report.unit_s * report.units_left);
        let foreseen = known(by_work.map(|(work, cores)| work.likely / cores).or(by_report));
        match worker.phase {
            Phase::Starting => whole,
            Phase::Stopping => Takes { seconds: worker.move_s, is_known: false },
            _ if foreseen.is_known => foreseen,
            _ => Takes { is_known: false, ..whole },
        }
    };
    let each = job.placed.iter().map(of);
    each.reduce(|one, other| Takes {
        seconds: one.seconds.max(other.seconds),
        is_known: one.is_known && other.is_known,
    })
    .unwrap_or(whole)
}

fn known(seconds: Option<f64>) -> Takes {
    match seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
        Some(seconds) => Takes { seconds, is_known: true },
        None => Takes { seconds: GUESS_S, is_known: false },
    }
}

/// Everybody who waits starts as soon as there is room, those in front first.
fn simulate(now: Millis, rooms: &Rooms<'_>, leaving: &[(f64, Leaving<'_>)], aheads: &[Ahead<'_>]) -> Outcome {
    let mut rooms = rooms.clone();
    let mut started: Vec<Leaving<'_>> = Vec::new();
    let mut ends: BinaryHeap<Reverse<(Score, usize)>> =
        leaving.iter().enumerate().map(|(at, (end, _))| Reverse((Score(*end), at))).collect();
    let mut outcome = Outcome { lateness: 0.0, ends: vec![None; aheads.len()] };
    let mut waiting: Vec<usize> = (0..aheads.len()).collect();
    let (mut clock, mut is_known) = (0.0, true);
    let late = |ahead: &Ahead<'_>, end: f64| match ahead.job.deadline {
        Some(deadline) => weight(ahead.job.priority) * (now.as_secs_f64() + end - deadline.as_secs_f64()).max(0.0),
        None => 0.0,
    };
    for _ in 0..ENDS_MOST {
        waiting.retain(|number| {
            let ahead = &aheads[*number];
            let Some(nodes) = seat(ahead, &mut rooms) else { return true };
            let (end, is_known) = (clock + ahead.takes.seconds, is_known && ahead.takes.is_known);
            outcome.ends[*number] = is_known.then_some(end);
            outcome.lateness += late(ahead, end);
            ends.push(Reverse((Score(end), leaving.len() + started.len())));
            started.push(Leaving { job: ahead.job, nodes, is_known });
            false
        });
        let Some(Reverse((Score(end), at))) = ends.pop().filter(|_| !waiting.is_empty()) else { break };
        clock = f64::max(clock, end);
        let Leaving { job, nodes, is_known: was_known } =
            leaving.get(at).map_or_else(|| &started[at - leaving.len()], |(_, known)| known);
        is_known &= was_known;
        nodes.iter().for_each(|node| rooms.give_back(*node, job.request));
    }
    for number in waiting {
        outcome.lateness += late(&aheads[number], clock + aheads[number].takes.seconds);
    }
    outcome
}

/// Takes room for the workers that a job starts with, on the cheapest nodes; `None` takes nothing.
fn seat(ahead: &Ahead<'_>, rooms: &mut Rooms<'_>) -> Option<Vec<usize>> {
    let workers = ahead.job.workers.min.max(1) as usize;
    let mut seats = Vec::new();
    for node in &ahead.nodes {
        while seats.len() < workers && rooms.fits(*node, ahead.job.request, 1, When::Now) {
            rooms.take(*node, ahead.job.request);
            seats.push(*node);
        }
    }
    if seats.len() < workers {
        seats.iter().for_each(|node| rooms.give_back(*node, ahead.job.request));
        return None;
    }
    Some(seats)
}

fn millis(seconds: f64) -> Millis {
    Millis((seconds * 1000.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cluster::{ClusterSettings, MoveRule, QueueRule};
    use crate::policy::cluster::testing::{cluster, waiting, worker};
    use crate::policy::cluster::{check, plan};

    const OVERTAKEN_FOR: Millis = Millis::from_secs(600);

    /// It fills a node of four cores; times in seconds.
    fn due(name: &str, arrived: u64, takes_s: f64, deadline: Option<u64>, level: f64) -> ClusterJob {
        waiting(name, |job| {
            (job.request.cores, job.priority.level, job.takes_s) = (4.0, level, Some(takes_s));
            (job.arrived, job.deadline) = (Millis::from_secs(arrived), deadline.map(Millis::from_secs));
        })
    }

    /// A job that fills a node and ends in so many seconds.
    fn busy(node: usize, ends_in: f64) -> ClusterJob {
        let report = crate::model::cluster::Report { unit_s: ends_in, units_left: 1.0 };
        let mut job = worker(node, |worker| worker.report = Some(report));
        job.request.cores = 4.0;
        job
    }

    fn foreseen(observation: &ClusterObservation) -> (Vec<&str>, Vec<(usize, Millis)>) {
        let Foreseen { order, ends } = foresee(observation, &Rooms::of(observation), OVERTAKEN_FOR);
        (order.into_iter().map(|at| &*observation.jobs[at].name).collect(), ends)
    }

    #[test]
    fn who_must_start_first_goes_first_and_all_ends_are_foreseen() {
        let mut observation = cluster(1, 4.0);
        observation.jobs = vec![
            busy(0, 50.0),
            due("whenever", 20, 100.0, None, 1.0),
            due("later", 30, 100.0, Some(1000), 1.0),
            due("long", 40, 600.0, Some(1100), 1.0),
        ];
        let (order, ends) = foreseen(&observation);
        assert_eq!(order, ["long", "whenever", "later"], "latest starts at 500, 620 and 900 s");
        let at = |job, seconds| (job, Millis::from_secs(seconds));
        assert_eq!(ends, [at(0, 150), at(3, 750), at(1, 850), at(2, 950)]);
        observation.jobs[0].placed[0].report = None;
        assert_eq!(foreseen(&observation).1, [], "after the end of who knows what nothing is known");
    }

    #[test]
    fn the_search_makes_jobs_less_late_but_for_one_that_has_been_pressed_for_long() {
        let mut observation = cluster(1, 4.0);
        observation.jobs =
            vec![busy(0, 100.0), due("light", 0, 1000.0, Some(900), 1.0), due("heavy", 0, 100.0, Some(500), 100.0)];
        let (order, ends) = foreseen(&observation);
        assert_eq!(order, ["heavy", "light"], "400 s of lateness of the light one against 800 of the heavy one");
        assert_eq!(ends[1..], [(2, Millis::from_secs(300)), (1, Millis::from_secs(1300))]);
        assert_eq!(foreseen(&observation), foreseen(&observation), "the same each time");
        observation.now = OVERTAKEN_FOR;
        assert_eq!(foreseen(&observation).0, ["light", "heavy"]);
    }

    #[test]
    fn the_cheapest_room_is_taken() {
        let mut observation = cluster(3, 4.0);
        for (node, price) in observation.nodes.iter_mut().zip(["3.5", "0.9", "2"]) {
            node.labels.insert(crate::policy::cluster::renting::PRICE.into(), price.into());
        }
        let settings = ClusterSettings { queue: QueueRule::Deadlines, ..ClusterSettings::default() };
        observation.jobs = vec![due("a", 0, 60.0, Some(900), 1.0), due("b", 1, 60.0, None, 1.0)];
        let seats = |plan: crate::model::cluster::ClusterPlan| -> Vec<(usize, usize)> {
            plan.starts.iter().map(|start| (start.job, start.node)).collect()
        };
        assert_eq!(seats(plan(&observation, &settings)), [(1, 1), (0, 2)]);
        let usual = seats(plan(&observation, &ClusterSettings::default()));
        assert_ne!(usual, [(1, 1), (0, 2)], "other rules do not look at prices");
    }

    /// When a job without a deadline starts on one node, while two heavy ones with a deadline come for each that has room.
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
    fn nobody_starves() {
        let started = start_of_the_patient(OVERTAKEN_FOR).unwrap();
        assert!((600..=1320).contains(&started), "{started}");
        assert_eq!(start_of_the_patient(Millis::from_secs(86_400)), None, "there is always a heavier one");
    }
}
