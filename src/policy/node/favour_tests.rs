//! Tests of the favoured job, its speed, and the time of the others.

use super::*;
use model::ProgressUnit;
use proptest::prelude::*;

fn gpu_job(name: &str, share: f64, done: f64, now: Millis) -> GpuJob {
    let progress = Progress { unit: ProgressUnit::Step, current: done, total: None, at: now };
    GpuJob { id: ContainerId::new(name), share, progress: Some(progress) }
}

/// Two jobs on one GPU for some time.
struct Ran {
    /// Mean speed of the favoured job, as part of its speed alone.
    kept: f64,
    /// How often it had 95 % of its speed alone.
    kept_well: f64,
    /// The other's part of the time: mean, and at the end.
    beside: f64,
    beside_last: f64,
}

/// Runs two jobs on one GPU for some seconds. `slows`: part of its speed that the favoured job loses when the other runs all the time.
/// `noise`: standard deviation of its measured speeds.
fn run(seconds: u64, slows: f64, noise: f64) -> Ran {
    let mut favour = Favour::default();
    let (mut done, mut kept, mut kept_well, mut beside, mut part) = (0.0, 0.0, 0, 0.0, 1.0);
    let mut random: u64 = 1;
    for second in 0..seconds {
        let now = Millis::from_secs(second);
        let speed = 1.0 - slows * part;
        (kept, beside) = (kept + speed, beside + part);
        kept_well += u64::from(speed >= 0.95);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (random >> 33) as f64 / f64::from(1_u32 << 30) - 1.0;
        // Each speed is the mean of four.
        done += 10.0 * speed * (1.0 + 2.0 * noise * uniform * 3.0_f64.sqrt());
        let frozen = favour.step(&[gpu_job("a", 0.8, done, now), gpu_job("b", 0.2, 0.0, now)], now);
        part = 1.0 - frozen.get(&ContainerId::new("b")).copied().unwrap_or(0.0);
    }
    let count = seconds as f64;
    Ran { kept: kept / count, kept_well: kept_well as f64 / count, beside: beside / count, beside_last: part }
}

#[test]
fn the_favoured_job_keeps_its_speed_and_the_other_gets_the_rest() {
    let ran = run(600, 0.2, 0.0);
    assert!(ran.kept_well > 0.9, "{}", ran.kept_well);
    assert!((2.0 * LEAST_TOGETHER..0.35).contains(&ran.beside_last), "{}", ran.beside_last);
    let ran = run(600, 0.0, 0.0);
    assert!(ran.beside_last > 0.99, "a job that costs nothing is not frozen: {}", ran.beside_last);
}

#[test]
fn noise_neither_starves_the_other_nor_slows_the_favoured_job() {
    for noise in [0.01, 0.02] {
        let ran = run(3600, 0.0, noise);
        assert!(ran.beside > 0.7, "a job that costs nothing is hardly frozen: {}", ran.beside);
        for slows in [0.05, 0.2, 0.5] {
            let (ran, quiet) = (run(3600, slows, noise), run(3600, slows, 0.0));
            assert!(ran.kept >= 0.95, "{slows} {noise}: {}", ran.kept);
            assert!(ran.beside > 0.8 * quiet.beside, "{slows} {noise}: {} {}", ran.beside, quiet.beside);
        }
    }
}

#[test]
fn a_favoured_job_that_reports_rarely_freezes_nobody() {
    let second_line = |second: u64| if second % 90 >= 3 { 3_u64 } else { 0 };
    let rarely = beside_reports(|second| (second / 90, second - second % 90 + second_line(second)), 1000);
    assert!(rarely.iter().all(|part| *part == 1.0), "{rarely:?}");
    let often = beside_reports(|second| (second / 20, second - second % 20), 1000);
    assert!(often[25..60].iter().all(|part| *part < 0.1), "{often:?}");
    let then_rarely = |second: u64| if second < 300 { (second, second) } else { (second / 90, second - second % 90) };
    let then_rarely = beside_reports(then_rarely, 1500);
    assert!(then_rarely[..300].iter().any(|part| *part < 0.1));
    assert!(then_rarely[450..].iter().all(|part| *part == 1.0), "{then_rarely:?}");
}

#[test]
fn without_progress_of_the_favoured_job_no_job_is_frozen() {
    let mut favour = Favour::default();
    let silent = |now| [GpuJob { progress: None, ..gpu_job("a", 0.8, 0.0, now) }, gpu_job("b", 0.2, 0.0, now)];
    assert!(favour.step(&silent(Millis::from_secs(1)), Millis::from_secs(1)).is_empty());
    let reported = |done: f64| [gpu_job("a", 0.8, done, Millis(0)), gpu_job("b", 0.2, 0.0, Millis(0))];
    assert!(favour.step(&reported(4.0), Millis::from_secs(1)).is_empty(), "nor after a single report");
    assert!(!favour.step(&reported(5.0), Millis::from_secs(1)).is_empty());
    assert!(favour.step(&reported(5.0), Millis::from_secs(61)).is_empty());
}

/// Part of the time in which `b` may run after each second, beside a favoured job with this counter.
fn beside(counter: impl Fn(u64) -> f64, seconds: u64) -> Vec<f64> {
    let mut favour = Favour::default();
    let mut second = |second: u64| step(&mut favour, counter(second), Millis::from_secs(second), second);
    (0..seconds).map(&mut second).collect()
}

/// As [`beside`], for a job whose last report at each second has this counter and time.
fn beside_reports(report: impl Fn(u64) -> (u64, u64), seconds: u64) -> Vec<f64> {
    let mut favour = Favour::default();
    let mut second = |second: u64| {
        let (counter, at) = report(second);
        step(&mut favour, counter as f64, Millis::from_secs(at), second)
    };
    (0..seconds).map(&mut second).collect()
}

fn step(favour: &mut Favour, counter: f64, at: Millis, second: u64) -> f64 {
    let jobs = [gpu_job("a", 0.8, counter, at), gpu_job("b", 0.2, 0.0, at)];
    1.0 - favour.step(&jobs, Millis::from_secs(second)).get(&ContainerId::new("b")).copied().unwrap_or(0.0)
}

#[test]
fn a_favoured_job_without_advance_freezes_the_others_only_briefly() {
    let stops: fn(u64) -> f64 = |second| second.min(2) as f64;
    let counters: [fn(u64) -> f64; 3] = [stops, |_| f64::NAN, |second| -(second as f64)];
    for counter in counters {
        let beside = beside(counter, 600);
        assert!(beside[1..30].iter().all(|part| *part < 0.1));
        assert!(beside[65..].iter().all(|part| *part == 1.0), "{:?}", &beside[65..]);
    }
    for counter in [7.0, f64::INFINITY] {
        assert!(beside(|_| counter, 600).iter().all(|part| *part == 1.0), "{counter}");
    }
}

#[test]
fn a_counter_that_pauses_is_measured_again_afterwards() {
    let paused = |second: u64| if second < 200 { 5.0 } else { second as f64 };
    let beside = beside(paused, 600);
    assert_eq!(beside[199], 1.0);
    assert!(beside[200..230].iter().any(|part| *part < 0.1), "its speed alone is tried again");
}

#[test]
fn a_favoured_job_that_becomes_slower_by_itself_does_not_starve_the_others() {
    let slower = |second: u64| if second < 100 { 10.0 * second as f64 } else { 1000.0 + 5.0 * (second - 100) as f64 };
    let beside = beside(slower, 1000);
    assert!(beside[110..200].iter().any(|part| *part < 0.1), "at first the others could be the cause");
    assert!(beside[999] > 0.9, "{}", beside[999]);
}

proptest! {
    #[test]
    fn the_favoured_job_is_never_frozen_and_the_others_run_whatever_is_reported(
        counters in prop::collection::vec((prop::option::of(prop::num::f64::ANY), 0_u64..90), 1..200),
        shares in prop::collection::vec(0.0_f64..1.0, 2..5),
    ) {
        let (mut favour, mut favoured_since) = (Favour::default(), (None, 0));
        for (second, (counter, age)) in (0_u64..).zip(counters) {
            let now = Millis::from_secs(second + 100);
            let at = Millis::from_secs(second + 100 - age);
            let job = |(number, share): (usize, &f64)| {
                let reported = gpu_job(&number.to_string(), *share, counter.unwrap_or(0.0), at);
                GpuJob { progress: counter.and(reported.progress), ..reported }
            };
            let jobs: Vec<GpuJob> = shares.iter().enumerate().map(job).collect();
            let frozen = favour.step(&jobs, now);
            prop_assert!(frozen.len() < jobs.len());
            prop_assert!(frozen.values().all(|part| (0.0..1.0).contains(part)));
            let go_on: f64 = frozen.values().map(|part| 1.0 - part).sum();
            prop_assert!(frozen.is_empty() || go_on >= LEAST_TOGETHER - 1e-9);
            if favoured_since.0 != favour.favoured().cloned() {
                favoured_since = (favour.favoured().cloned(), second);
            }
            let is_new = second - favoured_since.1 < 60;
            prop_assert!(counter.is_some() && (age < 60 || is_new) || frozen.is_empty());
        }
    }
}

#[test]
fn the_next_favoured_job_has_the_gpu_at_once_if_it_reported_often_before_it_was_frozen() {
    let frozen_after_handover = |b_reports_every: u64| {
        let mut favour = Favour::default();
        let mut step = |second: u64, a: f64, b: f64| {
            let reported = |every: u64, until: u64| second.min(until) / every * every;
            // For 200 seconds a reports rarely, so nobody is frozen; then b is, and reports nothing.
            let (a_at, b_at) = (reported(if second <= 200 { 90 } else { 1 }, 500), reported(b_reports_every, 200));
            let jobs = [("a", a, a_at), ("b", b, b_at), ("c", 0.1, reported(1, 1000))]
                .map(|(name, share, at)| gpu_job(name, share, at as f64, Millis::from_secs(at)));
            let frozen = favour.step(&jobs, Millis::from_secs(second));
            frozen.into_keys().map(|id| id.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert!((0..=200).all(|second| step(second, 0.8, 0.1).is_empty()));
        (201..500).for_each(|second| drop(step(second, 0.8, 0.1)));
        (step(500, 0.1, 0.8), (501..700).map(|second| step(second, 0.1, 0.8)).collect::<Vec<_>>())
    };
    let (at_once, later) = frozen_after_handover(10);
    assert_eq!(at_once, ["a", "c"]);
    assert!(later[..50].iter().all(|frozen| frozen == &["a", "c"]), "while it may still report");
    assert!(later[70..].iter().all(Vec::is_empty), "it has not reported for a minute");
    assert!(frozen_after_handover(90).0.is_empty(), "it reports rarely");
}

#[test]
fn a_single_job_is_not_frozen_and_only_a_clearly_larger_share_changes_the_favoured_job() {
    let mut favour = Favour::default();
    assert!(favour.step(&[gpu_job("a", 1.0, 1.0, Millis(0))], Millis(0)).is_empty());
    let mut seconds = 0_u32..;
    let mut step = |a: f64, b: f64| -> Vec<String> {
        let mut frozen = BTreeMap::new();
        for second in seconds.by_ref().take(3) {
            let (done, now) = (f64::from(second), Millis::from_secs(u64::from(second)));
            frozen = favour.step(&[gpu_job("a", a, done, now), gpu_job("b", b, done, now)], now);
        }
        frozen.keys().map(|id| id.as_str().to_owned()).collect()
    };
    assert_eq!(step(0.6, 0.4), ["b"]);
    assert_eq!(step(0.48, 0.52), ["b"]);
    assert_eq!(step(0.4, 0.6), ["a"]);
}
