//! How far a printed value lies from the curve, and outliers.
//!
//! The scale is the mean absolute difference of neighbouring values times √π/2, which for normal noise is its standard deviation; a
//! decaying mean follows noise that shrinks as training goes on. The trend between two neighbours is inside it: on a steep stretch
//! the scale is too large, which only makes the reading more careful.
//!
//! One value far off is pulled back to [`OUTLIER`] scales; a second one in a row is believed: then the curve has moved. Imports:
//! plausible numbers.

use crate::progress::plausible;
use serde::{Deserialize, Serialize};

/// Deviations that a value may lie off its predecessor.
const OUTLIER: f64 = 6.0;

/// Values seen before anything is called an outlier.
const BEFORE_JUDGING: u64 = 8;

/// Values that the decaying mean remembers.
const MEMORY: f64 = 40.0;

/// Mean |difference| of two normal values, in standard deviations.
const DIFFERENCE_PER_DEVIATION: f64 = std::f64::consts::FRAC_2_SQRT_PI;

/// Follows the noise of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Noise {
    seen: u64,
    last: f64,
    difference: f64,
    pulled_back: bool,
}

impl Noise {
    /// Takes the next finite value and returns it, pulled back if it is a lone outlier.
    pub(super) fn accept(&mut self, value: f64) -> f64 {
        self.seen += 1;
        if self.seen == 1 {
            self.last = value;
            return value;
        }
        let difference = value - self.last;
        let most = OUTLIER * self.difference;
        let is_outlier = self.seen > BEFORE_JUDGING && difference.abs() > most && !self.pulled_back;
        self.pulled_back = is_outlier;
        let accepted = if is_outlier { self.last + difference.clamp(-most, most) } else { value };
        let weight = 1.0 / (self.seen as f64 - 1.0).min(MEMORY);
        self.difference += weight * ((accepted - self.last).abs() - self.difference);
        if !is_outlier {
            self.last = value;
        }
        accepted
    }

    /// Whether this can be ours.
    pub(super) fn is_plausible(&self) -> bool {
        plausible::count(self.seen)
            && plausible::number(self.last)
            && plausible::number(self.difference)
            && self.difference >= 0.0
    }

    /// Standard deviation of a printed value; `None` before it can be told.
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
        // Evenly spread over −0.3 … 0.3 in an order without a pattern: deviation 0.6/√12 = 0.173.
        for n in 0..400u32 {
            noise.accept(f64::from(n * 7919 % 1009) / 1009.0 * 0.6 - 0.3);
        }
        let deviation = noise.deviation().expect("enough values");
        assert!((0.13..0.22).contains(&deviation), "{deviation}");
    }

    #[test]
    fn one_outlier_is_pulled_back_and_a_step_is_believed() {
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
