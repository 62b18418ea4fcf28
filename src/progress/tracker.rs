//! One job's log: the reader of its bytes and the history of its evaluations, behind one door.

use super::history::History;
use crate::model::{Directives, Evaluation, Learning, Millis, Progress};
use serde::{Deserialize, Serialize};

/// What survives a restart of the daemon: the choice of metric, the scale, and a thinned history. Versioned by its owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    history: History,
}

/// Follows one job's log. Memory is bounded whatever the log contains.
pub struct Tracker {
    metric: Option<String>,
    history: History,
    problems: Vec<String>,
}

impl Tracker {
    /// A tracker that has read nothing, obeying the container's labels.
    pub fn new(directives: &Directives) -> Self {
        Tracker { metric: directives.metric.clone(), history: History::new(directives.direction), problems: Vec::new() }
    }

    /// Goes on where an earlier daemon stopped.
    pub fn resume(directives: &Directives, checkpoint: &Checkpoint) -> Self {
        let mut history = checkpoint.history.clone();
        if directives.direction.is_some() && directives.direction != history.direction() {
            history.restart(directives.direction);
        }
        Tracker { history, ..Tracker::new(directives) }
    }

    /// What [`Tracker::resume`] needs, a few KiB.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { history: self.history.clone() }
    }

    /// Reads the next bytes of the log, in order, cut anywhere.
    pub fn push(&mut self, _bytes: &[u8], _now: Millis) {}

    /// Takes an evaluation that did not come from bytes (the simulator's).
    pub fn evaluate(&mut self, evaluation: Evaluation) {
        self.history.push(evaluation);
    }

    /// Takes a progress report that did not come from bytes (the simulator's).
    pub fn report(&mut self, progress: Progress) {
        self.history.report(progress);
    }

    /// What is known now, for status; changes nothing.
    pub fn peek(&self, now: Millis) -> Learning {
        self.named(self.history.peek(now))
    }

    /// Ends an interval: what is known now with the gain since the last interval that had evaluations. Once per tick.
    pub fn close_interval(&mut self, now: Millis) -> Learning {
        let learning = self.history.close_interval(now);
        self.named(learning)
    }

    /// The latest values of the metric, oldest first, at most 60, for a sparkline.
    pub fn recent(&self) -> Vec<f64> {
        self.history.recent()
    }

    /// The line that the latest evaluation stood on, shortened.
    pub fn line(&self) -> Option<&str> {
        None
    }

    /// What is wrong with the labels, in words (an invalid pattern, a contradiction).
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn named(&self, learning: Learning) -> Learning {
        let confidence = if learning.latest.is_some() { 1.0 } else { 0.0 };
        Learning { metric: self.metric.clone(), confidence, ..learning }
    }
}
