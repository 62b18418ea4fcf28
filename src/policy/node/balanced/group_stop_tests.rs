//! Tests of group-stop: who is stopped, and everybody who is not.

use super::super::testing::{Bench, TOTAL, falling_to, trial};
use model::{
    Bounds, Condition, ContainerId, ContainerObservation, Direction, GroupStop, Hold, HoldbackBlock, Millis, NodePlan,
    PolicyName, PolicySettings, RunState, Share,
};

/// A trial whose label asks to stop it at this rung.
fn asking(rung: u8, mut trial: ContainerObservation) -> ContainerObservation {
    trial.trial.as_mut().expect("a trial").stop_at = Some(rung);
    trial
}

/// Trials with these final losses that have done 40 units, so that they have passed rung 2, and ask to be stopped at rung 1.
fn trials(losses: &[f64]) -> Vec<ContainerObservation> {
    let trial = |(n, last): (usize, &f64)| asking(1, falling_to(&format!("t{n}"), 40.0, *last));
    losses.iter().enumerate().map(trial).collect()
}

const SIX: [f64; 6] = [0.5, 0.1, 0.4, 0.2, 0.6, 0.3];

fn stopped(plan: &NodePlan) -> Vec<&str> {
    plan.stops.iter().map(|stop| stop.id.as_str()).collect()
}

/// The trials of [`SIX`] that are stopped after this change of the one with this number.
fn stopped_after(number: usize, change: impl Fn(&mut ContainerObservation)) -> Vec<String> {
    let mut all = trials(&SIX);
    change(&mut all[number]);
    let plan = Bench::new(1.0, all).tick();
    stopped(&plan).into_iter().map(str::to_owned).collect()
}

#[test]
fn those_that_are_not_among_the_best_third_are_stopped_and_no_others() {
    let plan = Bench::new(1.0, trials(&SIX)).tick();
    assert_eq!(stopped(&plan), ["t0", "t2", "t4", "t5"]);
    assert_eq!(plan.stops[0].why, GroupStop { rung: 1, rank: 5, of: 6 });
    assert_eq!(plan.stops[3].why.to_string(), "at rung 1: rank 3 of 6");
}

#[test]
fn without_the_label_nobody_is_stopped_and_the_others_of_the_sweep_need_none() {
    assert_eq!(stopped_after(4, |trial| trial.trial.as_mut().expect("set").stop_at = None), ["t0", "t2", "t5"]);
    let mut all = trials(&SIX);
    all.iter_mut()
        .enumerate()
        .filter(|(n, _)| *n != 4)
        .for_each(|(_, t)| t.trial.as_mut().expect("set").stop_at = None);
    assert_eq!(stopped(&Bench::new(1.0, all.clone()).tick()), ["t4"]);
    all[4].trial.as_mut().expect("set").stop_at = None;
    assert_eq!(stopped(&Bench::new(1.0, all).tick()), [""; 0]);
}

#[test]
fn whatever_is_not_sure_is_not_stopped() {
    type Change = fn(&mut ContainerObservation);
    let spares: [(&str, Change); 11] = [
        ("NaN", |job| job.health.condition = Condition::Nan),
        ("paused", |job| job.state = RunState::Paused),
        ("released", |job| job.hold = Some(Hold::Released)),
        ("pinned", |job| job.bounds = Bounds { min: Share::clamped(0.1), max: Share::clamped(0.1) }),
        ("no metric", |job| job.learning.metric = None),
        ("another metric", |job| job.learning.metric = Some("accuracy".to_owned())),
        ("another direction", |job| job.learning.direction = Some(Direction::Up)),
        ("an unsure metric", |job| job.learning.confidence = 0.7),
        ("another length", |job| job.learning.progress.as_mut().expect("set").total = Some(200.0)),
        ("a rung that does not exist", |job| job.trial.as_mut().expect("set").stop_at = Some(4)),
        ("another user's", |job| job.user = Some("bob".into())),
    ];
    for (why, change) in spares {
        assert!(!stopped_after(4, change).contains(&"t4".to_owned()), "{why}");
    }
    assert!(stopped_after(4, |_| ()).contains(&"t4".to_owned()));
}

#[test]
fn a_loser_of_a_small_sweep_or_before_its_rung_is_not_stopped() {
    let two = Bench::new(1.0, trials(&[0.5, 0.1])).tick();
    assert_eq!(stopped(&two), [""; 0]);
    let at_three = |done: f64| {
        let all = SIX.iter().enumerate().map(|(n, last)| asking(3, falling_to(&format!("t{n}"), done, *last)));
        Bench::new(1.0, all.collect()).tick()
    };
    assert_eq!(stopped(&at_three(89.0)), [""; 0]);
    assert_eq!(stopped(&at_three(91.0)), ["t0", "t2", "t4", "t5"]);
}

#[test]
fn a_trial_that_might_still_be_among_the_best_third_waits_for_those_on_their_way() {
    // Nine trials, three of them before the first rung: two of six would go on, and three of nine.
    let on_its_way = |n: usize| {
        let mut late = asking(1, falling_to(&format!("late-{n}"), 25.0, 0.9));
        late.learning.progress.as_mut().expect("set").current = 6.0;
        let known = late.trial.as_mut().expect("set");
        known.curve = known.curve[..=6].into();
        late
    };
    let mut bench = Bench::new(1.0, trials(&SIX).into_iter().chain((0..3).map(on_its_way)).collect());
    assert_eq!(stopped(&bench.tick()), ["t0", "t2", "t4"], "the third may stay");
    let mut silent = trials(&SIX);
    silent.extend((0..3).map(|n| {
        let mut silent = on_its_way(n);
        silent.learning.metric = None;
        silent
    }));
    assert_eq!(stopped(&Bench::new(1.0, silent).tick()), ["t0", "t2", "t4"], "nor if they have printed nothing yet");
    for n in 0..3 {
        bench.advance(6 + n, asking(1, falling_to(&format!("late-{n}"), 40.0, 0.05)));
    }
    assert_eq!(stopped(&bench.tick()), ["t0", "t2", "t4", "t5"], "others are better");
}

#[test]
fn one_that_was_once_among_the_best_third_or_has_caught_up_stays() {
    let mut bench = Bench::new(1.0, trials(&[0.3, 0.5, 0.6]));
    assert_eq!(stopped(&bench.tick()), ["t1", "t2"]);
    for (n, last) in [0.05, 0.1, 0.15].into_iter().enumerate() {
        bench.node.containers.push(asking(1, falling_to(&format!("u{n}"), 40.0, last)));
    }
    assert_eq!(stopped(&bench.tick()), ["t1", "t2", "u2"], "t0 is the fourth now, and stays");

    let at_first = |n: u32| falling_to(&format!("t{n}"), 95.0, 0.2 + 0.1 * f64::from(n));
    let bloomer = |done: f64| asking(1, trial("z", done, move |unit| if unit < 32.0 { 0.9 } else { 0.15 }));
    let mut bench = Bench::new(1.0, (0..3).map(at_first).chain([bloomer(60.0)]).collect());
    assert_eq!(stopped(&bench.tick()), [""; 0], "it has caught up");
}

#[test]
fn the_best_of_those_that_run_stays_though_better_ones_have_ended() {
    let mut bench = Bench::new(1.0, trials(&SIX));
    bench.tick();
    bench.node.containers.retain(|container| !["t1", "t3"].contains(&container.name.as_str()));
    assert_eq!(stopped(&bench.tick()), ["t0", "t2", "t4"], "t5 is the best that is left");
    bench.node.containers.retain(|container| container.name == "t4");
    assert_eq!(stopped(&bench.tick()), [""; 0], "the last one");
}

#[test]
fn one_at_its_end_is_left_to_end() {
    let with = |done: f64| {
        let mut all = trials(&SIX);
        all[4] = asking(1, falling_to("t4", done, 0.6));
        all[4].learning.progress.as_mut().expect("set").total = Some(TOTAL);
        stopped(&Bench::new(1.0, all).tick()).contains(&"t4")
    };
    assert!(with(TOTAL - 1.0) && !with(TOTAL));
}

#[test]
fn a_later_run_of_a_container_that_has_lost_is_left_alone() {
    let mut bench = Bench::new(1.0, trials(&SIX));
    assert!(stopped(&bench.tick()).contains(&"t4"));
    let again = |done: f64, started: Millis| {
        let mut again = asking(1, falling_to("t4", done, 0.6));
        again.started = started;
        again
    };
    let started = bench.node.now;
    bench.advance(4, again(40.0, started));
    assert!(!stopped(&bench.tick()).contains(&"t4"), "somebody started it again");

    let mut bench = Bench::new(1.0, trials(&SIX));
    bench.advance(4, again(9.0, started)); // its engine restarted it before it was judged
    assert!(!stopped(&bench.tick()).contains(&"t4"), "it has not passed the rung in this run");
}

#[test]
fn a_sweep_that_ran_before_the_daemon_goes_on_without_stops() {
    let before = |trial: &mut ContainerObservation| trial.trial.as_mut().expect("set").ran_before = true;
    assert_eq!(stopped_after(1, before), [""; 0]);
    let silent = |trial: &mut ContainerObservation| {
        before(trial);
        trial.learning.metric = None;
    };
    assert_eq!(stopped_after(1, silent), [""; 0]);
    let mut bench = Bench::new(1.0, {
        let mut all = trials(&SIX);
        before(&mut all[1]);
        all
    });
    bench.tick();
    bench.node.containers.retain(|container| container.name != "t1");
    assert_eq!(stopped(&bench.tick()), [""; 0], "also after that one has ended");
}

#[test]
fn a_dry_run_a_control_period_and_another_policy_stop_nobody() {
    for (policy, sweeps) in [(PolicyName::Fair, true), (PolicyName::Flowcon, true), (PolicyName::Balanced, false)] {
        let mut bench = Bench::new(1.0, trials(&SIX));
        let settings = PolicySettings { policy, sweeps, ..*bench.governor.settings() };
        bench.governor.reconfigure(settings);
        assert_eq!(stopped(&bench.tick()), [""; 0], "{policy:?}");
    }
    let mut bench = Bench::new(1.0, trials(&SIX));
    let until = bench.node.now.after(Millis::from_secs(600));
    bench.node.holdback =
        Some(HoldbackBlock { plain: true, from_unix_ms: 0, washed_unix_ms: 0, until_unix_ms: 0, until });
    assert_eq!(stopped(&bench.tick()), [""; 0], "a control period");
}

#[test]
fn absurd_curves_of_others_stop_nobody_who_is_among_the_best() {
    for (x, y) in [(f64::NAN, 1.0), (20.0, f64::NAN), (f64::INFINITY, f64::INFINITY), (20.0, f64::NEG_INFINITY)] {
        let mut all = trials(&SIX);
        for number in [0, 2] {
            all[number].trial.as_mut().expect("set").curve = vec![(1.0, 1.0), (x, y), (25.0, y)].into();
        }
        let plan = Bench::new(1.0, all).tick();
        assert!(!stopped(&plan).contains(&"t1") && !stopped(&plan).contains(&"t3"), "{x} {y}: {:?}", plan.stops);
    }
    let absurd = |trial: &mut ContainerObservation| {
        trial.trial.as_mut().expect("set").curve = vec![(1.0, f64::NAN), (20.0, f64::NAN)].into();
    };
    assert!(!stopped_after(4, absurd).contains(&"t4".to_owned()), "without a result nobody loses");
}

#[test]
fn the_check_of_plans_rejects_a_stop_that_nobody_asked_for() {
    let mut bench = Bench::new(1.0, trials(&SIX));
    let mut plan = bench.tick();
    bench.node.containers[0].trial.as_mut().expect("set").stop_at = None;
    let violations = crate::check(&plan, &bench.node);
    assert_eq!(violations, [crate::node::Violation::StoppedUnasked(ContainerId::new("t0"))]);
    assert!(crate::drop_violating(&mut plan, &violations).is_some());
    assert_eq!(stopped(&plan), ["t2", "t4", "t5"]);
}

#[test]
fn one_that_has_caught_up_with_losers_only_is_stopped() {
    // All have gone on to the next rung, so that the third counts as caught up: it is better than half of all. The promoted ones are better.
    let done = [45.0, 60.0, 45.0, 60.0, 60.0, 45.0];
    let all = SIX.iter().zip(done).enumerate();
    let all = all.map(|(n, (last, done))| asking(2, falling_to(&format!("t{n}"), done, *last)));
    let mut bench = Bench::new(1.0, all.collect());
    assert_eq!(stopped(&bench.tick()), ["t0", "t2", "t4", "t5"]);
    let gone_on = |n: usize, last: f64| asking(1, falling_to(&format!("t{n}"), 95.0, last));
    let mut all: Vec<_> = SIX.iter().enumerate().map(|(n, last)| gone_on(n, *last)).collect();
    all[5] = asking(1, falling_to("t5", 60.0, 0.3));
    let plan = Bench::new(1.0, all).tick();
    assert!(stopped(&plan).contains(&"t5"), "{:?}", plan.stops);
}
