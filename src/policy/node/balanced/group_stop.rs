//! Trials that are stopped because they have lost in their sweep: only those whose label `flowcon.group-stop` asks for that.
//!
//! An end cannot be taken back, so a trial is stopped only if all of this holds:
//!
//! - it is compared with others, reads its metric with confidence, has passed the rung that the label names, and is not complete;
//! - at least η trials have a result at this rung, and so many of them are better that it is not among the best third, nor will be if all
//!   that are on their way there do worse;
//! - it has never been among the best third there, is not now at the highest rung that it has reached, and has not caught up
//!   with those since;
//! - it is not the best of those that run;
//! - its limits are governed and its share is not fixed;
//! - all trials of the sweep began after the daemon, which therefore knows all results.
//!
//! The others need no label to be compared with. A later run of a container that has lost is left alone.

use super::standing::Standing;
use model::{ContainerId, ContainerObservation, GroupStop, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The metric must be read with this confidence; one that is named has 1.
const LEAST_CONFIDENCE: f64 = 0.8;

/// What has been decided about the trials of a sweep that carry the label. Kept between ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Verdicts {
    known: BTreeMap<ContainerId, Verdict>,
    /// Results may be missing, because trials ran before the daemon.
    is_partial: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Verdict {
    /// It was among the best third at its rung.
    Stays,
    /// The run that began at that time has lost.
    Lost(Millis),
}

/// A trial that carries the label, at the rung that the label names.
pub(super) struct Case<'a> {
    pub(super) container: &'a ContainerObservation,
    pub(super) standing: &'a Standing,
    /// Whether it was not among the best third at the highest rung that it has reached, and has not caught up with those since.
    pub(super) is_behind: bool,
    /// Number of the rung, from 1.
    pub(super) rung: u8,
    /// Whether it has passed the rung in this run, and has work left.
    pub(super) is_on_its_way: bool,
    /// Its result at the rung, larger = better.
    pub(super) score: f64,
    /// The results of all trials there, its own included.
    pub(super) results: Vec<f64>,
    /// Number of trials that may still reach the rung.
    pub(super) coming: usize,
}

impl Verdicts {
    /// Notes a trial of the sweep.
    pub(super) fn note(&mut self, ran_before: bool) {
        self.is_partial |= ran_before;
    }

    /// Returns the result for which the trial is to be stopped, if it has lost. `reduction`: one of so many is promoted.
    pub(super) fn judge(&mut self, case: &Case<'_>, reduction: usize) -> Option<GroupStop> {
        let (of, better) = (case.results.len(), case.results.iter().filter(|other| **other > case.score).count());
        if of < reduction || !case.score.is_finite() {
            return None;
        }
        let id = &case.container.id;
        if better < of / reduction {
            self.known.insert(id.clone(), Verdict::Stays);
        }
        let has_lost = better >= (of + case.coming) / reduction;
        if self.is_partial || !has_lost || !case.may_be_stopped() {
            return None;
        }
        let lost = Verdict::Lost(case.container.started);
        let verdict = *self.known.entry(id.clone()).or_insert(lost);
        let counted = |number| u16::try_from(number).unwrap_or(u16::MAX);
        (verdict == lost).then(|| GroupStop { rung: case.rung, rank: counted(better + 1), of: counted(of) })
    }
}

impl Case<'_> {
    fn may_be_stopped(&self) -> bool {
        let is_last = self.standing.place.at == 0 || self.standing.of < 2;
        let is_sure = self.container.learning.confidence >= LEAST_CONFIDENCE;
        let is_governed = self.container.hold.is_none() && self.container.bounds.fixed().is_none();
        self.is_behind && self.is_on_its_way && !is_last && is_sure && is_governed
    }
}

#[cfg(test)]
#[path = "group_stop_tests.rs"]
mod tests;
