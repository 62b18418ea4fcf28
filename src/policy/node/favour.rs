//! Jobs that share one GPU: which one is favoured, and for which part of the time the others may run beside it.
//!
//! A GPU gives each process with work a turn, and the cost of a turn for the others cannot be predicted. So it is measured, as in TGS (Wu
//! et al., NSDI 2023): while the others hardly run, the favoured job shows its speed alone; then they get a little more time at each step
//! in which it keeps that speed, and half as much when it does not.
//!
//! Properties: while the favoured job's speed is unknown no job is frozen; the others run for at least [`LEAST_TOGETHER`] of the time; the
//! favoured job is never frozen. If its speed drops for another reason, its speed alone is measured again. Imports: model.

use crate::model::{ContainerId, Millis, Progress};
use std::collections::BTreeMap;

/// The favoured job is to keep this part of its speed alone.
const KEEPS: f64 = 0.98;
/// Additional part of the time for the others, at each step in which it does.
const MORE: f64 = 0.02;
/// The others run for at least this part of the time, together. Work that they have queued runs in any case, so less would hardly help.
const LEAST_TOGETHER: f64 = 0.03;
/// Speed is measured over at least this time.
const STEP: Millis = Millis::from_secs(4);
/// The speed is unknown after this time without progress or without a valid speed.
const SILENT: Millis = Millis::from_secs(60);
/// Number of steps over which the speed alone is measured.
const STEPS_ALONE: u32 = 2;
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
    measured: Option<Progress>,
    /// Time of the last measured speed, or of the start of measuring.
    speed_known_at: Option<Millis>,
    /// Number of measured steps, and the speed alone in units per second.
    steps: u32,
    alone: f64,
    /// Part of the time in which the others may run, together.
    beside: f64,
}

impl Favour {
    /// Returns the part of the time, 0 .. 1, for which each job is to be frozen from now on; a job that is not listed is not frozen.
    pub fn step(&mut self, gpu_jobs: &[GpuJob], now: Millis) -> BTreeMap<ContainerId, f64> {
        let Some(favoured) = self.choose(gpu_jobs) else {
            *self = Favour::default();
            return BTreeMap::new();
        };
        let others: Vec<ContainerId> =
            gpu_jobs.iter().map(|other| &other.id).filter(|id| **id != favoured.id).cloned().collect();
        if self.favoured.as_ref() != Some(&favoured.id) || self.others != others {
            *self = Favour { favoured: Some(favoured.id.clone()), others, ..Favour::default() };
        }
        let Some(progress) = favoured.progress.filter(|progress| now.since(progress.at) < SILENT) else {
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
        let each = self.beside.max(LEAST_TOGETHER) / self.others.len().max(1) as f64;
        let frozen = (1.0 - each).max(0.0);
        if frozen < MORE {
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
        self.steps += 1;
        // Beside others it is at best as fast as alone; a little more is noise. While the others hardly run it counts as alone.
        let is_as_alone = self.beside <= LEAST_TOGETHER;
        let weight = if self.steps <= STEPS_ALONE { 1.0 / f64::from(self.steps) } else { 0.1 };
        if is_as_alone || speed > self.alone {
            self.alone += weight * (speed - self.alone);
        }
        if self.steps <= STEPS_ALONE {
            return;
        }
        let keeps = speed >= KEEPS * self.alone;
        self.beside = if keeps { (self.beside + MORE).min(self.others.len() as f64) } else { self.beside / 2.0 };
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

    /// Runs two jobs on one GPU for some seconds. Returns how often the favoured job had 95 % of its speed alone, and the other's part of
    /// the time at the end. `slows`: part of its speed that the favoured job loses when the other runs all the time.
    fn run(seconds: u64, slows: f64) -> (f64, f64) {
        let mut favour = Favour::default();
        let (mut done, mut frozen, mut kept) = (0.0, BTreeMap::new(), 0);
        for second in 0..seconds {
            let now = Millis::from_secs(second);
            let beside = 1.0 - frozen.get(&ContainerId::new("b")).copied().unwrap_or(0.0);
            let speed = 10.0 * (1.0 - slows * beside);
            done += speed;
            kept += u64::from(speed >= 9.5);
            frozen = favour.step(&[gpu_job("a", 0.8, done, now), gpu_job("b", 0.2, 0.0, now)], now);
        }
        (kept as f64 / seconds as f64, 1.0 - frozen.get(&ContainerId::new("b")).copied().unwrap_or(0.0))
    }

    #[test]
    fn the_favoured_job_keeps_its_speed_and_the_other_gets_the_rest() {
        let (kept, beside) = run(600, 0.2);
        assert!(kept > 0.9, "{kept}");
        assert!((2.0 * LEAST_TOGETHER..0.35).contains(&beside), "{beside}");
        let (_, beside) = run(600, 0.0);
        assert!(beside > 0.99, "a job that costs nothing is not frozen: {beside}");
    }

    #[test]
    fn without_progress_of_the_favoured_job_no_job_is_frozen() {
        let mut favour = Favour::default();
        let silent = |now| [GpuJob { progress: None, ..gpu_job("a", 0.8, 0.0, now) }, gpu_job("b", 0.2, 0.0, now)];
        assert!(favour.step(&silent(Millis::from_secs(1)), Millis::from_secs(1)).is_empty());
        let stale = [gpu_job("a", 0.8, 5.0, Millis(0)), gpu_job("b", 0.2, 0.0, Millis(0))];
        assert!(!favour.step(&stale, Millis::from_secs(1)).is_empty());
        assert!(favour.step(&stale, Millis::from_secs(61)).is_empty());
    }

    /// Part of the time in which `b` may run after each second, beside a favoured job with this counter.
    fn beside(counter: impl Fn(u64) -> f64, seconds: u64) -> Vec<f64> {
        let mut favour = Favour::default();
        let mut second = |second: u64| {
            let now = Millis::from_secs(second);
            let jobs = [gpu_job("a", 0.8, counter(second), now), gpu_job("b", 0.2, 0.0, now)];
            1.0 - favour.step(&jobs, now).get(&ContainerId::new("b")).copied().unwrap_or(0.0)
        };
        (0..seconds).map(&mut second).collect()
    }

    #[test]
    fn a_favoured_job_without_advance_freezes_the_others_only_briefly() {
        let counters: [fn(u64) -> f64; 4] = [|_| 7.0, |_| f64::NAN, |_| f64::INFINITY, |second| -(second as f64)];
        for counter in counters {
            let beside = beside(counter, 600);
            assert!(beside[..30].iter().all(|part| *part < 0.1));
            assert!(beside[61..].iter().all(|part| *part == 1.0), "{:?}", &beside[61..]);
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
        let now = Millis::from_secs(1);
        let mut favour = Favour::default();
        let step = |favour: &mut Favour, a: f64, b: f64| -> Vec<String> {
            let frozen = favour.step(&[gpu_job("a", a, 1.0, now), gpu_job("b", b, 1.0, now)], now);
            frozen.keys().map(|id| id.as_str().to_owned()).collect()
        };
        assert!(favour.step(&[gpu_job("a", 1.0, 1.0, now)], now).is_empty());
        assert_eq!(step(&mut favour, 0.6, 0.4), ["b"]);
        assert_eq!(step(&mut favour, 0.48, 0.52), ["b"]);
        assert_eq!(step(&mut favour, 0.4, 0.6), ["a"]);
    }
}
