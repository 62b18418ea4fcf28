//! Jobs that share one GPU: who is favoured there, and for which part of the time the others may go on beside it.
//!
//! A GPU gives each process that has work a turn, and what a turn costs the others nobody can say beforehand. So it is tried, as TGS does
//! (Wu et al., NSDI 2023): while the others hardly run, the favoured one shows its speed alone; then they get a little more at each step
//! in which it keeps that speed, and half as much when it does not.
//!
//! Properties: while the favoured one's speed cannot be measured nobody is frozen; the others go on for [`LEAST_TOGETHER`] of the time at
//! least; the favoured one is never frozen. A favoured one that becomes slower by itself is measured anew. Imports: model.

use crate::model::{ContainerId, Millis, Progress};
use std::collections::BTreeMap;

/// Part of its speed alone that the favoured one is to keep.
const KEEPS: f64 = 0.98;
/// What the others get more, of the time, at each step in which it does.
const MORE: f64 = 0.02;
/// The others go on for at least this part of the time, together. What each has queued is done in any case: less would hardly help.
const LEAST_TOGETHER: f64 = 0.03;
/// Speed is measured over so much time at least.
const STEP: Millis = Millis::from_secs(4);
/// Without progress for so long, or without a speed that makes sense, the favoured one's speed is unknown.
const SILENT: Millis = Millis::from_secs(60);
/// Its speed alone is measured over so many steps.
const STEPS_ALONE: u32 = 2;
/// A job becomes the favoured one when its share is by so much larger.
const CLEARLY: f64 = 1.25;

/// A job that uses the GPU, and may be frozen.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuJob {
    /// Which.
    pub id: ContainerId,
    /// The part of the GPU that the policy gives it, or of the node: the largest is favoured.
    pub share: f64,
    /// How far it is.
    pub progress: Option<Progress>,
}

/// What is known of one GPU whose time several want.
#[derive(Clone, Debug, Default)]
pub struct Favour {
    favoured: Option<ContainerId>,
    others: Vec<ContainerId>,
    measured: Option<Progress>,
    /// When a speed was last measured, or measuring began.
    speed_known_at: Option<Millis>,
    /// Steps so far, and the speed alone in units a second.
    steps: u32,
    alone: f64,
    /// Part of the time in which the others may go on, together.
    beside: f64,
}

impl Favour {
    /// For which part of the time each is to be frozen from now on, 0 .. 1; who is not in the answer is not to be.
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
            // While it is unknown all go on: that is not the speed alone.
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

    /// The one with the largest share; the present one as long as no other's is clearly larger.
    fn choose<'a>(&self, gpu_jobs: &'a [GpuJob]) -> Option<&'a GpuJob> {
        let largest = gpu_jobs.iter().reduce(|best, next| if next.share > best.share { next } else { best })?;
        let present = gpu_jobs.iter().find(|gpu_job| Some(&gpu_job.id) == self.favoured.as_ref());
        let stays = present.filter(|present| largest.share < CLEARLY * present.share);
        (gpu_jobs.len() > 1).then(|| stays.unwrap_or(largest))
    }

    /// Units a second since the last measurement, once there is enough time between; `None` also where they make no sense.
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
        // Else another epoch's counter began, or it waits: that says nothing.
        (speed.is_finite() && speed > 0.0).then_some(speed)
    }

    fn learn(&mut self, speed: f64) {
        self.steps += 1;
        // Beside others it is as fast as alone at best; a little more than that is chance. While they hardly run it is as if alone.
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

    /// Two jobs on one GPU for some seconds: how often the favoured one has had 95 % of its speed alone, and the others' part of the time
    /// in the end. `slows`: part of its speed that the favoured one loses when the other runs all of the time.
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
    fn the_favoured_one_keeps_its_speed_and_the_other_gets_what_does_not_cost_it() {
        let (kept, beside) = run(600, 0.2);
        assert!(kept > 0.9, "{kept}");
        assert!((2.0 * LEAST_TOGETHER..0.35).contains(&beside), "{beside}");
        let (_, beside) = run(600, 0.0);
        assert!(beside > 0.99, "who costs nothing is not frozen: {beside}");
    }

    #[test]
    fn without_progress_of_the_favoured_one_nobody_is_frozen() {
        let mut favour = Favour::default();
        let silent = |now| [GpuJob { progress: None, ..gpu_job("a", 0.8, 0.0, now) }, gpu_job("b", 0.2, 0.0, now)];
        assert!(favour.step(&silent(Millis::from_secs(1)), Millis::from_secs(1)).is_empty());
        let stale = [gpu_job("a", 0.8, 5.0, Millis(0)), gpu_job("b", 0.2, 0.0, Millis(0))];
        assert!(!favour.step(&stale, Millis::from_secs(1)).is_empty());
        assert!(favour.step(&stale, Millis::from_secs(61)).is_empty());
    }

    /// Part of the time in which `b` may go on after each second, beside a favoured job whose counter shows this.
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
    fn who_prints_but_does_not_get_on_has_nobody_frozen_for_long() {
        let counters: [fn(u64) -> f64; 4] = [|_| 7.0, |_| f64::NAN, |_| f64::INFINITY, |second| -(second as f64)];
        for counter in counters {
            let beside = beside(counter, 600);
            assert!(beside[..30].iter().all(|part| *part < 0.1));
            assert!(beside[61..].iter().all(|part| *part == 1.0), "{:?}", &beside[61..]);
        }
    }

    #[test]
    fn a_counter_that_stands_still_for_a_while_is_measured_again_afterwards() {
        let standing = |second: u64| if second < 200 { 5.0 } else { second as f64 };
        let beside = beside(standing, 600);
        assert_eq!(beside[199], 1.0);
        assert!(beside[200..230].iter().any(|part| *part < 0.1), "its speed alone is tried again");
    }

    #[test]
    fn a_favoured_job_that_becomes_slower_by_itself_does_not_starve_the_others() {
        let slower =
            |second: u64| if second < 100 { 10.0 * second as f64 } else { 1000.0 + 5.0 * (second - 100) as f64 };
        let beside = beside(slower, 1000);
        assert!(beside[110..200].iter().any(|part| *part < 0.1), "at first it could be the others' doing");
        assert!(beside[999] > 0.9, "{}", beside[999]);
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_favoured_one_is_not_frozen_and_the_others_go_on(
            counters in prop::collection::vec((prop::option::of(prop::num::f64::ANY), 0_u64..90), 1..200),
            shares in prop::collection::vec(0.0_f64..1.0, 2..5),
        ) {
            let mut favour = Favour::default();
            for (second, (counter, age)) in (0_u64..).zip(counters) {
                let now = Millis::from_secs(second + 100);
                let at = Millis::from_secs(second + 100 - age);
                let job = |(number, share): (usize, &f64)| {
                    let told = gpu_job(&number.to_string(), *share, counter.unwrap_or(0.0), at);
                    GpuJob { progress: counter.and(told.progress), ..told }
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
    fn one_alone_is_not_frozen_and_the_favoured_one_changes_only_for_a_clearly_larger_share() {
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
