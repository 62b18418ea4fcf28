//! Jobs that share one GPU: which one is favoured, and for which part of the time the others may run beside it.
//!
//! A GPU gives each process with work a turn, and the cost of a turn for the others cannot be predicted. So it is measured, as in TGS (Wu
//! et al., NSDI 2023): for a few steps the others hardly run, and the favoured job shows its speed alone. Then each step changes their time
//! by the difference between its speed and the part of its speed alone that it is to keep. Both are a few percent, as is the noise of a
//! single speed, so the changes add up to its mean, and noise cancels out. From time to time its speed alone is measured again, because it
//! may have changed for another reason.
//!
//! When the favoured job ends or another one takes its place, the others stay frozen for the new one, if that reported often while it was
//! not frozen: otherwise all would run until it has reported twice again.
//!
//! Properties: while the favoured job's speed is unknown, or it reports its progress too rarely, no job is frozen; the others run for at
//! least [`LEAST_TOGETHER`] of the time; the favoured job is never frozen.

use model::{ContainerId, Millis, Progress};
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

/// The period in which each job has its turn, as a part of the longest freeze that is allowed. Drivers sample which process runs, an H200's
/// five times a second. They would meet a period of 0.5 s at the same five points again and again: one frozen job would seem to use a fifth
/// of the GPU, the next one nothing.
pub const TURN_PERIOD: f64 = 0.97;

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
    /// Since when it is favoured.
    since: Millis,
    others: Vec<ContainerId>,
    reports: BTreeMap<ContainerId, Reports>,
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
    /// Part of the time for which each of the others is frozen.
    frozen: f64,
}

/// The reports of one job.
#[derive(Clone, Copy, Debug)]
struct Reports {
    /// The last one with another counter.
    last: Progress,
    /// Whether the job ran for less than [`SILENT`] between that and the one before.
    is_frequent: bool,
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
            let (favoured, since) = (Some(favoured.id.clone()), if is_same { self.since } else { now });
            *self = Favour { favoured, since, others, reports: std::mem::take(&mut self.reports), ..Favour::default() };
        }
        self.hear(gpu_jobs);
        self.frozen = self.part_frozen(favoured, now).filter(|part| *part >= LEAST_FROZEN).unwrap_or(0.0);
        let others = self.others.iter().filter(|_| self.frozen > 0.0);
        others.map(|id| (id.clone(), self.frozen)).collect()
    }

    /// Returns the part of the time for which each of the others is to be frozen; `None` while the speed of the favoured job is unknown.
    fn part_frozen(&mut self, favoured: &GpuJob, now: Millis) -> Option<f64> {
        let reports_often = self.reports.get(&favoured.id).is_some_and(|reports| reports.is_frequent);
        let heard_at = |progress: &Progress| progress.at.max(self.since);
        let is_heard = |progress: &Progress| reports_often && now.since(heard_at(progress)) < SILENT;
        let Some(progress) = favoured.progress.filter(is_heard) else {
            (self.measured, self.speed_known_at) = (None, None);
            return None;
        };
        let speed = self.speed(progress);
        let is_unknown = now.since(*self.speed_known_at.get_or_insert(now)) >= SILENT;
        match speed {
            // While the speed is unknown all jobs run, so a speed measured then is not the speed alone.
            Some(speed) if !is_unknown => self.learn(speed),
            None if is_unknown => return None,
            _ => {}
        }
        if speed.is_some() {
            self.speed_known_at = Some(now);
        }
        let beside = if self.is_to_be_alone() { LEAST_TOGETHER } else { self.beside.max(LEAST_TOGETHER) };
        Some(1.0 - beside / self.others.len().max(1) as f64)
    }

    /// Returns the job with the largest share; the current one unless another share is clearly larger.
    fn choose<'a>(&self, gpu_jobs: &'a [GpuJob]) -> Option<&'a GpuJob> {
        let largest = gpu_jobs.iter().reduce(|best, next| if next.share > best.share { next } else { best })?;
        let current = gpu_jobs.iter().find(|gpu_job| Some(&gpu_job.id) == self.favoured.as_ref());
        let kept = current.filter(|current| largest.share < CLEARLY * current.share);
        (gpu_jobs.len() > 1).then(|| kept.unwrap_or(largest))
    }

    /// Records the reports of all jobs.
    fn hear(&mut self, gpu_jobs: &[GpuJob]) {
        self.reports.retain(|id, _| gpu_jobs.iter().any(|gpu_job| gpu_job.id == *id));
        for GpuJob { id, progress, .. } in gpu_jobs {
            let Some(progress) = progress else { continue };
            let before = self.reports.get(id).copied();
            if before.is_some_and(|before| before.last.current == progress.current) {
                continue;
            }
            let is_favoured = self.favoured.as_ref() == Some(id);
            // The favoured job may have been frozen before.
            let runs_since = if is_favoured { self.since } else { Millis(0) };
            let part = if is_favoured { 1.0 } else { 1.0 - self.frozen };
            let is_frequent = before.is_some_and(|before| {
                let passed = progress.at.since(before.last.at.max(runs_since));
                part * passed.as_secs_f64() < SILENT.as_secs_f64()
            });
            self.reports.insert(id.clone(), Reports { last: *progress, is_frequent });
        }
    }

    /// Whether this step is one of those in which the speed alone is measured.
    fn is_to_be_alone(&self) -> bool {
        self.steps % CYCLE < STEPS_ALONE
    }

    /// Returns the units per second since the last measurement, once enough time has passed; `None` also if the speed is invalid.
    fn speed(&mut self, progress: Progress) -> Option<f64> {
        let Some(before) = self.measured else {
            // A report from before may be from a time in which the job was frozen.
            self.measured = Some(progress).filter(|progress| progress.at >= self.since);
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
#[path = "favour_tests.rs"]
mod tests;
