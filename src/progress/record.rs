//! The learning state of a job, sent from one node's daemon to another's when the job moves.
//!
//! Clocks differ between nodes, so a record stores ages at its creation instead of instants. The receiver turns them into instants of its
//! clock; the time of the move, when the job did not run, is not counted. A record comes from another machine: it is rejected if a number
//! is implausible or a list is longer than the tracker's limit.

use super::tracker::{Checkpoint, Tracker};
use model::{Direction, Directives, Millis, ProgressUnit};
use serde::{Deserialize, Serialize};

/// Format version; incremented when the meaning of a record changes.
const VERSION: u32 = 1;
/// Maximum CPU-seconds per progress unit: about thirty years.
const MAX_COST_PER_UNIT: f64 = 1e9;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearningRecord {
    version: u32,
    labels: Labels,
    /// CPU-seconds per progress unit.
    cpu_per_unit: Option<f64>,
    checkpoint: Checkpoint,
}

/// The labels that decide how a log is read. A record is valid only for the same labels.
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
    fn of(directives: &Directives) -> Labels {
        let Directives { log, metric, pattern, unit, ignore, direction, .. } = directives.clone();
        let pattern = pattern.map(|pattern| pattern.expression().to_owned());
        Labels { log, metric, pattern, unit, ignore, direction }
    }
}

impl LearningRecord {
    /// Returns the state of `tracker` at `now`, for a job that needs `cpu_per_unit` CPU-seconds per progress unit. `None` while the
    /// tracker has read nothing, or if the receiver would reject the record.
    pub fn of(
        tracker: &Tracker,
        directives: &Directives,
        cpu_per_unit: Option<f64>,
        now: Millis,
    ) -> Option<LearningRecord> {
        let learning = tracker.peek(now);
        if learning.evaluations == 0 && learning.progress.is_none() {
            return None;
        }
        let checkpoint = tracker.checkpoint().with_ages(now);
        let record = LearningRecord { version: VERSION, labels: Labels::of(directives), cpu_per_unit, checkpoint };
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
            return Err(format!("the learning record has version {version}; this flowcond supports version {VERSION}"));
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

    /// CPU-seconds per progress unit on the node where the job ran.
    pub fn cpu_per_unit(&self) -> Option<f64> {
        self.cpu_per_unit
    }

    /// Returns a tracker that continues from this record at `now`.
    ///
    /// # Errors
    /// The labels that decide how the log is read have changed.
    pub fn resume(&self, directives: &Directives, now: Millis) -> Result<Tracker, String> {
        if self.labels != Labels::of(directives) {
            return Err("the labels for reading its log differ here (flowcon.metric, flowcon.pattern, …)".to_owned());
        }
        Ok(Tracker::resume(directives, &self.checkpoint.clone().with_instants(now)))
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
