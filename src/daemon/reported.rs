//! What was reported of the health of a job, so that each event comes once.

use ::health::LEAST_CONFIDENCE;
use cgroup::Workers;
use model::{Condition, Evidence, Health, Learning, Millis, Streak};

/// What was reported of the health of one job.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// The trouble that was last reported as an event.
    pub(crate) trouble: Option<Condition>,
    /// Since when the latest NaN that is over lasted, as of the last look; `None` before the first one.
    nan: Option<Option<Millis>>,
    /// What its data loaders had used at the last look, while its GPU waits.
    pub(crate) workers: Option<(Millis, Workers)>,
}

impl Reported {
    /// Returns the words for a NaN that began and ended between two looks.
    pub(crate) fn missed_nan(&mut self, learning: &Learning) -> Option<String> {
        let over = learning.was_not_finite;
        let known = self.nan.replace(over.map(|streak| streak.since))?;
        let is_new = |streak: &Streak| known != Some(streak.since) && self.trouble != Some(Condition::Nan);
        let streak = over.filter(is_new).filter(|_| learning.confidence >= LEAST_CONFIDENCE)?;
        let evidence = Evidence::NotFinite { values: streak.values, units: streak.units };
        let health = Health { condition: Condition::Nan, evidence, ..Health::default() };
        let since = health.words(learning.progress.map(|progress| progress.unit));
        Some(format!("{since}, finite again after {} values", streak.values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Progress, ProgressUnit};

    #[test]
    fn a_nan_that_came_and_went_between_two_looks_is_told_once() {
        let learning = |since: Option<u64>| Learning {
            confidence: 0.9,
            progress: Some(Progress { unit: ProgressUnit::Epoch, current: 20.0, total: None, at: Millis(0) }),
            was_not_finite: since.map(|at| Streak { values: 3, since: Millis(at), units: Some(11.0) }),
            ..Learning::default()
        };
        let mut reported = Reported::default();
        assert_eq!(reported.missed_nan(&learning(Some(1))), None, "flowcond has just started");
        assert_eq!(reported.missed_nan(&learning(Some(1))), None);
        let told = reported.missed_nan(&learning(Some(7)));
        assert_eq!(told.as_deref(), Some("NaN since epoch 11, finite again after 3 values"));
        assert_eq!(reported.missed_nan(&learning(Some(7))), None);
        reported.trouble = Some(Condition::Nan);
        assert_eq!(reported.missed_nan(&learning(Some(9))), None, "its begin was reported, and its end will be");
        let unsure = Learning { confidence: 0.2, ..learning(Some(11)) };
        assert_eq!(Reported::default().missed_nan(&learning(None)), None);
        assert_eq!(reported.missed_nan(&unsure), None);
    }
}
