//! Progress units per second over the last few reports.

use crate::plausible;
use crate::{Millis, Progress};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Maximum number of reports.
const MARKS: usize = 32;

/// Maximum age of a report, if there are at least two newer ones.
const MAX_AGE: Millis = Millis::from_secs(120);

/// The last few progress reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pace {
    marks: VecDeque<Mark>,
}

/// The part of a progress report that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Mark {
    current: f64,
    at: Millis,
}

impl Pace {
    /// Adds a report that continues the previous one.
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
        let is_old = |mark: &Mark| progress.at.since(mark.at) > MAX_AGE;
        while self.marks.len() > 2 && self.marks.get(1).is_some_and(is_old) {
            self.marks.pop_front();
        }
    }

    /// Forgets all reports, because the counter started again.
    pub(super) fn restart(&mut self) {
        self.marks.clear();
    }

    /// Converts the times of all reports; reports whose time cannot be converted are forgotten.
    pub(super) fn convert_times(&mut self, convert: impl Fn(Millis) -> Option<Millis>) {
        self.marks.retain_mut(|mark| convert(mark.at).map(|at| mark.at = at).is_some());
    }

    /// Whether the reports, with ages instead of instants, are plausible.
    pub(super) fn is_plausible(&self) -> bool {
        let in_order = self.marks.iter().zip(self.marks.iter().skip(1)).all(|(older, newer)| older.at >= newer.at);
        self.marks.len() <= MARKS && in_order && self.marks.iter().all(|mark| plausible::number(mark.current))
    }

    /// Returns units per second; an overdue report lowers it.
    pub(super) fn units_per_second(&self, now: Millis) -> Option<f64> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let units = last.current - first.current;
        let seconds = last.at.since(first.at).as_secs_f64();
        let unit = seconds / (self.marks.len() as f64 - 1.0);
        let overdue = (now.since(last.at).as_secs_f64() - 2.0 * unit).max(0.0);
        (seconds > 0.0 && units.is_finite()).then(|| units / (seconds + overdue))
    }
}
