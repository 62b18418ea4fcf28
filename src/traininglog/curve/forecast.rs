//! What was forecast at the end of an interval.

use crate::plausible;
use crate::{Curve, Estimate, Phase};
use serde::{Deserialize, Serialize};

/// Result of the fit at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Forecast {
    pub(super) phase: Phase,
    pub(super) quality: f64,
    /// Units at 95 % of the final improvement.
    pub(super) quality_at: Option<Estimate>,
}

impl Forecast {
    pub(super) fn curve_at(self, units: f64) -> Curve {
        let left = |at: f64| (at - units).max(0.0);
        let left_of = |at: Estimate| Estimate { low: left(at.low), likely: left(at.likely), high: left(at.high) };
        Curve { phase: self.phase, quality: self.quality, units_to_quality: self.quality_at.map(left_of) }
    }

    pub(super) fn is_plausible(&self) -> bool {
        let ordered = |at: Estimate| {
            [at.low, at.likely, at.high].into_iter().all(plausible::number)
                && at.low <= at.likely
                && at.likely <= at.high
        };
        // A weighted mean can exceed 1 by a rounding error.
        (0.0..=1.000_001).contains(&self.quality) && self.quality_at.is_none_or(ordered)
    }
}
