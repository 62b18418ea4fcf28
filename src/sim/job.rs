//! One simulated training job, fully drawn: nothing about it is random any more, so every policy meets the same job.
//!
//! Imports: model.

use super::curve::LearningCurve;
use super::random::Stream;
use crate::model::{Bounds, Bytes, CpuWeight, Numbers, ProgressUnit};

/// The quality whose time is measured: this part of the final improvement of the true curve.
pub const QUALITY: f64 = 0.95;

/// What the log tells a reader, and how late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reports {
    /// The evaluation function is printed.
    pub metric: bool,
    /// The progress counter `i` is printed.
    pub progress: bool,
    /// The counter's total is printed: `i of N`.
    pub total: bool,
    /// The printed total is the true one times this.
    pub total_factor: f64,
    /// Its command says the total, times this, where the log does not.
    pub claimed: Option<f64>,
    /// Seconds from the print to the reader: buffering.
    pub delay_s: f64,
    /// What one count is.
    pub unit: ProgressUnit,
    /// The deadline is told, as the label `flowcon.deadline` does.
    pub deadline: bool,
}

impl Default for Reports {
    fn default() -> Self {
        Reports {
            metric: true,
            progress: true,
            total: true,
            total_factor: 1.0,
            claimed: None,
            delay_s: 0.0,
            unit: ProgressUnit::Epoch,
            deadline: false,
        }
    }
}

/// Regular waits without CPU: reading data, writing a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Core-seconds of work between two waits.
    pub every: f64,
    /// Seconds of each wait.
    pub seconds: f64,
}

/// Kernels that alternate with the work on the cores: the next one is queued when the last is done and its batch is made ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuLoad {
    /// Which of the node's GPUs.
    pub device: usize,
    /// Core-seconds of work between two kernels.
    pub every: f64,
    /// GPU-seconds of what is queued at once.
    pub kernel_s: f64,
}

/// What a job is, before its noise is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Name in every table.
    pub name: String,
    /// When it starts, in seconds of the schedule.
    pub start_s: f64,
    /// Core-seconds of training.
    pub work: f64,
    /// Core-seconds before the training, without a print: imports, compiling.
    pub startup_work: f64,
    /// Cores that it can use at once.
    pub parallelism: f64,
    /// Processors that it may run on; `None` = all.
    pub cpus: Option<Numbers>,
    /// The cgroup that it is below; all of them have the same weight.
    pub parent: Option<String>,
    /// `cpu.weight` with which it was started.
    pub cpu_weight: CpuWeight,
    /// The owner's weight.
    pub weight: f64,
    /// The owner's bounds.
    pub bounds: Bounds,
    /// Seconds after its start by which it should be done.
    pub deadline_s: Option<f64>,
    /// Working set.
    pub memory: Bytes,
    /// Seconds at the start without CPU and without a print: loading.
    pub startup_s: f64,
    /// Regular waits.
    pub waits: Option<Waits>,
    /// What it does on a GPU.
    pub gpu: Option<GpuLoad>,
    /// Progress units (epochs, steps) in the whole work; a line is printed at the end of each.
    pub units: usize,
    /// Standard deviation of one unit's work, as a part of the mean.
    pub unit_spread: f64,
    /// The true curve.
    pub curve: LearningCurve,
    /// The curve that the log shows, where it is not the true one.
    pub shown: Option<LearningCurve>,
    /// The curve that an earlier run of the same training showed to its end, while the governor looked on.
    pub before: Option<LearningCurve>,
    /// What the log tells.
    pub reports: Reports,
}

impl JobPlan {
    /// The deadline, where the governor may know it: seconds after the start.
    pub fn told_deadline_s(&self) -> Option<f64> {
        self.deadline_s.filter(|_| self.reports.deadline)
    }
}

/// A job with its noise drawn.
#[derive(Clone, Debug)]
pub struct Job {
    /// What it is.
    pub plan: JobPlan,
    /// Core-seconds done at the end of each unit; the last is the whole work.
    pub marks: Vec<f64>,
    /// The value printed at the end of each unit.
    pub printed: Vec<f64>,
    /// The same of the earlier run, if there was one.
    pub printed_before: Option<Vec<f64>>,
    /// Core-seconds to [`QUALITY`] of the true final improvement.
    pub quality_work: f64,
}

impl Job {
    /// Draws the noise.
    pub fn draw(plan: JobPlan, draws: &mut Stream) -> Job {
        let marks = unit_ends(&plan, draws);
        let shown = plan.shown.as_ref().unwrap_or(&plan.curve);
        let trained = |done: &f64| (done - plan.startup_work) / plan.work;
        let mut print = |curve: &LearningCurve| marks.iter().map(|done| curve.printed(trained(done), draws)).collect();
        let (printed, printed_before) = (print(shown), plan.before.as_ref().map(print));
        let quality_work = plan.startup_work + plan.curve.work_to(QUALITY) * plan.work;
        Job { plan, marks, printed, printed_before, quality_work }
    }

    /// Core-seconds of all that it does.
    pub fn whole_work(&self) -> f64 {
        self.plan.startup_work + self.plan.work
    }

    /// The total that its log prints, if it prints one.
    pub fn printed_total(&self) -> Option<f64> {
        let reports = &self.plan.reports;
        (reports.progress && reports.total).then(|| (self.marks.len() as f64 * reports.total_factor).round().max(1.0))
    }
}

/// Cumulative work at the end of each unit, after that of the start: spread around the mean, adding up to the whole.
fn unit_ends(plan: &JobPlan, draws: &mut Stream) -> Vec<f64> {
    let parts: Vec<f64> = (0..plan.units).map(|_| (1.0 + plan.unit_spread * draws.normal()).max(0.1)).collect();
    let scale = plan.work / parts.iter().sum::<f64>();
    let mut done = plan.startup_work;
    let mut ends: Vec<f64> = parts
        .iter()
        .map(|part| {
            done += part * scale;
            done
        })
        .collect();
    if let Some(last) = ends.last_mut() {
        *last = plan.startup_work + plan.work;
    }
    ends
}
