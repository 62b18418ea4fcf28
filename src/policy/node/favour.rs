//! Jobs that share one GPU: which one is favoured, and for which part of the time the others may run beside it.
//!
//! A GPU gives each process with work a turn, and the cost of a turn for the others cannot be predicted. So it is measured, as in TGS (Wu
//! et al., NSDI 2023): for a few steps the others hardly run, and the favoured job shows its speed alone. Then each step changes their time
//! by the difference between its speed and the part of its speed alone that it is to keep. Both are a few percent, as is the noise of a
//! single speed, so the changes add up to its mean, and noise cancels out. From time to time its speed alone is measured again, because it
//! may have changed for another reason.
//!
//! Properties: while the favoured job's speed is unknown, or it reports its progress too rarely, no job is frozen; the others run for at
//! least [`LEAST_TOGETHER`] of the time; the favoured job is never frozen. Imports: model.

use crate::model::{ContainerId, Millis, Progress};
use std::collections::BTreeMap;

/// The favoured job is to keep this part of its speed alone.
const KEEPS: f64 = 0.99;
/// Additional part of the time for the others, at most, after one step. They lose at most half.
const MORE_AT_MOST: f64 = 0.06;
/// Beside others, a speed above this multiple of its speed alone is not noise: it has become faster.
const FASTER: f64 = 1.05;
/// A job is not frozen for a smaller part of the time.
const LEAST_FROZEN: f64 = 0.02;
/// The others run for at least this part of the time, together. Work that they have queued runs in any case, so less would hardly help.
const LEAST_TOGETHER: f64 = 0.03;
/// Speed is measured over at least this time.
const STEP: Millis = Millis::from_secs(4);
/// The speed is unknown after this time without progress or without a valid speed.
const SILENT: Millis = Millis::from_secs(60);
/// Number of steps over which the speed alone is measured, at the begin of each cycle of this many steps.
const STEPS_ALONE: u32 = 4;
const CYCLE: u32 = 60;
/// Weight of a new speed alone, at least; the first ones count equally.
const WEIGHT: f64 = 0.2;
/// Another job becomes the favoured one when its share is larger by this factor.
const CLEARLY: f64 = 1.25;

/// A job on the GPU that may be frozen.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuJob {
    /// Its container.
    pub id: ContainerId,
    /// The part of the GPU, or of the node, that the policy gives it; the largest is favoured.
    pub share: f64,
    /// Its progress.
    pub progress: Option<Progress>,
}

/// State of one GPU that several jobs share.
#[derive(Clone, Debug, Default)]
pub struct Favour {
    favoured: Option<ContainerId>,
    others: Vec<ContainerId>,
    /// Its last report with another counter, and whether that came less than [`SILENT`] after the one before.
    reported: Option<Progress>,
    reports_often: bool,
    measured: Option<Progress>,
    /// Time of the last measured speed, or of the start of measuring.
    speed_known_at: Option<Millis>,
    /// Number of measured steps.
    steps: u32,
    /// The speed alone in units per second, and how often it was measured.
    alone: f64,
    times_alone: u32,
    /// Part of the time in which the others may run, together.
    beside: f64,
}

impl Favour {
    /// The favoured job of the last step.
    pub fn favoured(&self) -> Option<&ContainerId> {
        self.favoured.as_ref()
    }

    /// Returns the part of the time, 0 .. 1, for which each job is to be frozen from now on; a job that is not listed is not frozen.
    pub fn step(&mut self, gpu_jobs: &[GpuJob], now: Millis) -> BTreeMap<ContainerId, f64> {
        let Some(favoured) = self.choose(gpu_jobs) else {
            *self = Favour::default();
            return BTreeMap::new();
        };
        let others: Vec<ContainerId> =
            gpu_jobs.iter().map(|other| &other.id).filter(|id| **id != favoured.id).cloned().collect();
        let is_same = self.favoured.as_ref() == Some(&favoured.id);
        if !is_same || self.others != others {
            let (reported, reports_often) = if is_same { (self.reported, self.reports_often) } else { (None, false) };
            let favoured = Some(favoured.id.clone());
            *self = Favour { favoured, others, reported, reports_often, ..Favour::default() };
        }
        let progress = favoured.progress.filter(|progress| now.since(progress.at) < SILENT);
        let Some(progress) = progress.filter(|progress| self.is_frequent(*progress)) else {
            (self.measured, self.speed_known_at) = (None, None);
            return BTreeMap::new();
        };
        let speed = self.speed(progress);
        let is_unknown = now.since(*self.speed_known_at.get_or_insert(now)) >= SILENT;
        match speed {
            // While the speed is unknown all jobs run, so a speed measured then is not the speed alone.
            Some(speed) if !is_unknown => self.learn(speed),
            None if is_unknown => return BTreeMap::new(),
            _ => {}
        }
        if speed.is_some() {
            self.speed_known_at = Some(now);
        }
        let beside = if self.is_to_be_alone() { LEAST_TOGETHER } else { self.beside.max(LEAST_TOGETHER) };
        let frozen = (1.0 - beside / self.others.len().max(1) as f64).max(0.0);
        if frozen < LEAST_FROZEN {
            return BTreeMap::new();
        }
        self.others.iter().map(|id| (id.clone(), frozen)).collect()
    }

    /// Returns the job with the largest share; the current one unless another share is clearly larger.
    fn choose<'a>(&self, gpu_jobs: &'a [GpuJob]) -> Option<&'a GpuJob> {
        let largest = gpu_jobs.iter().reduce(|best, next| if next.share > best.share { next } else { best })?;
        let current = gpu_jobs.iter().find(|gpu_job| Some(&gpu_job.id) == self.favoured.as_ref());
        let kept = current.filter(|current| largest.share < CLEARLY * current.share);
        (gpu_jobs.len() > 1).then(|| kept.unwrap_or(largest))
    }

    /// Whether the last two reports were less than [`SILENT`] apart. After a rare one the others would be frozen although no speed follows.
    fn is_frequent(&mut self, progress: Progress) -> bool {
        if self.reported.is_none_or(|before| before.current != progress.current) {
            let before = self.reported.replace(progress);
            self.reports_often = before.is_some_and(|before| progress.at.since(before.at) < SILENT);
        }
        self.reports_often
    }

    /// Whether this step is one of those in which the speed alone is measured.
    fn is_to_be_alone(&self) -> bool {
        self.steps % CYCLE < STEPS_ALONE
    }

    /// Returns the units per second since the last measurement, once enough time has passed; `None` also if the speed is invalid.
    fn speed(&mut self, progress: Progress) -> Option<f64> {
        let Some(before) = self.measured else {
            self.measured = Some(progress);
            return None;
        };
        let passed = progress.at.since(before.at);
        if passed < STEP {
            return None;
        }
        self.measured = Some(progress);
        let speed = (progress.current - before.current) / passed.as_secs_f64();
        // Otherwise the counter of another epoch began, or the job waits: neither shows its speed.
        (speed.is_finite() && speed > 0.0).then_some(speed)
    }

    fn learn(&mut self, speed: f64) {
        let is_alone = self.is_to_be_alone();
        let before = self.beside.max(LEAST_TOGETHER);
        self.steps += 1;
        // While the others hardly run, its speed counts as alone.
        if is_alone || before <= LEAST_TOGETHER || speed > FASTER * self.alone {
            self.times_alone += 1;
            let weight = (1.0 / f64::from(self.times_alone)).max(WEIGHT);
            self.alone += weight * (speed - self.alone);
        }
        if is_alone {
            return;
        }
        let more = (speed / self.alone - KEEPS).min(MORE_AT_MOST);
        let least = (before / 2.0).max(LEAST_TOGETHER);
        self.beside = (before + more).max(least).min(self.others.len() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProgressUnit;
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
        let then_rarely =
            |second: u64| if second < 300 { (second, second) } else { (second / 90, second - second % 90) };
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
        let slower =
            |second: u64| if second < 100 { 10.0 * second as f64 } else { 1000.0 + 5.0 * (second - 100) as f64 };
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
            let mut favour = Favour::default();
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
                prop_assert!(counter.is_some() && age < 60 || frozen.is_empty());
            }
        }
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
}
