//! Replays recorded trainings at their own pace, and judges their health at each look.
//!
//! What is recorded: logs, and CSV files of curves. A log whose lines have the time of day is replayed at these times, another with a line
//! every two seconds; a curve at its column `elapsed_s` or `cpu_s`, or with a report every ten seconds. Used by the tests (fixed seeds) and
//! by the benchmark `replay` (fresh seeds, any files).

pub(crate) mod faults;
pub(crate) mod recorded;

use super::{HealthMeter, Prospects};
use model::{Bytes, Condition, ContainerObservation, CpuTime, Evaluation, Hints, Millis, Progress, ProgressUnit};
use recorded::{Log, Series};
use traininglog::Tracker;

/// Time between two looks, and between two decisions, which fit the curve.
pub(crate) const LOOK_S: u64 = 2;
const INTERVAL_S: u64 = 20;

/// A job that is replayed at one core.
pub(crate) struct Replay {
    tracker: Tracker,
    meter: HealthMeter,
    pub(crate) now_ms: u64,
    cpu_us: u64,
    /// Whether it uses its core.
    pub(crate) is_busy: bool,
    /// Its working set, and the limit for it.
    pub(crate) memory: Option<(Bytes, Bytes)>,
    /// The present condition.
    pub(crate) condition: Condition,
}

impl Replay {
    pub(crate) fn new(hints: &Hints) -> Replay {
        let (tracker, meter) = (Tracker::new(hints), HealthMeter::default());
        let condition = Condition::Starting;
        Replay { tracker, meter, now_ms: 0, cpu_us: 0, is_busy: true, memory: None, condition }
    }

    /// The job with this curve.
    pub(crate) fn of(series: &Series) -> Replay {
        Replay::new(&Hints { direction: Some(series.direction), metric: Some("loss".to_owned()), ..Hints::default() })
    }

    /// Passes the time until `ms`, with a look every two seconds; calls `seen` when the condition changed.
    pub(crate) fn pass_until(&mut self, ms: u64, seen: &mut dyn FnMut(&Replay)) {
        while self.now_ms < ms {
            let next = (self.now_ms / (1000 * LOOK_S) + 1) * 1000 * LOOK_S;
            let next = next.min(ms);
            self.cpu_us += if self.is_busy { (next - self.now_ms) * 1000 } else { 0 };
            self.now_ms = next;
            if self.now_ms.is_multiple_of(1000 * LOOK_S) {
                self.look(seen);
            }
        }
    }

    fn look(&mut self, seen: &mut dyn FnMut(&Replay)) {
        let now = Millis(self.now_ms);
        let is_tick = self.now_ms.is_multiple_of(1000 * INTERVAL_S);
        let mut job = ContainerObservation::new("job");
        job.learning = if is_tick { self.tracker.close_interval(now) } else { self.tracker.peek(now) };
        job.usage.cpu = Some(CpuTime(self.cpu_us));
        (job.usage.working_set, job.memory_limit) = self.memory.unzip();
        let prospects = Prospects { due_cores: Some(1.0), most_cores: 1.0, forecast: None };
        let condition = self.meter.look(now, &job, &prospects).condition;
        if condition != self.condition {
            self.condition = condition;
            seen(self);
        }
    }

    /// Reports a value, with the number of reports so far.
    pub(crate) fn report(&mut self, number: usize, value: f64) {
        let (at, current) = (Millis(self.now_ms), number as f64);
        self.tracker.report(Progress { unit: ProgressUnit::Step, current, total: None, at });
        self.tracker.evaluate(Evaluation { at, value, current: Some(current), total: None });
    }
}

/// The troubles of a log, each with its line.
pub(crate) fn troubles_of_log(log: &Log) -> Vec<(usize, Condition)> {
    let mut replay = Replay::new(&Hints::default());
    let mut troubles = Vec::new();
    for (number, (at_ms, line)) in log.lines().enumerate() {
        let mut seen = |replay: &Replay| troubles.push((number, replay.condition));
        replay.pass_until(at_ms, &mut seen);
        replay.tracker.push(line, Millis(at_ms));
    }
    let end = replay.now_ms + 1000 * LOOK_S;
    replay.pass_until(end, &mut |replay| troubles.push((log.len(), replay.condition)));
    troubles.retain(|(_, condition)| condition.is_trouble());
    troubles
}

/// The troubles of a curve, each with the number of reports by then.
pub(crate) fn troubles_of_series(series: &Series) -> Vec<(usize, Condition)> {
    let mut replay = Replay::of(series);
    let mut troubles = Vec::new();
    for (number, &(at_ms, value)) in series.reports.iter().enumerate() {
        replay.pass_until(at_ms, &mut |replay| troubles.push((number, replay.condition)));
        replay.report(number + 1, value);
    }
    let end = replay.now_ms + 1000 * LOOK_S;
    replay.pass_until(end, &mut |replay| troubles.push((series.reports.len(), replay.condition)));
    troubles.retain(|(_, condition)| condition.is_trouble());
    troubles
}
