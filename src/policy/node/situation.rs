//! What of a job ends a back-off when it changes: it tells something for the first time, reaches a milestone, or learns otherwise than before.
//!
//! Imports: model only.

use crate::model::{ContainerObservation, Phase};
use serde::{Deserialize, Serialize};

/// What of a job ends a back-off when it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Situation {
    phase: Option<Phase>,
    /// It prints something that tells how far it is.
    prints: bool,
    /// How long it will train is known.
    has_end: bool,
    /// Its model is good: the milestone is behind it.
    is_good: bool,
}

impl Situation {
    pub(super) fn of(container: &ContainerObservation) -> Situation {
        let learning = &container.learning;
        let to_quality = learning.curve.and_then(|curve| curve.units_to_quality);
        Situation {
            phase: learning.curve.map(|curve| curve.phase).filter(|phase| *phase != Phase::Unknown),
            prints: learning.progress.is_some() || learning.evaluations > 0,
            has_end: learning.units_to_completion.is_some(),
            is_good: to_quality.is_some_and(|units| units.high <= 0.0),
        }
    }

    /// A phase that is not known any more, or not yet, is no change.
    pub(super) fn changed(self, now: Situation) -> bool {
        let phases = self.phase.zip(now.phase);
        phases.is_some_and(|(before, now)| before != now)
            || Situation { phase: None, ..self } != Situation { phase: None, ..now }
    }
}
