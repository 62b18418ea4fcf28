//! How a trial stands among the trials of its sweep.

use model::{Reason, TrialStanding};

/// How a trial stands in its sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    pub(super) place: Place,
    /// Number of trials that run.
    pub(super) of: u16,
    pub(super) standing: TrialStanding,
    /// Units of the last rung that it has reached, or of the first one.
    pub(super) rung: f64,
    /// Units left to the next rung; infinite if there is none.
    pub(super) to_next_rung: f64,
}

/// The place of a trial in the order of its sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Distinguishes the sweeps of one tick.
    pub(super) sweep: u16,
    /// From 0; trials that have not reached the first rung share one.
    pub(super) at: u16,
}

impl Standing {
    /// Its place, if there are other trials.
    pub(super) fn place(&self) -> Option<Place> {
        (self.of > 1).then_some(self.place)
    }

    /// CPU-seconds of work to the next rung at this cost of a unit; infinite if there is none.
    pub(super) fn work_to_next_rung(&self, per_unit: f64) -> f64 {
        self.to_next_rung * per_unit
    }

    pub(super) fn reason(&self) -> Reason {
        Reason::Trial {
            standing: self.standing,
            units: self.rung,
            rank: usize::from(self.place.at) + 1,
            of: self.of.into(),
        }
    }
}
