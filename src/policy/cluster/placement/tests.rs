//! Tests of the node that each rule chooses.

use super::*;
use crate::cluster::testing::{cluster, exactly, worker};

fn chosen(observation: &ClusterObservation, rule: PlacementRule, work: Option<f64>) -> Option<usize> {
    Placer::new(observation, rule, 0.95).choose(work, |_| true).map(|(node, _)| node)
}

#[test]
fn spread_counts_workers_and_nothing_else() {
    let mut observation = cluster(3, 8.0);
    observation.jobs = [0, 0, 1, 2].map(|node| worker(node, |_| {})).into();
    assert_eq!(chosen(&observation, PlacementRule::Spread, None), Some(1));
}

#[test]
fn a_long_job_is_placed_with_short_ones_and_a_short_job_with_long_ones() {
    // 4 jobs of 100 CPU-seconds on the first node, one of 1000 on the second.
    let mut observation = cluster(2, 1.0);
    observation.jobs = (0..4).map(|_| worker(0, |worker| worker.work_left = exactly(100.0))).collect();
    observation.jobs.push(worker(1, |worker| worker.work_left = exactly(1000.0)));
    let to = |work: f64| chosen(&observation, PlacementRule::LeastAdded, Some(work));
    assert_eq!(to(2000.0), Some(0), "2000 + 400 is less than 2000 + 1000");
    assert_eq!(to(50.0), Some(1), "50 + 50 is less than 50 + 200");
}

#[test]
fn a_job_of_unknown_work_is_placed_by_its_expected_work() {
    let mut observation = cluster(2, 1.0);
    observation.usual_work = Some(500.0);
    observation.jobs = vec![
        worker(0, |worker| worker.work_left = exactly(1000.0)),
        worker(1, |worker| worker.work_left = exactly(400.0)),
        worker(1, |worker| worker.work_left = exactly(400.0)),
    ];
    // 500 · (1 − e^−2) = 432 against twice 500 · (1 − e^−0.8) = 275.
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, None), Some(0));
    observation.jobs[1].placed[0].work_left = exactly(20.0);
    observation.jobs[2].placed[0].work_left = exactly(20.0);
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, None), Some(1), "its jobs end soon");
}

#[test]
fn until_its_node_has_a_forecast_a_job_counts_with_its_known_work() {
    let mut observation = cluster(2, 1.0);
    observation.usual_work = Some(500.0);
    observation.jobs = vec![worker(0, |_| {}), worker(1, |_| {})];
    observation.jobs[1].work = Some(20.0);
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, None), Some(1), "that job ends soon");
    observation.jobs[1].placed[0].work_left = exactly(9000.0);
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, None), Some(0), "the forecast takes precedence");
}

#[test]
fn a_job_is_placed_on_a_node_with_spare_cpu_where_it_delays_no_other() {
    let mut observation = cluster(2, 8.0);
    observation.jobs = vec![worker(0, |worker| (worker.work_left, worker.cores) = (exactly(9000.0), Some(1.0)))];
    observation.jobs.push(worker(1, |worker| worker.work_left = exactly(10.0)));
    (observation.nodes[0].used_cores, observation.nodes[1].used_cores) = (Some(1.0), Some(8.0));
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, Some(100.0)), Some(0));
    observation.jobs[0].placed[0].cores = None;
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, Some(100.0)), Some(1), "it has just started");
}

#[test]
fn a_full_node_whose_jobs_pause_briefly_has_no_spare_cpu() {
    let mut observation = cluster(2, 8.0);
    let with = |left: f64, cores: f64| {
        move |worker: &mut Worker| (worker.work_left, worker.cores) = (exactly(left), Some(cores))
    };
    observation.jobs = vec![worker(0, with(9000.0, 5.0)), worker(0, with(9000.0, 2.0)), worker(1, with(10.0, 8.0))];
    (observation.nodes[0].used_cores, observation.nodes[1].used_cores) = (Some(7.0), Some(8.0));
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, Some(100.0)), Some(1), "one core is less than jobs use");
    observation.jobs = vec![worker(0, with(9000.0, 2.0)), worker(1, with(10.0, 8.0))];
    (observation.nodes[0].used_cores, observation.nodes[1].used_cores) = (Some(2.0), Some(8.0));
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, Some(100.0)), Some(0), "six cores are free");
}

#[test]
fn an_idle_node_is_preferred_to_one_of_twice_its_size_with_a_job_like_it() {
    let mut observation = cluster(2, 1.0);
    observation.nodes[0].capacity.cores = 2.0;
    observation.jobs = vec![worker(0, |worker| worker.work_left = exactly(100.0))];
    assert_eq!(
        chosen(&observation, PlacementRule::LeastAdded, Some(100.0)),
        Some(1),
        "100 against (100 + 1.5 · 100) / 2"
    );
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, Some(1000.0)), Some(0), "1000 against (1000 + 150) / 2");
}

#[test]
fn a_faster_node_is_preferred() {
    let mut observation = cluster(2, 8.0);
    observation.nodes[1].capacity.cores = 16.0;
    assert_eq!(chosen(&observation, PlacementRule::LeastAdded, Some(100.0)), Some(1));
}
