//! Judges the health of a running job from its progress, its metric, its usage and its limits.
//!
//! A [`HealthMeter`] takes each observation of one job and answers with its [`Health`]: one condition of a closed set, with the evidence.
//! Of several conditions that hold, the worst is the answer.
//!
//! ```text
//! NaN             two values in a row are not finite (three, if none ever was)
//! diverging       two values in a row are worse than all before by nearly the whole range of these or more
//! stalled         no progress for much longer than its own rhythm, and not for want of CPU        rhythm
//! memory          the working set reaches its limit within two minutes                            memory
//! late            the deadline has passed, or is out of reach with the whole node
//! overfitting     on held-out data, the mean of the last five values is worse than the best one, beyond the noise
//! GPU waits       the GPU is mostly idle for a minute, while the job uses all the CPU that it gets
//! ```
//!
//! ## Properties
//!
//! - Missing data is never trouble: without a rhythm nothing is stalled, without a limit no memory is short, and a metric that was read with
//!   less than [`LEAST_CONFIDENCE`] is neither NaN nor diverging nor overfitting.
//! - A job that the policy starves is not stalled: its rhythm is measured in CPU time as well, and it counts as asleep only if it leaves the
//!   CPU that it is due.
//! - Nothing flaps: what begins at one threshold ends at a lower one.
//!
//! Pure: the same observations give the same answers.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod memory;
#[cfg(test)]
mod replay;
#[cfg(test)]
#[path = "replay/tests.rs"]
mod replay_tests;
mod rhythm;
#[cfg(test)]
mod tests;

use memory::MemoryTrend;
use model::{Condition, ContainerObservation, CpuTime, Evidence, Health, Millis, Phase, RunState, WorkForecast};
use rhythm::Rhythm;
use serde::{Deserialize, Serialize};

/// A metric that is read with less confidence says nothing about health.
pub const LEAST_CONFIDENCE: f64 = 0.5;

/// Values in a row that are not finite, before a job counts as NaN; and of one that never printed a finite value, such as a mean over no
/// episode yet.
const NAN_VALUES: u64 = 2;
const NAN_VALUES_FROM_THE_START: u64 = 3;

/// A single value that is not finite suffices if nothing was printed after it for so long.
const LAST_WORD: Millis = Millis::from_secs(120);

/// Overfitting begins with a decline of this many standard errors and this part of the range, and ends below the second number of errors.
const OVERFITTING_ERRORS: f64 = 4.0;
const OVERFITTING_RANGE: f64 = 0.015;
const RECOVERED_ERRORS: f64 = 2.0;

/// Values in a row far worse than all before, before a job counts as diverging.
const EXPLODED_VALUES: u64 = 2;

/// Evaluations after the best ones, before a decline counts.
const OVERFITTING_EVALUATIONS: u64 = 4;

/// After its last unit a job is done once it was silent for so long, or uses fewer cores.
const AT_REST: Millis = Millis::from_secs(10);
const IDLE_CORES: f64 = 0.05;

/// A GPU is idle for want of CPU below the first part of its time, until the second; and only if this lasts.
const GPU_IDLE: f64 = 0.5;
const GPU_BUSY: f64 = 0.7;
const GPU_IDLE_FOR: Millis = Millis::from_secs(60);

/// A job uses all of its CPU if it uses this part of it.
const ALL_CPU: f64 = 0.9;

/// What else is known about a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prospects {
    /// Cores that it gets at least, if it wants them; `None` = unknown.
    pub due_cores: Option<f64>,
    /// Cores that it could use if it were alone.
    pub most_cores: f64,
    /// The work that it has left, by the policy's last forecast.
    pub forecast: Option<WorkForecast>,
}

/// Judges one job, observation by observation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HealthMeter {
    health: Option<Health>,
    rhythm: Rhythm,
    memory: MemoryTrend,
    /// Time and CPU of an earlier observation.
    last: Option<(Millis, CpuTime)>,
    /// Cores used from there to the next one.
    cores: Option<f64>,
    /// Since when its GPU seems to wait.
    gpu_idle_since: Option<Millis>,
}

impl HealthMeter {
    /// Takes the observation of the job at `now` and returns its health.
    pub fn look(&mut self, now: Millis, job: &ContainerObservation, prospects: &Prospects) -> Health {
        let cores = self.cores_used(now, job);
        let runs = job.state == RunState::Running;
        self.rhythm.look(now, job, prospects.due_cores);
        self.memory.look(now, job);
        let (condition, confidence, evidence, since) = [
            not_a_number(now, job),
            diverging(job),
            self.stalled(now, job).filter(|_| runs),
            self.short_of_memory(job),
            late(now, job, prospects),
            self.overfitting(job),
            self.starving_gpu(now, job, prospects, cores).filter(|_| runs),
        ]
        .into_iter()
        .flatten()
        .max_by_key(|(condition, ..)| *condition)
        .unwrap_or_else(|| well(now, job, cores));
        let before = self.health.filter(|health| health.condition == condition);
        let since = before.map_or(since.unwrap_or(now), |health| health.since);
        *self.health.insert(Health { condition, since, confidence, evidence })
    }

    fn is(&self, condition: Condition) -> bool {
        self.health.is_some_and(|health| health.condition == condition)
    }

    /// Cores used recently.
    fn cores_used(&mut self, now: Millis, job: &ContainerObservation) -> Option<f64> {
        let cpu = job.usage.cpu?;
        let seconds = self.last.map_or(0.0, |(at, _)| now.since(at).as_secs_f64());
        if let Some((_, before)) = self.last.filter(|_| seconds > 0.0) {
            self.cores = Some(cpu.since(before).as_secs_f64() / seconds);
        }
        if seconds > 0.0 || self.last.is_none() {
            self.last = Some((now, cpu));
        }
        self.cores
    }

    fn stalled(&self, now: Millis, job: &ContainerObservation) -> Option<Finding> {
        if is_done(job) {
            return None;
        }
        let silence = self.rhythm.silence(now, job)?;
        let evidence = Evidence::Silence { quiet: silence.quiet, usual: silence.usual, activity: silence.activity };
        Some((Condition::Stalled, 0.9, evidence, Some(silence.since)))
    }

    fn short_of_memory(&self, job: &ContainerObservation) -> Option<Finding> {
        let (used, limit) = (job.usage.working_set?, job.memory_limit?);
        let seconds = self.memory.seconds_to(limit, self.is(Condition::ShortOfMemory))?;
        Some((Condition::ShortOfMemory, 0.8, Evidence::Memory { used, limit, seconds }, None))
    }

    fn overfitting(&self, job: &ContainerObservation) -> Option<Finding> {
        let learning = &job.learning;
        let decline = learning.decline.filter(|_| learning.is_held_out && is_read(job))?;
        let has_begun = decline.errors >= OVERFITTING_ERRORS
            && decline.of_range >= OVERFITTING_RANGE
            && decline.evaluations >= OVERFITTING_EVALUATIONS;
        let goes_on = self.is(Condition::Overfitting) && decline.errors >= RECOVERED_ERRORS;
        let evidence = Evidence::Worse { best: decline.best, units: decline.units, evaluations: decline.evaluations };
        (has_begun || goes_on).then_some((Condition::Overfitting, 0.8 * learning.confidence, evidence, None))
    }

    fn starving_gpu(
        &mut self,
        now: Millis,
        job: &ContainerObservation,
        prospects: &Prospects,
        cores: Option<f64>,
    ) -> Option<Finding> {
        let was_found = self.is(Condition::StarvingGpu);
        let busy = model::GpuUse::sum(&job.gpus).0.map(|sum| sum / job.gpus.len() as f64);
        let due = prospects.due_cores.filter(|due| *due < ALL_CPU * prospects.most_cores);
        let seems = busy.zip(cores).zip(due).filter(|((busy, cores), due)| {
            *busy < if was_found { GPU_BUSY } else { GPU_IDLE } && *cores >= ALL_CPU * due
        });
        let Some(((busy, cores), _)) = seems else {
            self.gpu_idle_since = None;
            return None;
        };
        let since = *self.gpu_idle_since.get_or_insert(now);
        let lasts = now.since(since) >= GPU_IDLE_FOR || was_found;
        lasts.then_some((Condition::StarvingGpu, 0.6, Evidence::Gpu { busy, cores, loaders: None }, Some(since)))
    }
}

/// A condition with its confidence and evidence, and since when it holds, if that is earlier than now.
type Finding = (Condition, f64, Evidence, Option<Millis>);

fn is_read(job: &ContainerObservation) -> bool {
    job.learning.confidence >= LEAST_CONFIDENCE
}

/// Whether its log says that all units are done. That may be the count of something else, which goes on.
fn is_done(job: &ContainerObservation) -> bool {
    let progress = job.learning.progress;
    progress.is_some_and(|progress| progress.total.is_some_and(|total| total > 0.0 && progress.current >= total))
}

/// Whether it has printed nothing for a while, or hardly uses the CPU.
fn is_at_rest(now: Millis, job: &ContainerObservation, cores: Option<f64>) -> bool {
    let printed = job.learning.progress.map(|progress| progress.at).max(job.learning.log_grew);
    printed.is_some_and(|printed| now.since(printed) >= AT_REST) || cores.is_some_and(|cores| cores < IDLE_CORES)
}

fn not_a_number(now: Millis, job: &ContainerObservation) -> Option<Finding> {
    let learning = &job.learning;
    let run = learning.not_finite.filter(|_| is_read(job))?;
    let needed = if run.values < learning.evaluations { NAN_VALUES } else { NAN_VALUES_FROM_THE_START };
    let is_last_word = run.values < learning.evaluations && now.since(run.since) >= LAST_WORD;
    let evidence = Evidence::NotFinite { values: run.values, units: run.units };
    (run.values >= needed || is_last_word).then_some((Condition::Nan, learning.confidence, evidence, Some(run.since)))
}

fn diverging(job: &ContainerObservation) -> Option<Finding> {
    let learning = &job.learning;
    let run = learning.exploded.filter(|run| is_read(job) && run.values >= EXPLODED_VALUES)?;
    let evidence = Evidence::Exploded { values: run.values, units: run.units };
    Some((Condition::Diverging, 0.8 * learning.confidence, evidence, Some(run.since)))
}

fn late(now: Millis, job: &ContainerObservation, prospects: &Prospects) -> Option<Finding> {
    let deadline = job.deadline.filter(|_| !is_done(job))?;
    let ago = now.since(deadline).as_secs_f64();
    if ago > 0.0 {
        return Some((Condition::Late, 1.0, Evidence::Deadline { late_s: ago, has_passed: true }, Some(deadline)));
    }
    let left = deadline.since(now).as_secs_f64();
    job.learning.units_to_completion?;
    let soonest = prospects.forecast?.to_end.low / prospects.most_cores;
    let late_s = soonest - left;
    let evidence = Evidence::Deadline { late_s, has_passed: false };
    (late_s.is_finite() && late_s > 0.0).then_some((Condition::Late, 0.8, evidence, None))
}

fn well(now: Millis, job: &ContainerObservation, cores: Option<f64>) -> Finding {
    let learning = &job.learning;
    let phase = learning.curve.filter(|_| is_read(job)).map_or(Phase::Unknown, |curve| curve.phase);
    let has_progress = learning.progress.is_some_and(|progress| progress.current > 0.0);
    let condition = match phase {
        _ if is_done(job) && is_at_rest(now, job, cores) => Condition::Done,
        Phase::Plateau => Condition::Plateau,
        Phase::Improving | Phase::Diverging => Condition::Learning,
        Phase::Unknown if has_progress || learning.evaluations > 0 => Condition::Learning,
        Phase::Unknown => Condition::Starting,
    };
    (condition, learning.confidence.max(0.5), Evidence::Nothing, None)
}
