//! What is known of one job's learning, as one node's daemon gives it to another's when the job moves.
//!
//! Nodes have clocks of their own, so a record has ages in place of instants, counted from when it was made. Whoever takes it up counts them
//! back from then: the time in between, when the job did not run, counts for nothing. A record comes from another machine: numbers that no
//! log can have led to, and lists that are longer than ours ever are, make it none. Imports: the tracker, model.

use super::tracker::{Checkpoint, Tracker};
use crate::model::{Direction, Directives, Millis};
use serde::{Deserialize, Serialize};

/// Rises when what a record holds is understood otherwise.
const VERSION: u32 = 1;
/// CPU-seconds of a progress unit: more than thirty years are no price.
const PRICE_AT_MOST: f64 = 1e9;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearningRecord {
    version: u32,
    labels: Labels,
    /// CPU-seconds of a progress unit.
    cpu_per_unit: Option<f64>,
    checkpoint: Checkpoint,
}

/// What a log was read by. What was read by other labels is not what these would have read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    log: Option<String>,
    metric: Option<String>,
    pattern: Option<String>,
    unit: Option<String>,
    ignore: Vec<String>,
    direction: Option<Direction>,
}

impl Labels {
    fn of(directives: &Directives) -> Labels {
        let Directives { log, metric, pattern, unit, ignore, direction, .. } = directives.clone();
        Labels { log, metric, pattern, unit, ignore, direction }
    }
}

impl LearningRecord {
    /// What `tracker` knows at `now` of a job whose progress units cost so many CPU-seconds. `None` while it has read nothing, and where what it
    /// has read could not be told another.
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

    /// Reads what [`LearningRecord::to_json`] wrote, on whatever machine.
    ///
    /// # Errors
    /// Why it is no record, in words.
    pub fn parse(json: &str) -> Result<LearningRecord, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let not_one = |error: serde_json::Error| format!("this is no record of a job's learning: {error}");
        let Versioned { version } = serde_json::from_str(json).map_err(not_one)?;
        if version != VERSION {
            return Err(format!("the record has version {version}, and this flowcond knows version {VERSION}"));
        }
        let record: LearningRecord = serde_json::from_str(json).map_err(not_one)?;
        match record.flaw() {
            Some(flaw) => Err(format!("the record cannot be that of a job: {flaw}")),
            None => Ok(record),
        }
    }

    /// As JSON, some KiB.
    ///
    /// # Errors
    /// Never, as far as is known: it holds plain data.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// CPU-seconds of a progress unit where the job ran.
    pub fn cpu_per_unit(&self) -> Option<f64> {
        self.cpu_per_unit
    }

    /// A tracker that goes on from here at `now`.
    ///
    /// # Errors
    /// The job's log is read by other labels now.
    pub fn resume(&self, directives: &Directives, now: Millis) -> Result<Tracker, String> {
        if self.labels != Labels::of(directives) {
            return Err("its log is read by other labels here (flowcon.metric, flowcon.pattern, …)".to_owned());
        }
        Ok(Tracker::resume(directives, &self.checkpoint.clone().with_instants(now)))
    }

    /// What no tracker of ours would have said.
    fn flaw(&self) -> Option<&'static str> {
        let is_price = |price: f64| price > 0.0 && price <= PRICE_AT_MOST;
        if !self.cpu_per_unit.is_none_or(is_price) {
            return Some("the price of a unit");
        }
        // Work done elsewhere would seem to have cost what was used here: nothing.
        if self.cpu_per_unit.is_none() && self.checkpoint.has_progress() {
            return Some("it has progress without its price");
        }
        self.checkpoint.flaw()
    }
}
