//! The course of a run so far and its expected end, to compare it with other runs.

use super::History;
use crate::Estimate;

impl History {
    /// The evaluations so far, thinned, as printed; none if they are not counted.
    pub(crate) fn points(&self) -> Vec<(f64, f64)> {
        let Some(direction) = self.direction.filter(|_| self.improvements.counts) else { return Vec::new() };
        self.improvements.points(direction).collect()
    }

    /// Returns the value that the fitted curves expect at the end; `None` while there are too few evaluations.
    pub(crate) fn expected_final(&self) -> Option<Estimate> {
        let (direction, improvement) = (self.direction?, self.fit()?.final_value(self.total()));
        let value = |improvement| self.improvements.value_of(direction, improvement).filter(|value| value.is_finite());
        let (from, likely, to) = (value(improvement.low)?, value(improvement.likely)?, value(improvement.high)?);
        Some(Estimate { low: from.min(to), likely, high: from.max(to) })
    }
}
