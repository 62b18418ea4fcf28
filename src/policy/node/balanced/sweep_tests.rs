//! Tests of sweeps: the order of trials, and what they draw beside other jobs.

use super::*;
use crate::node::balanced::testing::{Bench, TOTAL, falling_to, job, trial};
use model::{Condition, NodePlan, Reason, Share};

/// A trial that has not reached the first rung; it reports every fourth CPU-second.
fn starting(id: &str) -> ContainerObservation {
    let mut trial = falling_to(id, 24.0, 0.5);
    trial.learning.progress.as_mut().expect("a job reports").current = 6.0;
    let known = trial.trial.as_mut().expect("a trial has a curve");
    known.curve = known.curve[..=6].into();
    trial
}

fn sweep_of(trials: Vec<ContainerObservation>) -> Bench {
    Bench::new(1.0, trials)
}

fn standings(plan: &NodePlan) -> Vec<(TrialStanding, usize)> {
    let standing = |reason: &Reason| match reason {
        Reason::Trial { standing, rank, .. } => (*standing, *rank),
        other => panic!("not a trial: {other:?}"),
    };
    plan.containers.iter().map(|planned| standing(&planned.reason)).collect()
}

#[test]
fn the_best_third_at_the_highest_rung_comes_first_and_the_others_keep_the_floor() {
    let lasts = [0.5, 0.1, 0.4, 0.2, 0.6, 0.3];
    let trials = lasts.iter().enumerate().map(|(n, last)| falling_to(&format!("t{n}"), 40.0, *last)).collect();
    let mut bench = sweep_of(trials);
    let plan = bench.tick();
    use TrialStanding::{Behind, Promoted};
    let expected = [(Behind, 5), (Promoted, 1), (Behind, 4), (Promoted, 2), (Behind, 6), (Behind, 3)];
    assert_eq!(standings(&plan), expected);
    let shares: Vec<f64> = plan.containers.iter().map(|c| (c.share.fraction() * 1000.0).round() / 10.0).collect();
    assert!(shares[1] > 90.0, "{shares:?}");
    assert!(shares.iter().enumerate().all(|(n, share)| n == 1 || *share >= 1.6), "a tenth of a sixth: {shares:?}");
}

#[test]
fn trials_below_the_first_rung_share_and_come_before_those_that_are_behind() {
    let mut trials: Vec<_> = (0..4).map(|n| falling_to(&format!("t{n}"), 25.0, 0.1 + 0.1 * f64::from(n))).collect();
    trials.extend(["new-a", "new-b"].map(starting));
    let plan = sweep_of(trials).tick();
    use TrialStanding::{Behind, Promoted, Starting};
    let expected = [(Promoted, 1), (Behind, 4), (Behind, 5), (Behind, 6), (Starting, 2), (Starting, 2)];
    assert_eq!(standings(&plan), expected);
    let Reason::Trial { units, .. } = plan.containers[4].reason else { panic!("a trial") };
    assert_eq!(units, 10.0, "where it will be compared");
}

#[test]
fn a_trial_whose_metric_is_unsure_after_its_first_value_has_begun_and_one_that_stays_unsure_is_a_single_job() {
    let mut trials: Vec<_> = (0..4).map(|n| falling_to(&format!("t{n}"), 25.0, 0.1 + 0.1 * f64::from(n))).collect();
    trials.extend([starting("new"), falling_to("unsure", 25.0, 0.05)]);
    trials[4..].iter_mut().for_each(|trial| trial.learning.confidence = 0.4);
    let plan = sweep_of(trials).tick();
    let reason = |at: usize| &plan.containers[at].reason;
    assert!(matches!(reason(4), Reason::Trial { standing: TrialStanding::Starting, .. }), "{:?}", reason(4));
    assert!(!matches!(reason(5), Reason::Trial { .. }), "{:?}", reason(5));
}

#[test]
fn a_sweep_draws_what_its_trials_would_draw_as_single_jobs() {
    let with = |group: bool| {
        let mut jobs: Vec<_> = (0..3).map(|n| falling_to(&format!("t{n}"), 40.0, 0.1 + 0.1 * f64::from(n))).collect();
        jobs.iter_mut().filter(|_| !group).for_each(|job| job.trial = None);
        jobs.push(job("single", 40.0, Some(TOTAL), Some(TOTAL / 2.0 - 40.0)));
        let shares = sweep_of(jobs).shares();
        (shares[..3].iter().sum::<f64>(), shares[0], shares[3])
    };
    let ((alone, _, single), (together, first, beside)) = (with(false), with(true));
    assert!((alone - together).abs() < 0.02 && (single - beside).abs() < 0.02, "{alone} {together} {single} {beside}");
    assert!(first > 0.6 && first > 0.9 * (together - 0.05), "the best trial has it: {first} of {together}");
}

#[test]
fn trials_that_have_ended_are_still_compared() {
    let mut bench = sweep_of((0..3).map(|n| falling_to(&format!("t{n}"), 40.0, 0.1 + 0.1 * f64::from(n))).collect());
    bench.tick();
    bench.node.containers.retain(|container| container.name != "t0");
    bench.node.containers.push(falling_to("late", 40.0, 0.15));
    let plan = bench.tick();
    assert_eq!(standings(&plan)[2], (TrialStanding::Behind, 1), "t0 was better, so one of four is promoted: t0");
    bench.node.containers[2] = falling_to("late", 40.0, 0.05);
    bench.node.containers[2].id = ContainerId::new("better");
    assert_eq!(standings(&bench.tick())[2], (TrialStanding::Promoted, 1));
}

#[test]
fn a_late_bloomer_is_promoted_again() {
    let at_first = |n: u32| falling_to(&format!("t{n}"), 95.0, 0.2 + 0.1 * f64::from(n));
    let bloomer = |done: f64| trial("z", done, move |unit| if unit < 32.0 { 0.9 } else { 0.15 });
    let mut bench = sweep_of((0..3).map(at_first).chain([bloomer(31.0)]).collect());
    assert_eq!(standings(&bench.tick())[3].0, TrialStanding::Behind);
    bench.advance(3, bloomer(60.0));
    let plan = bench.tick();
    assert_eq!(standings(&plan)[3].0, TrialStanding::CaughtUp);
    let text = plan.containers[3].reason.explanation();
    assert!(text.contains("At unit 30 of its progress others were better, but it has caught up"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_a_single_job() {
    let is_single = |change: fn(&mut ContainerObservation)| {
        let mut trials: Vec<_> = (0..4).map(|n| falling_to(&format!("t{n}"), 40.0, 0.1 * f64::from(n))).collect();
        change(&mut trials[3]);
        let plan = sweep_of(trials).tick();
        assert!(matches!(plan.containers[0].reason, Reason::Trial { of: 3, .. }), "{:?}", plan.containers[0].reason);
        !matches!(plan.containers[3].reason, Reason::Trial { .. })
    };
    assert!(is_single(|trial| trial.learning.metric = None));
    assert!(is_single(|trial| trial.learning.metric = Some("accuracy".to_owned())));
    assert!(is_single(|trial| trial.learning.direction = Some(Direction::Up)));
    assert!(is_single(|trial| trial.learning.confidence = 0.4));
    assert!(is_single(|trial| trial.learning.progress.as_mut().expect("a job reports").total = Some(200.0)));
    assert!(is_single(|trial| trial.trial = None));
    assert!(is_single(|trial| trial.health.condition = Condition::Nan), "it has the floor");
}

#[test]
fn sweeps_can_be_switched_off() {
    let trials = || (0..3).map(|n| falling_to(&format!("t{n}"), 40.0, 0.1 * f64::from(n))).collect::<Vec<_>>();
    let mut bench = sweep_of(trials());
    let settings = model::PolicySettings { sweeps: false, ..*bench.governor.settings() };
    bench.governor.reconfigure(settings);
    let plan = bench.tick();
    assert!(plan.containers.iter().all(|planned| matches!(planned.reason, Reason::Ranked { .. })));
    assert!(plan.containers.iter().all(|planned| planned.share > Share::clamped(0.2)), "equal work, equal shares");
}

#[test]
fn without_a_total_the_rungs_follow_the_evaluations() {
    let mut trials: Vec<_> = (0..3).map(|n| falling_to(&format!("t{n}"), 40.0, 0.1 * f64::from(n + 1))).collect();
    for trial in &mut trials {
        trial.learning.progress.as_mut().expect("set above").total = None;
        trial.learning.units_to_completion = None;
        let thinned: Vec<(f64, f64)> =
            trial.trial.iter().flat_map(|trial| trial.curve.iter().copied()).filter(|(x, _)| x % 5.0 == 0.0).collect();
        trial.trial.as_mut().expect("set above").curve = thinned.into();
    }
    let plan = sweep_of(trials).tick();
    let Reason::Trial { standing, units, .. } = plan.containers[0].reason else { panic!("a trial") };
    assert_eq!((standing, units), (TrialStanding::Promoted, 30.0), "the third evaluation is at 10 units");
}

#[test]
fn what_is_remembered_is_bounded_and_forgotten_after_half_an_hour() {
    let mut sweeps = Sweeps::default();
    let mut node = crate::node::testing::node(Vec::new());
    for number in 0..SWEEPS_AT_MOST + 5 {
        let mut trial = falling_to(&format!("t{number}"), 40.0, 0.5);
        trial.trial.as_mut().expect("set above").group = format!("sweep-{number}").into();
        node.containers = vec![trial];
        sweeps.standings(&node);
    }
    assert_eq!(sweeps.0.len(), SWEEPS_AT_MOST);
    node.containers.clear();
    node.now = node.now.after(KEPT_FOR);
    sweeps.standings(&node);
    assert!(sweeps.0.is_empty());
}

#[test]
fn absurd_curves_decide_nothing() {
    for (x, y) in [(f64::NAN, 1.0), (20.0, f64::NAN), (f64::INFINITY, f64::INFINITY), (20.0, f64::NEG_INFINITY)] {
        let mut trials: Vec<_> = (0..3).map(|n| falling_to(&format!("t{n}"), 40.0, 0.1 * f64::from(n + 1))).collect();
        trials[1].trial.as_mut().expect("set above").curve = vec![(1.0, 1.0), (x, y), (25.0, y)].into();
        let plan = sweep_of(trials).tick(); // checked by the bench
        assert!(matches!(plan.containers[0].reason, Reason::Trial { .. }), "{x} {y}");
    }
}

#[test]
fn trials_of_one_unit_are_ranked_by_their_work() {
    let mut trials: Vec<_> = (0..3).map(|n| falling_to(&format!("t{n}"), 25.0, 0.1 * f64::from(n + 1))).collect();
    for trial in &mut trials {
        let progress = trial.learning.progress.as_mut().expect("a job reports");
        (progress.current, progress.total) = (0.5, Some(1.0));
    }
    let plan = sweep_of(trials).tick();
    assert!(plan.containers.iter().all(|planned| !matches!(planned.reason, Reason::Trial { .. })));
}

#[test]
fn two_runs_of_one_training_are_no_sweep() {
    let plan = sweep_of(vec![falling_to("a", 40.0, 0.5), falling_to("b", 40.0, 0.1)]).tick();
    assert!(plan.containers.iter().all(|planned| matches!(planned.reason, Reason::Ranked { .. })));
}
