//! Progress units a second, observed over the last few reports. Imports: plausible numbers, model.

use crate::model::{Millis, Progress};
use crate::progress::plausible;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Reports kept.
const MARKS: usize = 32;

/// Reports older than this do not speak of now, if there are younger ones.
const LATELY: Millis = Millis::from_secs(120);

/// The last few progress reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pace {
    marks: VecDeque<Mark>,
}

/// What of a report matters here; there are many of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Mark {
    current: f64,
    at: Millis,
}

impl Pace {
    /// Takes a report that goes on from the one before.
    pub(super) fn mark(&mut self, progress: Progress) {
        match self.marks.back_mut() {
            Some(last) if last.current == progress.current || last.at == progress.at => last.current = progress.current,
            _ => {
                if self.marks.len() == MARKS {
                    self.marks.pop_front();
                }
                self.marks.push_back(Mark { current: progress.current, at: progress.at });
            }
        }
        let is_old = |mark: &Mark| progress.at.since(mark.at) > LATELY;
        while self.marks.len() > 2 && self.marks.get(1).is_some_and(is_old) {
            self.marks.pop_front();
        }
    }

    /// The counter began again.
    pub(super) fn restart(&mut self) {
        self.marks.clear();
    }

    /// With other instants; reports without one are forgotten.
    pub(super) fn turn(&mut self, turned: impl Fn(Millis) -> Option<Millis>) {
        self.marks.retain_mut(|mark| turned(mark.at).map(|at| mark.at = at).is_some());
    }

    /// Whether this can be ours, with ages in place of instants.
    pub(super) fn is_plausible(&self) -> bool {
        let in_order = self.marks.iter().zip(self.marks.iter().skip(1)).all(|(older, newer)| older.at >= newer.at);
        self.marks.len() <= MARKS && in_order && self.marks.iter().all(|mark| plausible::number(mark.current))
    }

    /// Units a second; a report that is overdue lowers it.
    pub(super) fn units_per_second(&self, now: Millis) -> Option<f64> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let units = last.current - first.current;
        let seconds = last.at.since(first.at).as_secs_f64();
        let unit = seconds / (self.marks.len() as f64 - 1.0);
        let overdue = (now.since(last.at).as_secs_f64() - 2.0 * unit).max(0.0);
        (seconds > 0.0 && units.is_finite()).then(|| units / (seconds + overdue))
    }
}
