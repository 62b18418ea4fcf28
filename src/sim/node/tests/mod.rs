//! Tests of the node against results computed by hand and against single-server theory.

use super::{Keep, simulate};
use crate::curve::{LearningCurve, Shape};
use crate::job::{Job, JobPlan, Reports, Waits};
use crate::outcome::{JobOutcome, Outcome};
use crate::random::Stream;
use crate::scenario::{NodeShape, Scenario};
use crate::variant::Variant;
use model::{Bytes, ContainerId, Limits, Millis, PolicySettings, RecordedTick, Share};
use proptest::prelude::*;

fn job(start_s: f64, work: f64, parallelism: f64) -> JobPlan {
    let curve = LearningCurve { from: 1.0, to: 0.0, noise: 0.0, shape: Shape::Exponential { rate: 5.0 } };
    let name = format!("job at {start_s}");
    let plan = JobPlan::on_all_cores(&name, parallelism, (start_s, work / parallelism), 10, curve);
    JobPlan { work, deadline_s: None, memory: Bytes(1 << 20), unit_spread: 0.0, ..plan }
}

fn drawn(plans: Vec<JobPlan>) -> Vec<Job> {
    plans.into_iter().map(|plan| Job::draw(plan, &mut Stream::new(0, 0))).collect()
}

fn shape(cores: f64) -> NodeShape {
    NodeShape { cores, ..NodeShape::default() }
}

fn ends(cores: f64, policy: &str, plans: Vec<JobPlan>) -> Vec<f64> {
    let variant = Variant::named(policy, &PolicySettings::default()).unwrap();
    let outcome = simulate(&shape(cores), &drawn(plans), &variant, Keep::default());
    outcome.jobs.iter().map(|job| (job.end_s * 1e6).round() / 1e6).collect()
}

#[test]
fn two_jobs_share_the_node_while_both_run() {
    // Alone until 2 s (8 of 20 done), then half each: the second needs 8 at rate 2 and ends at 6 s; the first has 4 left and ends at 7 s.
    assert_eq!(ends(4.0, "fair", vec![job(0.0, 20.0, 4.0), job(2.0, 8.0, 4.0)]), [7.0, 6.0]);
}

#[test]
fn cores_that_a_single_threaded_job_cannot_use_flow_to_the_other() {
    assert_eq!(ends(4.0, "fair", vec![job(0.0, 10.0, 1.0), job(0.0, 30.0, 4.0)]), [10.0, 10.0]);
}

#[test]
fn the_reference_rules_run_the_jobs_in_their_order() {
    let three = || vec![job(0.0, 6.0, 1.0), job(1.0, 3.0, 1.0), job(2.0, 1.0, 1.0)];
    assert_eq!(ends(1.0, "fifo", three()), [6.0, 9.0, 10.0]);
    // At 1 s, 5 against 3: the second runs. At 2 s, 5, 2 and 1 are left: the third runs to 3 s, the second to 5 s, the first to 10 s.
    assert_eq!(ends(1.0, "srpt", three()), [10.0, 5.0, 3.0]);
    // The first attains 1 s; the second reaches that at 2 s; the third catches up at 3 s and is done; then the other two share.
    assert_eq!(ends(1.0, "las", three()), [10.0, 7.0, 3.0]);
}

#[test]
fn the_earliest_deadline_runs_first() {
    let with_deadline = |deadline_s| JobPlan { deadline_s, ..job(0.0, 2.0, 1.0) };
    let jobs = vec![with_deadline(None), with_deadline(Some(9.0)), with_deadline(Some(5.0))];
    assert_eq!(ends(1.0, "edf", jobs), [6.0, 4.0, 2.0]);
}

#[test]
fn a_waiting_job_leaves_its_cores_to_the_others() {
    let loading = JobPlan { startup_s: 3.0, ..job(0.0, 4.0, 2.0) };
    let reading = JobPlan { waits: Some(Waits { every: 4.0, seconds: 1.0 }), ..job(0.0, 8.0, 2.0) };
    // Alone on 2 cores, `reading` has done 4 at 2 s and waits to 3 s; then both have one core each: the remaining 4 and 4 end at 7 s.
    assert_eq!(ends(2.0, "fair", vec![loading, reading]), [7.0, 7.0]);
}

#[test]
fn contention_slows_equal_jobs_by_its_factor() {
    let variant = Variant::named("fair", &PolicySettings::default()).unwrap();
    let shape = NodeShape { contention: 0.1, ..shape(1.0) };
    let outcome = simulate(&shape, &drawn(vec![job(0.0, 5.0, 1.0), job(0.0, 5.0, 1.0)]), &variant, Keep::default());
    assert!((outcome.makespan_s() - 11.0).abs() < 1e-9);
    assert!((outcome.jobs[0].cpu_s - 5.5).abs() < 1e-9, "CPU used, not work done");
}

#[test]
fn quality_is_reached_on_the_true_curve_and_not_on_a_print() {
    let variant = Variant::named("fair", &PolicySettings::default()).unwrap();
    let outcome = simulate(&shape(1.0), &drawn(vec![job(3.0, 100.0, 1.0)]), &variant, Keep::default());
    // 1 − e^(−5x) = 0.95·(1 − e^(−5)) at x = 0.5766…
    let x = -(1.0 - 0.95 * (1.0 - (-5.0f64).exp())).ln() / 5.0;
    assert!((outcome.jobs[0].quality_s - 100.0 * x).abs() < 1e-6);
}

#[test]
fn the_start_and_the_end_of_a_job_trigger_a_tick() {
    let variant = Variant::named("flowcon", &PolicySettings::default()).unwrap();
    let keep = Keep { recording: true, ..Keep::default() };
    let jobs = drawn(vec![job(0.0, 30.0, 1.0), job(1.5, 5.0, 1.0)]);
    let outcome = simulate(&shape(1.0), &jobs, &variant, keep);
    let end = outcome.jobs[1].end_s;
    let ticks: Vec<u64> = outcome.recording.iter().map(|tick| tick.observation.now.0).collect();
    assert!(ticks.contains(&0) && ticks.contains(&1500), "starts at 0 s and 1.5 s: {ticks:?}");
    assert!(ticks.contains(&((end * 1000.0 - 1e-6).ceil() as u64)), "end at {end} s: {ticks:?}");
    assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "no tick twice: {ticks:?}");
}

#[test]
fn control_periods_are_plain_sharing_and_do_not_mislead_the_policy() {
    let ticks = |holdback: f64| {
        let block = Millis::from_secs(30);
        let settings =
            PolicySettings { holdback: Share::clamped(holdback), holdback_block: block, ..PolicySettings::default() };
        let variant = Variant::named("balanced", &settings).unwrap();
        let keep = Keep { recording: true, ..Keep::default() };
        // Each can use the whole node; one is far nearer to its end than the others.
        let often = |work: f64| JobPlan { units: (work / 2.0) as usize, ..job(0.0, work, 1.0) };
        let jobs = drawn(vec![often(600.0), often(6000.0), often(6000.0)]);
        simulate(&shape(1.0), &jobs, &variant, keep).recording
    };
    let held_back = ticks(0.4);
    let plain = held_back.iter().filter(|tick| tick.observation.is_plain());
    for tick in plain.clone() {
        assert!(tick.plan.containers.iter().all(|job| job.limits == Some(Limits::default())));
    }
    assert!(plain.count() > 20);
    let most = |ticks: &[RecordedTick]| {
        let settled =
            ticks.iter().filter(|tick| tick.observation.now >= Millis::from_secs(200) && !tick.observation.is_plain());
        let all: Vec<f64> = settled
            .filter(|tick| tick.plan.containers.len() == 3)
            .map(|tick| tick.plan.containers[0].share.fraction())
            .collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let (with, without) = (most(&held_back), most(&ticks(0.0)));
    assert!((with - without).abs() < 0.02 && with > 0.8, "the favoured job's share: {with} and {without}");
}

#[test]
fn the_governor_knows_only_what_the_log_printed() {
    let variant = Variant::named("flowcon", &PolicySettings::default()).unwrap();
    let keep = Keep { recording: true, ..Keep::default() };
    let mut silent = job(0.0, 50.0, 1.0);
    silent.reports = Reports { metric: false, progress: false, ..Reports::default() };
    let outcome = simulate(&shape(2.0), &drawn(vec![silent, job(0.0, 50.0, 1.0)]), &variant, keep);
    for tick in &outcome.recording {
        let observation = &tick.observation;
        let of = |id: &str| observation.containers.iter().find(|container| container.id == ContainerId::new(id));
        assert!(of("000000000000").is_none_or(|silent| silent.learning.evaluations == 0));
        if let Some(talking) = of("000000000001") {
            let printed = (observation.now.as_secs_f64() / 5.0) as u64;
            assert!(
                talking.learning.evaluations <= printed,
                "{} at {:?}",
                talking.learning.evaluations,
                observation.now
            );
        }
    }
}

/// Completion times of jobs that all start at 0 on one server under processor sharing, by the textbook formula.
fn processor_sharing_by_hand(works: &[f64]) -> Vec<f64> {
    works.iter().map(|work| works.iter().map(|other| other.min(*work)).sum()).collect()
}

fn workloads() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((0.0f64..200.0, 1.0f64..220.0), 1..12)
}

fn plans(workload: &[(f64, f64)]) -> Vec<JobPlan> {
    let mut plans: Vec<JobPlan> = workload.iter().map(|&(start, work)| job(start, work, 1.0)).collect();
    plans.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    plans
}

const EVERY_POLICY: [&str; 11] = [
    "fair",
    "fifo",
    "las",
    "srpt",
    "edf",
    "oracle-balanced",
    "oracle-quality",
    "flowcon",
    "balanced",
    "completion",
    "quality",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn processor_sharing_agrees_with_its_closed_form(works in prop::collection::vec(1.0f64..220.0, 1..12)) {
        let ends = ends(1.0, "fair", works.iter().map(|&work| job(0.0, work, 1.0)).collect());
        for (end, by_hand) in ends.iter().zip(processor_sharing_by_hand(&works)) {
            prop_assert!((end - by_hand).abs() < 1e-5, "{end} against {by_hand}");
        }
    }

    #[test]
    fn srpt_of_jobs_that_start_together_is_shortest_job_first(works in prop::collection::vec(1.0f64..220.0, 1..12)) {
        let mut ends = ends(1.0, "srpt", works.iter().map(|&work| job(0.0, work, 1.0)).collect());
        let mut sorted = works.clone();
        sorted.sort_by(f64::total_cmp);
        ends.sort_by(f64::total_cmp);
        let mut sum = 0.0;
        for (end, work) in ends.iter().zip(sorted) {
            sum += work;
            prop_assert!((end - sum).abs() < 1e-5);
        }
    }

    #[test]
    fn least_attained_service_is_no_better_than_plain_sharing_for_equal_jobs(
        starts in prop::collection::vec(0.0f64..200.0, 2..12),
    ) {
        let jobs = drawn(plans(&starts.iter().map(|&start| (start, 100.0)).collect::<Vec<_>>()));
        let mean = |policy: &str| {
            let variant = Variant::named(policy, &PolicySettings::default()).unwrap();
            let outcome = simulate(&shape(1.0), &jobs, &variant, Keep::default());
            outcome.jobs.iter().map(JobOutcome::completion_s).sum::<f64>()
        };
        prop_assert!(mean("las") >= mean("fair") - 1e-4);
        prop_assert!(mean("fifo") <= mean("fair") + 1e-4);
    }

    #[test]
    fn no_policy_beats_srpt_or_changes_the_makespan_of_one_server(workload in workloads()) {
        let jobs = drawn(plans(&workload));
        let run = |policy: &str| {
            let variant = Variant::named(policy, &PolicySettings::default()).unwrap();
            simulate(&shape(1.0), &jobs, &variant, Keep::default())
        };
        let mean = |outcome: &Outcome| outcome.jobs.iter().map(JobOutcome::completion_s).sum::<f64>() / jobs.len() as f64;
        let best = run("srpt");
        for policy in EVERY_POLICY {
            let outcome = run(policy);
            prop_assert!(mean(&outcome) >= mean(&best) - 1e-6, "{policy}: {} < {}", mean(&outcome), mean(&best));
            prop_assert!((outcome.makespan_s() - best.makespan_s()).abs() < 1e-6, "{policy} idles");
            for (done, job) in outcome.jobs.iter().zip(&jobs) {
                prop_assert!((done.cpu_s - job.plan.work).abs() < 1e-6, "{policy}: no work is lost or added");
                prop_assert!(done.quality_s <= done.completion_s() + 1e-9);
            }
        }
    }
}

#[test]
fn known_deadlines_are_missed_less_often_at_little_cost() {
    let late = |scenario: &str| {
        let scenario = Scenario::built_in(scenario).unwrap().unwrap();
        let variant = Variant::named("balanced", &PolicySettings::default()).unwrap();
        let (mut late, mut completion) = (0, 0.0);
        for seed in 0..20 {
            let jobs = scenario.draw(seed);
            let outcome = simulate(&scenario.node, &jobs, &variant, Keep::default());
            // Every other job of the variation has a deadline that the governor knows.
            let known = jobs.iter().zip(&outcome.jobs).filter(|(job, _)| deadline_known_in_variation(job));
            late += known.filter(|(job, end)| end.completion_s() > job.plan.deadline_s.unwrap()).count();
            completion += outcome.jobs.iter().map(JobOutcome::completion_s).sum::<f64>();
        }
        (late, completion)
    };
    let ((before, plain), (after, hinted)) = (late("random-10"), late("random-10-deadlines"));
    assert!(after * 10 < before * 9, "{after} late jobs with known deadlines, {before} without");
    assert!(hinted < 1.1 * plain, "{hinted} against {plain}");
}

#[test]
fn trainings_with_prior_runs_reach_quality_sooner_and_complete_no_later() {
    let means = |scenario: &str| {
        let scenario = Scenario::built_in(scenario).unwrap().unwrap();
        let variant = Variant::named("balanced", &PolicySettings::default()).unwrap();
        let runs = (0..20).map(|seed| simulate(&scenario.node, &scenario.draw(seed), &variant, Keep::default()));
        let jobs: Vec<JobOutcome> = runs.flat_map(|run| run.jobs).collect();
        let mean = |of: fn(&JobOutcome) -> f64| jobs.iter().map(of).sum::<f64>() / jobs.len() as f64;
        (mean(|job| job.quality_s), mean(JobOutcome::completion_s))
    };
    let ((quality, completion), (seen_quality, seen_completion)) =
        (means("random-10-mixed"), means("random-10-mixed-seen"));
    assert!(seen_quality < 0.95 * quality, "{seen_quality} against {quality}");
    assert!(seen_completion < completion, "{seen_completion} against {completion}");
}

/// The numbers in the names count from 1, in the order before sorting by start.
fn deadline_known_in_variation(job: &Job) -> bool {
    let number = job.plan.name.split('-').next().unwrap().parse::<usize>().unwrap();
    number % 2 == 0
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_last_bit() {
    let scenario = Scenario::built_in("random-10-mixed-io").unwrap().unwrap();
    for policy in EVERY_POLICY {
        let variant = Variant::named(policy, &PolicySettings::default()).unwrap();
        let run = || {
            let keep = Keep { history: true, recording: true };
            format!("{:?}", simulate(&scenario.node, &scenario.draw(11), &variant, keep))
        };
        assert_eq!(run(), run(), "{policy}");
    }
}

mod gpu;
mod users;
mod waste;
mod weights;
