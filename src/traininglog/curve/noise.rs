//! Estimates the noise of printed values, and limits outliers.
//!
//! The scale is the mean absolute difference of neighbouring values times √π/2: the standard deviation if the noise is normal. It is a
//! decaying mean, because noise shrinks during training. It includes the trend between neighbours, so that it is too large where the curve
//! is steep; this only makes the evaluation more cautious.
//!
//! A single outlier is pulled back to [`OUTLIER`] scales. A second one in a row is accepted: the curve has moved.

use crate::plausible;
use serde::{Deserialize, Serialize};

/// Maximum difference of a value from its predecessor, in mean differences.
const OUTLIER: f64 = 6.0;

/// Number of values before outliers are detected.
const WARM_UP: u64 = 8;

/// Length of the decaying mean, in values.
const MEMORY: f64 = 40.0;

/// Mean |difference| of two normal values, in standard deviations.
const DIFFERENCE_PER_DEVIATION: f64 = std::f64::consts::FRAC_2_SQRT_PI;

/// Noise of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Noise {
    seen: u64,
    last: f64,
    difference: f64,
    pulled_back: bool,
}

impl Noise {
    /// Adds the next finite value and returns it, pulled back if it is a single outlier.
    pub(super) fn accept(&mut self, value: f64) -> f64 {
        self.seen += 1;
        if self.seen == 1 {
            self.last = value;
            return value;
        }
        let difference = value - self.last;
        let most = OUTLIER * self.difference;
        let is_outlier = self.seen > WARM_UP && difference.abs() > most && !self.pulled_back;
        self.pulled_back = is_outlier;
        let accepted = if is_outlier { self.last + difference.clamp(-most, most) } else { value };
        let weight = 1.0 / (self.seen as f64 - 1.0).min(MEMORY);
        self.difference += weight * ((accepted - self.last).abs() - self.difference);
        if !is_outlier {
            self.last = value;
        }
        accepted
    }

    /// Whether all values are plausible.
    pub(super) fn is_plausible(&self) -> bool {
        plausible::count(self.seen)
            && plausible::number(self.last)
            && plausible::number(self.difference)
            && self.difference >= 0.0
    }

    /// Returns the standard deviation of a printed value; `None` for fewer than four values.
    pub(super) fn deviation(&self) -> Option<f64> {
        (self.seen >= 4).then_some(self.difference / DIFFERENCE_PER_DEVIATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_of_known_noise_is_found() {
        let mut noise = Noise::default();
        // Uniform over −0.3 … 0.3 in an order without a pattern: deviation 0.6/√12 = 0.173.
        for n in 0..400u32 {
            noise.accept(f64::from(n * 7919 % 1009) / 1009.0 * 0.6 - 0.3);
        }
        let deviation = noise.deviation().expect("enough values");
        assert!((0.13..0.22).contains(&deviation), "{deviation}");
    }

    #[test]
    fn one_outlier_is_pulled_back_and_a_step_is_accepted() {
        let mut noise = Noise::default();
        for n in 0..20 {
            noise.accept(1.0 + 0.01 * f64::from(n % 2));
        }
        assert!(noise.accept(9.0) < 1.5);
        assert!((noise.accept(1.0) - 1.0).abs() < 1e-12);
        assert!(noise.accept(0.5) > 0.5);
        assert!((noise.accept(0.5) - 0.5).abs() < 1e-12, "the second in a row is a step");
    }
}
