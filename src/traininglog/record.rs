//! The state of a tracker, for a machine to which its job moves.
//!
//! Clocks differ between machines, so a record stores ages at its creation instead of instants. The receiver turns them into instants of
//! its clock; the time of the move, when the job did not run, is not counted. A record comes from another machine: it is rejected if a
//! number is implausible or a list is longer than the tracker's limit.

use super::tracker::{Checkpoint, Tracker};
use crate::{Direction, Hints, Millis, ProgressUnit};
use serde::{Deserialize, Serialize};

/// Format version; incremented when the meaning of a record changes.
const VERSION: u32 = 1;
/// Maximum CPU-seconds per progress unit: about thirty years.
const MAX_COST_PER_UNIT: f64 = 1e9;

/// The state of a tracker for another machine, whose clock differs: it holds ages at its creation instead of instants.
///
/// The time of the move, when the job did not run, is not counted. A record comes from another machine: it is rejected if a number is
/// implausible, or a list longer than a tracker's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearningRecord {
    version: u32,
    labels: Labels,
    /// CPU-seconds per progress unit.
    cpu_per_unit: Option<f64>,
    checkpoint: Checkpoint,
}

/// What decides how a log is read. A record is valid only for the same log and hints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    log: Option<String>,
    metric: Option<String>,
    pattern: Option<String>,
    unit: Option<ProgressUnit>,
    ignore: Vec<String>,
    direction: Option<Direction>,
}

impl Labels {
    fn of(log: Option<&str>, hints: &Hints) -> Labels {
        let Hints { metric, pattern, unit, ignore, direction, total: _ } = hints.clone();
        let log = log.map(str::to_owned);
        let pattern = pattern.map(|pattern| pattern.expression().to_owned());
        Labels { log, metric, pattern, unit, ignore, direction }
    }
}

impl LearningRecord {
    /// Returns the state of `tracker` at `now`, for a job that needs `cpu_per_unit` CPU-seconds per progress unit. `log` names the file
    /// that was read, if it is not the output of the job. `None` while the tracker has read nothing, or if the receiver would reject the
    /// record.
    pub fn of(
        tracker: &Tracker,
        log: Option<&str>,
        hints: &Hints,
        cpu_per_unit: Option<f64>,
        now: Millis,
    ) -> Option<LearningRecord> {
        let learning = tracker.peek(now);
        if learning.evaluations == 0 && learning.progress.is_none() {
            return None;
        }
        let checkpoint = tracker.checkpoint().with_ages(now);
        let record = LearningRecord { version: VERSION, labels: Labels::of(log, hints), cpu_per_unit, checkpoint };
        record.flaw().is_none().then_some(record)
    }

    /// Parses the output of [`LearningRecord::to_json`], possibly of another machine.
    ///
    /// # Errors
    /// A message if the JSON is invalid, has another version, or holds implausible values.
    pub fn parse(json: &str) -> Result<LearningRecord, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let invalid = |error: serde_json::Error| format!("not a learning record: {error}");
        let Versioned { version } = serde_json::from_str(json).map_err(invalid)?;
        if version != VERSION {
            return Err(format!("the learning record has version {version}; only version {VERSION} is supported"));
        }
        let record: LearningRecord = serde_json::from_str(json).map_err(invalid)?;
        match record.flaw() {
            Some(flaw) => Err(format!("the learning record has implausible values: {flaw}")),
            None => Ok(record),
        }
    }

    /// Returns the record as JSON, a few KiB.
    ///
    /// # Errors
    /// None are expected: the record is plain data.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// CPU-seconds per progress unit on the machine where the job ran.
    pub fn cpu_per_unit(&self) -> Option<f64> {
        self.cpu_per_unit
    }

    /// Returns a tracker that continues from this record at `now`; `None` if it was made for another log, or with other hints.
    pub fn resume(&self, log: Option<&str>, hints: &Hints, now: Millis) -> Option<Tracker> {
        let is_same = self.labels == Labels::of(log, hints);
        is_same.then(|| Tracker::resume(hints, &self.checkpoint.clone().with_instants(now)))
    }

    /// Returns the name of a part that no tracker would have written.
    fn flaw(&self) -> Option<&'static str> {
        let is_plausible = |cost: f64| cost > 0.0 && cost <= MAX_COST_PER_UNIT;
        if !self.cpu_per_unit.is_none_or(is_plausible) {
            return Some("cost per unit");
        }
        // Without it, the work done elsewhere would be divided by the CPU time used here: none.
        if self.cpu_per_unit.is_none() && self.checkpoint.has_progress() {
            return Some("progress without a cost per unit");
        }
        self.checkpoint.flaw()
    }
}
