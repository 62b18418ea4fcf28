//! A simulated training job with all randomness drawn, so that every policy runs the same job.

use super::curve::LearningCurve;
use super::fault::{Fault, FaultKind, HANGS_S, Hang, LOST_BY_OVERFITTING};
use super::random::Stream;
use model::{Bounds, Bytes, ClaimOrigin, CpuWeight, Direction, Numbers, ProgressUnit, Trial};
use traininglog::Tracker;
use traininglog::claim::Claim;

/// The quality to be reached, as a part of the final improvement of the true curve.
pub const QUALITY: f64 = 0.95;

/// Confidence in a claim from an option of that name.
const CLAIM_CONFIDENCE: f64 = 0.9;

/// Contents and delay of a job's log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reports {
    /// The evaluation function is printed.
    pub metric: bool,
    /// The progress counter `i` is printed.
    pub progress: bool,
    /// The counter's total is printed: `i of N`.
    pub total: bool,
    /// Factor of the printed total on the true one.
    pub total_factor: f64,
    /// Where the log has no total: factor on the true total in the claim of the job's command.
    pub claimed: Option<f64>,
    /// Seconds between the print and the reader, by buffering.
    pub delay_s: f64,
    /// The unit of the progress counter.
    pub unit: ProgressUnit,
    /// The governor knows the deadline, as with the label `flowcon.deadline`.
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

/// Regular waits without CPU, as for reading data or writing a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Core-seconds of work between two waits.
    pub every: f64,
    /// Length of each wait in seconds.
    pub seconds: f64,
}

/// Kernels that alternate with CPU work: the next one is queued when the last is done and its batch is ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuLoad {
    /// Index of the GPU on the node.
    pub device: usize,
    /// Core-seconds of work between two kernels.
    pub every: f64,
    /// GPU-seconds of a kernel.
    pub kernel_s: f64,
}

/// A sweep: one training with several parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPlan {
    /// Distinguishes the sweeps of a schedule.
    pub name: String,
    /// The direction in which the metric improves, which a trial that gets worse does not show.
    pub direction: Direction,
}

/// A job before its noise is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Name in tables.
    pub name: String,
    /// Start time, in seconds of the schedule.
    pub start_s: f64,
    /// Core-seconds of training.
    pub work: f64,
    /// Core-seconds before the training, without output: imports, compiling.
    pub startup_work: f64,
    /// Number of cores that it can use at once.
    pub parallelism: f64,
    /// What each unit costs more for each equal job beside it, as a part of its cost alone: its threads wait for each other, spinning
    /// (`scenario/threads.rs`).
    pub waste: f64,
    /// Processors that it may run on; `None` = all.
    pub cpus: Option<Numbers>,
    /// Its parent cgroup; all parents have the same weight.
    pub parent: Option<String>,
    /// The original `cpu.weight`.
    pub cpu_weight: CpuWeight,
    /// The user to whom it belongs.
    pub user: Option<String>,
    /// The owner's weight.
    pub weight: f64,
    /// The owner's bounds.
    pub bounds: Bounds,
    /// Seconds after its start by which it should be complete.
    pub deadline_s: Option<f64>,
    /// Working set.
    pub memory: Bytes,
    /// Seconds at the start without CPU and without output: loading.
    pub startup_s: f64,
    /// Regular waits.
    pub waits: Option<Waits>,
    /// Its load on a GPU.
    pub gpu: Option<GpuLoad>,
    /// Number of progress units (epochs, steps) in the whole work; a line is printed at the end of each.
    pub units: usize,
    /// Standard deviation of one unit's work, as a part of the mean.
    pub unit_spread: f64,
    /// The true curve.
    pub curve: LearningCurve,
    /// The curve that the log shows, where it is not the true one.
    pub shown: Option<LearningCurve>,
    /// The curve of an earlier run of the same training that the governor observed to its end.
    pub before: Option<LearningCurve>,
    /// The sweep of which it is a trial.
    pub sweep: Option<SweepPlan>,
    /// What goes wrong with it.
    pub fault: Option<Fault>,
    /// Contents of its log.
    pub reports: Reports,
}

impl JobPlan {
    /// A job that uses all cores: its start in seconds, and its work in seconds of all cores.
    pub(super) fn on_all_cores(
        name: &str,
        cores: f64,
        (start_s, size_node_s): (f64, f64),
        units: usize,
        curve: LearningCurve,
    ) -> JobPlan {
        JobPlan {
            name: name.to_owned(),
            start_s,
            work: size_node_s * cores,
            parallelism: cores,
            waste: 0.0,
            cpus: None,
            parent: None,
            cpu_weight: CpuWeight::DEFAULT,
            user: None,
            weight: 1.0,
            bounds: Bounds::default(),
            deadline_s: Some(4.0 * size_node_s),
            memory: Bytes(1 << 30),
            startup_work: 0.0,
            startup_s: 0.0,
            waits: None,
            gpu: None,
            units,
            unit_spread: 0.03,
            curve,
            shown: None,
            before: None,
            fault: None,
            sweep: None,
            reports: Reports::default(),
        }
    }

    /// The deadline in seconds after the start, if the governor knows it.
    pub fn known_deadline_s(&self) -> Option<f64> {
        self.deadline_s.filter(|_| self.reports.deadline)
    }

    /// The direction in which the metric of its log improves.
    pub fn direction(&self) -> Direction {
        let shown = || self.shown.as_ref().unwrap_or(&self.curve).direction();
        self.sweep.as_ref().map_or_else(shown, |sweep| sweep.direction)
    }

    /// The total that its command claims.
    pub(super) fn claim(&self) -> Option<Claim> {
        let total = (self.units as f64 * self.reports.claimed?).round().max(1.0);
        let (key, origin) = ("--epochs".to_owned(), ClaimOrigin::Command);
        Some(Claim { total, unit: Some(self.reports.unit), near: false, key, origin, confidence: CLAIM_CONFIDENCE })
    }

    /// What is known of it as a trial of a sweep.
    pub(super) fn trial(&self, tracker: &Tracker) -> Option<Trial> {
        let group = self.sweep.as_ref()?.name.as_str().into();
        Some(Trial::new(group, tracker.curve()))
    }

    /// Makes it a job on cores that are `times` as fast.
    pub(super) fn speed_up(&mut self, times: f64) {
        self.work /= times;
        self.startup_work /= times;
        if let Some(waits) = &mut self.waits {
            waits.every /= times;
        }
        if let Some(gpu) = &mut self.gpu {
            gpu.every /= times;
        }
    }
}

/// A job with its noise drawn.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its plan.
    pub plan: JobPlan,
    /// Core-seconds done at the end of each unit; the last is the whole work, unless it crashes before.
    pub marks: Vec<f64>,
    /// The value printed at the end of each unit.
    pub printed: Vec<f64>,
    /// The values that the earlier run printed, if there was one.
    pub printed_before: Option<Vec<f64>>,
    /// Core-seconds to [`QUALITY`] of the true final improvement.
    pub quality_work: f64,
    /// A wait by which it seems to hang.
    pub hang: Option<Hang>,
}

impl Job {
    /// Draws the noise of a job.
    pub fn draw(plan: JobPlan, draws: &mut Stream) -> Job {
        let marks = unit_ends(&plan, draws);
        let shown = plan.shown.as_ref().unwrap_or(&plan.curve);
        let trained = |done: &f64| (done - plan.startup_work) / plan.work;
        let mut print = |curve: &LearningCurve| marks.iter().map(|done| curve.printed(trained(done), draws)).collect();
        let (printed, printed_before) = (print(shown), plan.before.as_ref().map(print));
        let quality_work = plan.startup_work + plan.curve.work_to(QUALITY) * plan.work;
        let fault = plan.fault;
        let mut job = Job { plan, marks, printed, printed_before, quality_work, hang: None };
        if let Some(fault) = fault {
            job.break_by(fault);
        }
        job
    }

    /// Lets a fault change what it prints and does.
    fn break_by(&mut self, fault: Fault) {
        let units = self.marks.len();
        let good = ((fault.after * units as f64) as usize).clamp(1, units);
        let shown = self.plan.shown.as_ref().unwrap_or(&self.plan.curve);
        let range = (shown.to - shown.from).abs();
        let worse = if shown.direction() == Direction::Down { range } else { -range };
        let last = self.printed[good - 1];
        let later = self.printed[good..].iter_mut().zip(1..);
        match fault.kind {
            FaultKind::Nan => later.for_each(|(value, _)| *value = f64::NAN),
            FaultKind::Explodes => later.for_each(|(value, number)| *value = last + worse * 2f64.powi(number)),
            FaultKind::Hangs => self.hang = Some(Hang { at: self.marks[good - 1], seconds: HANGS_S }),
            FaultKind::Crashes => {
                self.marks.truncate(good);
                self.printed.truncate(good);
            }
            FaultKind::Overfits => {
                let each = LOST_BY_OVERFITTING * worse / (units - good) as f64;
                later.for_each(|(value, number)| *value += each * f64::from(number));
            }
        }
    }

    /// Core-seconds of the start and the training.
    pub fn whole_work(&self) -> f64 {
        self.plan.startup_work + self.plan.work
    }

    /// The total that its log prints, if it prints one.
    pub fn printed_total(&self) -> Option<f64> {
        let reports = &self.plan.reports;
        (reports.progress && reports.total).then(|| (self.plan.units as f64 * reports.total_factor).round().max(1.0))
    }
}

/// Cumulative work at the end of each unit, after the start: spread around the mean, adding up to the whole.
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
