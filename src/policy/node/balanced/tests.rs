//! Tests of the default policy over whole ticks.

use super::testing::{Bench, INTERVAL, claiming, job, ranked};
use super::*;
use crate::Governor;
use crate::node::testing::{container, node};
use model::{CpuTime, Curve, Estimate, HoldbackBlock, NodePlan, Phase, PolicyName, Progress, Reason};

#[test]
fn the_job_with_the_least_work_comes_first_and_the_others_keep_the_floor() {
    let jobs = vec![job("a", 100.0, Some(200.0), Some(0.0)), job("b", 100.0, Some(500.0), Some(0.0))];
    assert_eq!(Bench::new(1.0, jobs).shares(), [0.95, 0.05]);
}

#[test]
fn a_forecast_is_reported_until_the_policy_changes_or_the_job_restarts() {
    let mut bench = Bench::new(1.0, vec![job("a", 100.0, Some(200.0), Some(0.0)), container("b")]);
    bench.tick();
    let ids: Vec<_> = bench.node.containers.iter().map(|container| container.id.clone()).collect();
    let forecast = bench.governor.forecast(&ids[0]).expect("it prints progress");
    assert_eq!((forecast.to_end.likely, forecast.used, forecast.after(130.0).to_end.likely), (100.0, 100.0, 70.0));
    assert!(forecast.is_known);
    assert_eq!(bench.governor.forecast(&ids[1]), None, "it prints nothing");
    let balanced = *bench.governor.settings();
    bench.governor.reconfigure(PolicySettings { policy: PolicyName::Fair, ..balanced });
    assert_eq!(bench.governor.forecast(&ids[0]), None);
    bench.governor.reconfigure(balanced);
    let mut again = container("a");
    again.usage.cpu = Some(CpuTime(1_000_000));
    bench.advance(0, again);
    bench.tick();
    assert_eq!(bench.governor.forecast(&ids[0]), None, "it was restarted: the forecast of the earlier run is void");
}

#[test]
fn near_quality_beats_a_distant_end() {
    let jobs = vec![job("a", 100.0, Some(200.0), Some(0.0)), job("b", 100.0, Some(500.0), Some(20.0))];
    let mut bench = Bench::new(0.5, jobs);
    let plan = bench.tick();
    assert_eq!(ranked(&plan, 1), ("95 % quality".to_owned(), 20.0, 1));
    assert_eq!(ranked(&plan, 0), ("completion".to_owned(), 100.0, 2));
    assert!(plan.containers[1].share.fraction() > 0.9);
}

#[test]
fn near_the_end_completion_earns_both_credits() {
    let mut bench = Bench::new(0.5, vec![job("a", 100.0, Some(130.0), Some(20.0))]);
    assert_eq!(ranked(&bench.tick(), 0).0, "completion", "1/30 is more than 0.5/20");
}

#[test]
fn the_owners_weight_scales_the_equal_share() {
    let mut jobs = vec![job("a", 100.0, Some(200.0), Some(0.0)), job("b", 100.0, Some(200.0), Some(0.0))];
    jobs[0].weight = 3.0;
    assert_eq!(Bench::new(0.5, jobs).shares(), [0.97, 0.03], "the other keeps a tenth of its quarter");
    let mut silent = vec![container("c"), container("d")];
    silent[0].weight = 3.0;
    assert_eq!(Bench { node: node(silent), ..Bench::new(0.5, Vec::new()) }.shares(), [0.75, 0.25]);
}

#[test]
fn equal_jobs_share_equally_and_nearly_equal_ones_nearly() {
    let pair =
        |work: f64| vec![job("a", 100.0, Some(200.0), Some(0.0)), job("b", 100.0, Some(100.0 + work), Some(0.0))];
    assert_eq!(Bench::new(0.5, pair(100.0)).shares(), [0.5, 0.5]);
    let shares = Bench::new(0.5, pair(103.0)).shares();
    assert!(shares[0] > 0.5 && shares[0] < 0.57, "no flapping between near-equal jobs: {shares:?}");
}

#[test]
fn a_job_that_prints_nothing_has_its_equal_share() {
    let jobs = vec![
        job("a", 100.0, Some(200.0), Some(0.0)),
        job("b", 100.0, Some(900.0), Some(0.0)),
        container("silent"),
        container("silent too"),
    ];
    let mut bench = Bench::new(0.5, jobs);
    let plan = bench.tick();
    assert_eq!(plan.containers[2].reason, Reason::Unranked);
    let shares = bench.shares();
    assert_eq!(shares[2..], [0.25, 0.25]);
    assert!(shares[0] > 0.45);
}

#[test]
fn without_a_total_cpu_lent_on_the_way_to_a_good_model_is_returned() {
    let mut bench = Bench::new(0.5, vec![job("a", 100.0, None, Some(50.0)), job("b", 400.0, None, Some(0.0))]);
    let (mut done, mut ahead) = ([100.0, 400.0], Vec::new());
    for _ in 0..20 {
        let shares = bench.shares();
        done = [done[0] + 40.0 * shares[0], done[1] + 40.0 * shares[1]];
        bench.advance(0, job("a", done[0], None, Some((150.0 - done[0]).max(0.0))));
        bench.advance(1, job("b", done[1], None, Some(0.0)));
        ahead.push((done[0] - 100.0) - (done[1] - 400.0));
    }
    let most = ahead.iter().copied().fold(0.0, f64::max);
    assert!(most > 45.0 && ahead[19].abs() < 0.5 * most, "lent until its model was good, then returned: {ahead:?}");
}

#[test]
fn a_cost_that_includes_the_start_is_corrected_by_the_second_report() {
    let mut bench = Bench::new(1.0, vec![job("a", 100.0, Some(400.0), Some(0.0)), container("b")]);
    let mut started = job("b", 1.0, Some(101.0), Some(0.0));
    started.usage.cpu = Some(CpuTime(20_000_000));
    bench.advance(1, started.clone());
    assert_eq!(bench.shares(), [0.95, 0.05], "2,000 CPU-seconds of work by its first report");
    started.usage.cpu = Some(CpuTime(21_000_000));
    started.learning.progress.as_mut().expect("it reports").current = 2.0;
    bench.advance(1, started);
    assert_eq!(bench.shares(), [0.05, 0.95], "99 by its second, which ran on the floor");
}

#[test]
fn a_job_with_a_claimed_total_comes_first_until_its_first_unit_costs_too_much() {
    let mut bench = Bench::new(1.0, vec![job("a", 100.0, Some(400.0), Some(0.0)), container("b")]);
    let mut shares = |seconds: u64, claims: bool| {
        let mut silent = claiming("b", seconds, 50.0);
        silent.usage.pressure.cpu = Some(0.5);
        if !claims {
            silent.learning = container("b").learning;
        }
        bench.advance(1, silent);
        bench.shares()
    };
    assert_eq!(shares(2, false), [0.5, 0.5], "a job that prints nothing has an equal share");
    assert!(shares(3, true)[1] > 0.9, "one CPU-second for the first unit at most, 50 for all");
    assert_eq!(shares(30, true), [0.86, 0.14], "1,400 at least, and a fifth of an equal share in any case");
}

#[test]
fn without_a_total_a_job_behind_plain_sharing_lends_nothing_more() {
    let mut bench = Bench::new(0.5, vec![job("a", 100.0, None, Some(90.0)), job("b", 400.0, None, Some(0.0))]);
    let mut last = bench.shares()[1];
    assert!(last < 0.25);
    // 20 s of two cores: all 40 CPU-seconds went to a. An equal share is 20, and 19 % of the work that b has done is 76.
    for tick in 1..=4 {
        bench.advance(0, job("a", 100.0 + 40.0 * f64::from(tick), None, Some(90.0)));
        let share = bench.shares()[1];
        assert!(share > last, "{share} after {last}");
        last = share;
    }
    assert_eq!(last, 0.5);
}

#[test]
fn without_a_total_a_slow_learner_is_expected_to_run_long() {
    let mut bench = Bench::new(1.0, vec![job("slow", 100.0, None, Some(60.0)), job("quick", 100.0, None, Some(20.0))]);
    let plan = bench.tick();
    // The whole work of a typical job with this point of 95 % quality, minus the 100 done.
    let whole = |good_at: f64| good_at / super::milestone::TYPICAL_QUALITY_AT;
    assert_eq!(ranked(&plan, 0), ("an end".to_owned(), whole(160.0) - 100.0, 2));
    assert_eq!(ranked(&plan, 1), ("an end".to_owned(), whole(120.0) - 100.0, 1));
    bench.advance(1, job("quick", 150.0, None, Some(0.0)));
    assert_eq!(ranked(&bench.tick(), 1).1, whole(120.0) - 150.0, "once reached, the observed point is used");
    bench.advance(0, job("slow", 100.0, None, Some(3000.0)));
    assert_eq!(ranked(&bench.tick(), 0).1, 400.0, "four times the work done at most, whatever the curve forecasts");
}

#[test]
fn the_owners_weight_multiplies_the_credit() {
    let mut jobs = vec![job("a", 100.0, Some(200.0), Some(0.0)), job("b", 100.0, Some(250.0), Some(0.0))];
    jobs[1].weight = 3.0;
    let mut bench = Bench::new(0.5, jobs);
    assert_eq!(ranked(&bench.tick(), 1).2, 1);
}

#[test]
fn a_deadline_counts_while_it_needs_more_than_an_equal_share_and_can_be_met() {
    // 400 CPU-seconds on two cores; an equal share is one core.
    let with_deadline = |seconds: u64| {
        let mut jobs = vec![job("a", 100.0, Some(200.0), Some(0.0)), job("b", 100.0, Some(500.0), Some(0.0))];
        jobs[1].deadline = Some(Millis::from_secs(seconds + 40)); // the second tick is at 40 s
        let mut bench = Bench::new(1.0, jobs);
        ranked(&bench.tick(), 1)
    };
    let (urgent, ordinary) = (("the deadline".to_owned(), 400.0), ("completion".to_owned(), 400.0));
    for (seconds, expected) in [(1000, &ordinary), (399, &urgent), (200, &urgent), (199, &ordinary), (0, &ordinary)] {
        let (milestone, work, rank) = with_deadline(seconds);
        assert_eq!(&(milestone, work), expected, "{seconds} s left");
        assert_eq!(rank, 2, "a hint: twice the credit for four times the work");
    }
}

#[test]
fn a_diverging_job_gets_no_credit_for_quality() {
    let mut jobs = vec![job("a", 100.0, Some(400.0), Some(5.0)), job("b", 100.0, Some(300.0), Some(0.0))];
    if let Some(curve) = &mut jobs[0].learning.curve {
        curve.phase = Phase::Diverging;
    }
    let mut bench = Bench::new(0.5, jobs);
    assert_eq!(ranked(&bench.tick(), 0).0, "completion");
}

#[test]
fn a_log_that_always_says_almost_done_ends_with_an_equal_share() {
    let mut bench =
        Bench::new(0.5, vec![job("honest", 100.0, Some(900.0), Some(0.0)), job("liar", 100.0, Some(101.0), Some(0.0))]);
    assert!(bench.shares()[1] > 0.9);
    for minute in 1..60 {
        let done = 100.0 + 20.0 * f64::from(minute);
        let mut liar = job("liar", done, Some(done + 1.0), Some(0.0));
        if let Some(progress) = &mut liar.learning.progress {
            progress.at = bench.node.now;
        }
        bench.node.containers[1] = liar;
        bench.tick();
    }
    let shares = bench.shares();
    assert!(shares[1] < 0.55, "{shares:?}");
}

#[test]
fn the_next_tick_comes_before_the_favoured_job_reaches_its_milestone() {
    let mut bench =
        Bench::new(0.5, vec![job("a", 100.0, Some(900.0), Some(10.0)), job("b", 100.0, Some(900.0), Some(0.0))]);
    let plan = bench.tick();
    let wait = plan.next_tick.since(plan.at);
    assert!(wait < Millis::from_secs(5) && wait >= Millis::from_secs(2), "{wait:?}");
}

#[test]
fn ticks_are_frequent_until_the_cost_of_a_new_job_is_known_but_not_for_long() {
    let waits = |started_before: Millis| {
        let old = job("a", 400.0, Some(4000.0), Some(3000.0));
        let mut bench = Bench::new(0.5, vec![old.clone(), container("b")]);
        bench.node.containers[1].started = Millis((bench.node.now.0 + INTERVAL.0).saturating_sub(started_before.0));
        bench.advance(0, old);
        let plan = bench.tick();
        plan.next_tick.since(plan.at)
    };
    assert_eq!(waits(Millis::from_secs(1)), Millis::from_secs(2));
    assert_eq!(waits(INTERVAL), Millis(4 * INTERVAL.0), "no change at this tick and the one before");
}

/// A single-threaded job that used one core over the whole last interval without waiting for it.
fn single_threaded(id: &str, done: f64, total: f64) -> ContainerObservation {
    let mut c = job(id, done, Some(total), Some(0.0));
    c.usage.pressure.cpu = Some(0.0);
    c
}

#[test]
fn cores_that_a_single_threaded_job_cannot_use_go_to_the_next_in_rank() {
    let jobs = vec![
        single_threaded("a", 100.0, 900.0),
        job("b", 100.0, Some(300.0), Some(0.0)),
        job("c", 100.0, Some(900.0), Some(0.0)),
        job("d", 100.0, Some(900.0), Some(0.0)),
    ];
    let mut bench = Bench::new(1.0, jobs);
    bench.advance(0, single_threaded("a", 100.0, 150.0));
    assert_eq!(bench.shares(), [0.92, 0.03, 0.03, 0.03]);
    bench.advance(0, single_threaded("a", 120.0, 150.0));
    // It used one of two cores where it was offered nearly both, so now it is offered a tenth more than one.
    assert_eq!(bench.shares(), [0.55, 0.4, 0.03, 0.03]);
}

#[test]
fn a_newly_favoured_job_gets_an_early_tick_to_measure_its_parallelism() {
    let jobs = ["a", "b", "c", "d"].map(|id| job(id, 100.0, Some(9000.0), Some(0.0)));
    let mut bench = Bench::new(1.0, jobs.into());
    bench.advance(0, job("a", 100.0, Some(500.0), Some(0.0)));
    let wait = |plan: NodePlan| plan.next_tick.since(plan.at);
    let plan = bench.tick();
    assert!(plan.containers[0].share.fraction() > 0.9);
    assert_eq!(wait(plan), Millis::from_secs(2), "no more than ten ticks per interval");
    bench.advance(0, job("a", 137.0, Some(500.0), Some(0.0)));
    assert_eq!(wait(bench.tick()), INTERVAL, "it used all of its offer: the usual interval");
}

#[test]
fn a_critical_job_comes_first_with_two_equal_shares() {
    let others = |id: &str| job(id, 100.0, Some(140.0), Some(0.0));
    let shares = |total: f64| {
        let jobs = vec![single_threaded("long", 100.0, 130.0), others("b"), others("c"), others("d"), others("e")];
        let mut bench = Bench::new(1.0, jobs);
        bench.tick();
        bench.advance(0, single_threaded("long", 120.0, total));
        bench.shares()
    };
    assert!(shares(140.0)[0] > 0.4, "known as single-threaded by now, and first in rank");
    assert_eq!(shares(600.0)[0], 0.4, "480 CPU-seconds on one core, against 160 of the others on two cores");
    assert!(shares(250.0)[0] < 0.05, "130 on one core leave enough time for all 290 on two cores");
}

#[test]
fn a_job_that_imports_on_one_core_is_not_critical() {
    // 100 epochs of unknown cost.
    let starting = |cpu_seconds| claiming("a", cpu_seconds, 100.0);
    let mut bench = Bench::new(1.0, vec![starting(20), job("b", 100.0, Some(9000.0), None)]);
    assert!(bench.shares()[0] > 0.8, "favoured, so that its parallelism is measured");
    bench.advance(0, starting(40));
    bench.advance(1, job("b", 120.0, Some(130.0), None));
    let shares = bench.shares();
    assert!(shares[1] > 0.8, "it must not delay the last 10 CPU-seconds of another job: {shares:?}");
}

#[test]
fn of_two_jobs_with_the_same_work_the_one_behind_plain_sharing_comes_first() {
    let mut bench = Bench::new(1.0, vec![job("a", 100.0, Some(420.0), None), job("b", 100.0, Some(400.0), None)]);
    bench.tick();
    bench.advance(0, job("a", 120.0, Some(420.0), None));
    let shares = bench.shares();
    assert!(shares[1] > shares[0], "{shares:?}");
}

/// Line after line says "99 of 100", and the job uses all the CPU that it gets.
#[test]
fn a_job_that_is_always_almost_done_gets_at_most_an_equal_share() {
    const TICK: Millis = Millis(300);
    let settings = PolicySettings { interval: Millis::from_secs(2), ..PolicySettings::default() };
    let mut governor = Governor::new(settings);
    let mut shares = Vec::new();
    for tick in 1..200u32 {
        let now = Millis(TICK.0 * u64::from(tick));
        let used = now.as_secs_f64() * 0.3;
        let at = |name: &str, cpu: f64, current: f64, total: f64| {
            let mut job = job(name, current, Some(total), None);
            job.usage.cpu = Some(CpuTime((cpu * 1e6) as u64));
            job.learning.progress = job.learning.progress.map(|progress| Progress { at: now, ..progress });
            job
        };
        let honest = |name| at(name, 10.0 + used, (10.0 + used).floor(), 500.0);
        let mut observed = node(vec![at("liar", used, 99.0, 100.0), honest("a"), honest("b")]);
        observed.now = now;
        shares.push(governor.tick(&observed).containers[0].share.fraction());
    }
    assert!(shares[20..].iter().all(|share| *share <= 0.35), "{shares:?}");
}

#[test]
fn an_equal_share_in_a_control_period_does_not_lower_the_parallelism() {
    // A kernel without PSI does not show that the job wanted more.
    let unseen = |id: &str, done: f64, total: f64| {
        let mut job = job(id, done, Some(total), None);
        job.usage.pressure.cpu = None;
        job
    };
    let share_after = |plain: bool| {
        let mut bench = Bench::new(1.0, vec![unseen("a", 100.0, 400.0), unseen("b", 100.0, 9000.0)]);
        // Governed, with nearly all of two cores; then an interval with one of them.
        bench.advance(0, unseen("a", 136.0, 400.0));
        bench.advance(1, unseen("b", 104.0, 9000.0));
        bench.node.holdback =
            Some(HoldbackBlock { plain, from_unix_ms: 0, washed_unix_ms: 0, until_unix_ms: 1, until: Millis(0) });
        bench.tick();
        bench.advance(0, unseen("a", 156.0, 400.0));
        bench.advance(1, unseen("b", 124.0, 9000.0));
        bench.node.holdback = None;
        bench.tick().containers[0].share.fraction()
    };
    assert!(share_after(true) > 0.8, "{}", share_after(true));
    assert!(share_after(false) < 0.7, "without a control period the lower use counts: {}", share_after(false));
}

#[test]
fn a_training_with_prior_runs_is_ranked_before_its_first_line() {
    let mut silent = job("silent", 20.0, Some(60.0), Some(0.0));
    silent.learning = model::Learning {
        units_to_completion: Some(Estimate::exactly(60.0)),
        curve: Some(Curve { phase: Phase::Unknown, quality: 0.0, units_to_quality: Some(Estimate::exactly(30.0)) }),
        prior_runs: 1,
        prior_cost_per_unit: Some(1.0),
        ..model::Learning::default()
    };
    let unknown = ContainerObservation { learning: model::Learning::default(), ..silent.clone() };
    let long = || job("long", 100.0, Some(1000.0), Some(500.0));
    let mut bench = Bench::new(0.5, vec![silent.clone(), long()]);
    // It has used 20 of the 30 CPU-seconds that a good model took the last time; its first line is 19 CPU-seconds late.
    let plan = bench.tick();
    assert_eq!(ranked(&plan, 0), ("95 % quality".to_owned(), 19.0, 1));
    assert!(bench.shares()[0] > 0.9, "{:?}", bench.shares());
    let mut vague = silent.clone();
    vague.learning.curve = Some(Curve {
        units_to_quality: Some(Estimate { low: 28.0, likely: 30.0, high: 62.0 }),
        ..silent.learning.curve.expect("forecast")
    });
    let plan = Bench::new(0.5, vec![vague, long()]).tick();
    let (name, work, _) = ranked(&plan, 0);
    assert!(
        name == "95 % quality" && (work - 19.6).abs() < 1e-9,
        "expected after 39.6 units, of which 20 are done: {work}"
    );
    assert_eq!(
        Bench::new(0.5, vec![unknown, long()]).shares(),
        [0.5, 0.5],
        "a job with unknown work has its equal share"
    );
}
