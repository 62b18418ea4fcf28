//! Events of a job that end a back-off: its first progress report, a milestone reached, or another phase of its learning curve. A job that
//! breaks or recovers is a reason to decide at once in any case.

use model::{ContainerObservation, Phase};
use serde::{Deserialize, Serialize};

/// The properties of a job whose change ends a back-off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Situation {
    phase: Option<Phase>,
    /// It reports progress or evaluations.
    prints: bool,
    /// Its total work is known.
    has_end: bool,
    /// The 95 % quality milestone is behind it.
    is_good: bool,
    /// It is NaN, diverging or stalled.
    #[serde(default)]
    is_broken: bool,
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
            is_broken: container.health.condition.is_broken(),
        }
    }

    /// Whether the job has broken or recovered since.
    pub(super) fn broke_or_recovered(self, container: &ContainerObservation) -> bool {
        self.is_broken != container.health.condition.is_broken()
    }

    /// Whether anything differs from `now`. An unknown phase, before or now, is no change.
    pub(super) fn changed(self, now: Situation) -> bool {
        let phases = self.phase.zip(now.phase);
        phases.is_some_and(|(before, now)| before != now)
            || Situation { phase: None, ..self } != Situation { phase: None, ..now }
    }
}
