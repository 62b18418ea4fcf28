//! Work ahead of a job in CPU-seconds: remaining progress units times CPU per unit. The same code serves GPU time.
//!
//! Reports are printed between ticks and CPU is counted at ticks, so CPU at the time of a report is interpolated. The cost per unit is a
//! decaying mean over the reports, since a second phase may have another cost. Before the second report it is the cost in an earlier run of
//! the same training, or all CPU used so far divided by the reported units. CPU used since the last report is work already done on the next
//! unit.
//!
//! A job that was moved from another node with its state keeps its cost per unit until its second report here: CPU used before the first
//! report belongs to the start, not to a unit.
//!
//! A job that has printed nothing, but whose command claims a total, has done no unit yet: each unit costs at least the CPU used since the
//! end of the start. So it ranks high at first, until its first report or until the claim amounts to long work. The same applies to a job
//! that reports zero units done, as with the heading `Epoch 1/40` or a count from 0: its start ends there.

use model::{ContainerObservation, CpuTime, Millis, Progress};
use serde::{Deserialize, Serialize};

/// Decay of older reports in the mean, per report.
const MEMORY: f64 = 0.85;

/// Typical CPU-seconds of a start: imports, loading, compiling.
const START: f64 = 2.0;

/// CPU-seconds after which the start is a small part of the cost of the first units.
const START_IS_SMALL: f64 = 10.0 * START;

/// At least this part of the CPU used before the first report counts for the first unit.
const FIRST_UNIT: f64 = 0.1;

/// This part of the CPU used from the report of zero units to the next one is the cost of these units. The rest belongs to the start: Keras
/// traces its graph then, and the first epoch of a small LSTM costs twice as much as each later one.
const AFTER_ZERO: f64 = 0.5;

/// CPU time at an instant.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct CpuMark {
    at: Millis,
    cpu: CpuTime,
}

/// A report, and the CPU-seconds used by then.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ReportMark {
    #[serde(default)]
    at: Millis,
    current: f64,
    cpu: f64,
}

/// Units between two reports, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Paid {
    /// Time of the earlier report.
    pub(super) since: Millis,
    /// CPU-seconds.
    pub(super) cpu: f64,
    pub(super) units: f64,
}

/// Measures one container's cost per unit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct WorkMeter {
    tick: Option<CpuMark>,
    report: Option<ReportMark>,
    /// Decaying sums of CPU-seconds and units between reports.
    cpu: f64,
    units: f64,
}

/// Work of a job, in CPU-seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    /// Used since the container started.
    pub(super) done: f64,
    /// Used since the last report, for the next unit.
    since_report: f64,
    /// Cost per unit.
    pub(super) per_unit: f64,
    /// Whether the cost was measured, between two reports or in an earlier run; before that it may include the cost of the start.
    pub(super) is_measured: bool,
    /// The units reported since the last tick.
    pub(super) paid: Option<Paid>,
}

impl Work {
    /// CPU-seconds to `units` more units after the last report. At least a small part of a unit, since the next report is still missing. A
    /// unit that is overdue is expected to take as long again as it is overdue.
    pub(super) fn to(&self, units: f64) -> f64 {
        (units * self.per_unit - self.since_report).max(0.1 * self.per_unit).max(self.late())
    }

    /// Whether the cost per unit is known to others than this node, which ranks a new job by less: it was measured, or the first units that
    /// were reported include little of the start. More units than the total are those of something else, such as a batch.
    pub(super) fn is_known(&self, container: &ContainerObservation) -> bool {
        let progress = container.learning.progress;
        let has_units = progress.is_some_and(|progress| {
            progress.current > 0.0 && progress.total.is_none_or(|total| progress.current <= total)
        });
        self.is_measured || (has_units && self.done >= START_IS_SMALL)
    }

    /// CPU-seconds by which the current unit exceeds its cost.
    pub(super) fn late(&self) -> f64 {
        (self.since_report - self.per_unit).max(0.0)
    }
}

impl WorkMeter {
    /// Takes one tick's observation. `None` while the cost per unit is unknown.
    pub(super) fn measure(&mut self, now: Millis, container: &ContainerObservation) -> Option<Work> {
        self.measure_of(now, container, container.usage.cpu?, container.learning.prior_cost_per_unit)
    }

    /// Like [`Self::measure`], for a resource of which `cpu` has been used; `earlier` is the cost per unit in an earlier run.
    pub(super) fn measure_of(
        &mut self,
        now: Millis,
        container: &ContainerObservation,
        cpu: CpuTime,
        earlier: Option<f64>,
    ) -> Option<Work> {
        let present = CpuMark { at: now, cpu };
        let previous = self.tick.replace(present);
        if previous.is_some_and(|previous| previous.cpu > cpu || previous.at > now) {
            *self = WorkMeter { tick: Some(present), ..WorkMeter::default() };
        }
        let is_carried = container.learning.is_carried;
        let progress = container.learning.progress.filter(|progress| progress.current.is_finite() && !is_carried);
        let paid = progress.and_then(|progress| self.take_report(&progress, previous, present));
        let done = cpu.as_secs_f64();
        let (per_unit, is_measured, reported_at) = match (self.report, earlier) {
            (Some(report), _) if self.units > 0.0 => (self.cpu / self.units, true, report.cpu),
            (Some(report), Some(cost)) => (cost, true, report.cpu),
            (Some(report), None) if report.current > 0.0 => (report.cpu / report.current, false, report.cpu),
            (Some(zero), None) => ((AFTER_ZERO * (done - zero.cpu)).max(FIRST_UNIT * done), false, done),
            (None, Some(cost)) if is_carried => (cost, true, done),
            // With evaluations but without units it is unknown how much of the work belongs to the next unit.
            (None, Some(cost)) if container.learning.evaluations == 0 => (cost, true, 0.0),
            (None, None) if container.learning.evaluations == 0 && container.learning.claim.is_some() => {
                ((done - START).max(FIRST_UNIT * done), false, done)
            }
            (None, _) => return None,
        };
        let is_valid = per_unit.is_finite() && per_unit > 0.0;
        is_valid.then_some(Work { done, since_report: (done - reported_at).max(0.0), per_unit, is_measured, paid })
    }

    /// Takes a report; `Some` if it is new and counts on from the last one.
    fn take_report(&mut self, progress: &Progress, previous: Option<CpuMark>, present: CpuMark) -> Option<Paid> {
        if self.report.is_some_and(|report| report.current == progress.current) {
            return None;
        }
        let cpu = cpu_at(progress.at, previous, present);
        let before = self.report.replace(ReportMark { at: progress.at, current: progress.current, cpu })?;
        let paid = Paid { since: before.at, cpu: cpu - before.cpu, units: progress.current - before.current };
        if paid.units <= 0.0 || paid.cpu < 0.0 {
            (self.units, self.cpu) = (0.0, 0.0);
            return None;
        }
        let cost = if before.current > 0.0 { paid.cpu } else { AFTER_ZERO * paid.cpu };
        self.units = MEMORY * self.units + paid.units;
        self.cpu = MEMORY * self.cpu + cost;
        (before.current > 0.0).then_some(paid)
    }
}

/// CPU-seconds used at `at`, by linear interpolation between two ticks.
fn cpu_at(at: Millis, previous: Option<CpuMark>, present: CpuMark) -> f64 {
    let now = present.cpu.as_secs_f64();
    let Some(previous) = previous.filter(|previous| previous.at < present.at) else { return now };
    let part = at.since(previous.at).as_secs_f64() / present.at.since(previous.at).as_secs_f64();
    let before = previous.cpu.as_secs_f64();
    before + (now - before) * part.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ClaimOrigin, Learning, ProgressUnit, TotalClaim};

    #[test]
    fn a_claimed_unit_costs_at_least_the_cpu_used_since_the_end_of_the_start() {
        let mut job = crate::node::testing::container("a");
        let mut work = |seconds: u64, claims: bool| {
            let (key, origin) = ("--epochs".to_owned(), ClaimOrigin::Command);
            job.learning.claim = claims.then_some(TotalClaim { total: 10.0, key, origin, confidence: 0.9 });
            job.usage.cpu = Some(CpuTime(seconds * 1_000_000));
            WorkMeter::default().measure(Millis(0), &job).map(|work| (work.per_unit, work.to(10.0)))
        };
        assert_eq!(work(1, true), Some((0.1, 1.0)), "the first seconds are mostly the start");
        assert_eq!(work(7, true), Some((5.0, 50.0)));
        assert_eq!(work(7, false), None);
    }

    #[test]
    fn the_start_of_a_job_is_no_part_of_the_unit_that_a_heading_announced() {
        let mut job = crate::node::testing::container("a");
        let mut meter = WorkMeter::default();
        let mut work = |second: u64, current: f64| {
            let at = Millis::from_secs(second);
            let total = Some(10.0);
            job.learning.progress = Some(Progress { unit: ProgressUnit::Epoch, current, total, at });
            job.usage.cpu = Some(CpuTime(second * 1_000_000));
            meter.measure(at, &job).map(|work| (work.per_unit, work.to(10.0 - current), work.is_known(&job)))
        };
        assert_eq!(work(5, 0.0), Some((0.5, 5.0, false)), "the heading");
        assert_eq!(work(8, 0.0), Some((1.5, 15.0, false)), "a unit costs at least this");
        assert_eq!(work(9, 1.0), Some((2.0, 18.0, true)), "half of it belongs to the start");
    }

    #[test]
    fn the_cost_of_the_first_units_is_known_once_the_start_is_a_small_part_of_it() {
        let mut job = crate::node::testing::container("a");
        let mut is_known = |second: u64, current: f64| {
            let at = Millis::from_secs(second);
            job.learning.progress = Some(Progress { unit: ProgressUnit::Epoch, current, total: Some(88.0), at });
            job.usage.cpu = Some(CpuTime(second * 1_000_000));
            WorkMeter::default().measure(at, &job).map(|work| work.is_known(&job))
        };
        assert_eq!(is_known(5, 1.0), Some(false), "mostly the start");
        assert_eq!(is_known(300, 1.0), Some(true), "a long epoch");
        assert_eq!(is_known(300, 512.0), Some(false), "units of something else");
    }

    #[test]
    fn cpu_used_to_restart_on_another_node_is_not_part_of_the_cost_per_unit() {
        let mut job = crate::node::testing::container("a");
        job.learning = Learning {
            progress: Some(Progress { unit: ProgressUnit::Epoch, current: 40.0, total: Some(100.0), at: Millis(0) }),
            evaluations: 40,
            prior_cost_per_unit: Some(2.0),
            is_carried: true,
            ..Learning::default()
        };
        let mut meter = WorkMeter::default();
        let mut work = |second: u64, cpu_s: u64, printed: Option<f64>| {
            let now = Millis::from_secs(second);
            job.usage.cpu = Some(CpuTime(cpu_s * 1_000_000));
            if let (Some(current), Some(progress)) = (printed, &mut job.learning.progress) {
                (progress.current, progress.at, job.learning.is_carried) = (current, now, false);
            }
            let left = 100.0 - job.learning.progress.map_or(0.0, |progress| progress.current);
            meter.measure(now, &job).map(|work| (work.per_unit, work.to(left)))
        };
        assert_eq!(work(0, 0, None), Some((2.0, 120.0)));
        assert_eq!(work(10, 10, None), Some((2.0, 120.0)), "it is still starting");
        assert_eq!(work(12, 12, Some(41.0)), Some((2.0, 118.0)));
        assert_eq!(work(15, 15, Some(42.0)), Some((3.0, 174.0)), "a unit costs more here");
    }

    #[test]
    fn an_earlier_cost_is_used_until_evaluations_without_units_appear() {
        let mut job = crate::node::testing::container("a");
        job.usage.cpu = Some(CpuTime(3_000_000));
        job.learning.prior_cost_per_unit = Some(2.0);
        let mut meter = WorkMeter::default();
        let work = meter.measure(Millis(0), &job).expect("the cost of the last run");
        assert_eq!((work.per_unit, work.to(10.0)), (2.0, 17.0));
        job.learning.evaluations = 5;
        assert_eq!(meter.measure(Millis(1000), &job), None);
    }
}
