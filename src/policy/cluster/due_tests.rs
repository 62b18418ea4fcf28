//! Tests of the order of jobs with deadlines, of the forecasts of their ends, and of preemption.

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
    let Forecast { order, ends } = forecast(observation, &FreeCapacity::of(observation), &ClusterSettings::default());
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
fn a_job_that_would_be_late_preempts_one_that_can_wait_where_the_operator_allows_it() {
    let mut observation = cluster(1, 4.0);
    let mut patient = busy(0, 1000.0);
    (patient.takes_s, patient.deadline) = (Some(1000.0), Some(Millis::from_secs(5000)));
    observation.jobs = vec![patient, due("urgent", 90, 100.0, Some(210), 1.0)];
    let stops = |observation: &ClusterObservation, reclaim: bool| {
        let settings = ClusterSettings { queue: QueueRule::Deadlines, reclaim, ..ClusterSettings::default() };
        let plan = plan(observation, &settings);
        assert_eq!(check(observation, &settings, &plan), []);
        plan.stops.len()
    };
    assert_eq!([false, true].map(|reclaim| stops(&observation, reclaim)), [0, 1]);
    observation.jobs[1].deadline = Some(Millis::from_secs(300));
    assert_eq!(stops(&observation, true), 0, "it need not start before 200 s");
    observation.jobs[1].deadline = Some(Millis::from_secs(210));
    (observation.jobs[0].deadline, observation.jobs[0].priority.level) = (Some(Millis::from_secs(1210)), 100.0);
    assert_eq!(stops(&observation, true), 0, "the running job would be late, which costs more");
    observation.jobs[0].deadline = Some(Millis::from_secs(5000));
    observation.jobs[0].movable = false;
    assert_eq!(stops(&observation, true), 0, "it does not save its state");
    observation.jobs[0] = busy(0, 5.0);
    assert_eq!(stops(&observation, true), 0, "its room is free in time");
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
