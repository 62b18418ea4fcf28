//! How far the latest values are behind the best ones: the evidence for overfitting.
//!
//! Single values are noisy and the best of many is a lucky one, so means of [`WINDOW`] consecutive values are compared.

use crate::plausible;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Number of consecutive values in a mean.
const WINDOW: usize = 5;

/// The mean of the latest values, and the best such mean so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Means {
    /// The latest improvements, oldest first.
    latest: VecDeque<f64>,
    best: Option<BestMean>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct BestMean {
    mean: f64,
    /// Units at the end of its values.
    units: f64,
    /// Values since then.
    since: u64,
}

/// The latest mean is below the best one.
pub(super) struct BelowBest {
    /// The best mean of improvements, and the units at the end of its values.
    pub(super) best: f64,
    pub(super) units: f64,
    /// Values since then.
    pub(super) since: u64,
    /// Difference of the two means.
    pub(super) by: f64,
}

impl Means {
    pub(super) fn push(&mut self, units: f64, improvement: f64) {
        if self.latest.len() == WINDOW {
            self.latest.pop_front();
        }
        self.latest.push_back(improvement);
        let Some(mean) = self.latest_mean() else { return };
        match &mut self.best {
            Some(best) if mean <= best.mean => best.since = best.since.saturating_add(1),
            best => *best = Some(BestMean { mean, units, since: 0 }),
        }
    }

    /// Returns how far the latest mean is below the best one; `None` if it is the best.
    pub(super) fn below_best(&self) -> Option<BelowBest> {
        let BestMean { mean: best, units, since } = self.best?;
        let latest = self.latest_mean()?;
        let by = best - latest;
        (by > 0.0).then_some(BelowBest { best, units, since, by })
    }

    /// Standard error of the difference of two means, for values with this standard deviation.
    pub(super) fn error(deviation: f64) -> f64 {
        deviation * (2.0 / WINDOW as f64).sqrt()
    }

    /// Whether all values are plausible.
    pub(super) fn is_plausible(&self) -> bool {
        let best = |best: BestMean| {
            plausible::number(best.mean) && plausible::number(best.units) && plausible::count(best.since)
        };
        self.latest.len() <= WINDOW && self.latest.iter().copied().all(plausible::number) && self.best.is_none_or(best)
    }

    fn latest_mean(&self) -> Option<f64> {
        (self.latest.len() == WINDOW).then(|| self.latest.iter().sum::<f64>() / WINDOW as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_is_measured_from_the_best_mean() {
        let mut means = Means::default();
        for n in 0..10 {
            means.push(f64::from(n), f64::from(n));
        }
        assert!(means.below_best().is_none(), "it still improves");
        for n in 10..15 {
            means.push(f64::from(n), 3.0);
        }
        let fall = means.below_best().expect("it fell");
        assert_eq!((fall.best, fall.units, fall.since, fall.by), (7.0, 9.0, 5, 4.0));
    }

    #[test]
    fn too_few_values_have_no_mean() {
        let mut means = Means::default();
        for n in 0..4 {
            means.push(f64::from(n), -f64::from(n));
        }
        assert!(means.below_best().is_none());
    }
}
