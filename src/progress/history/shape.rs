//! The families of learning curves that are fitted, each rising from 0 at the start towards 1.
//!
//! - exponential approach `1 − e^(−k·u)`: gradient descent near a minimum, boosting;
//! - power law `1 − (1 + u/s)^(−p)`: language models and everything with a long tail.
//!
//! Both can be solved for the units at which a level is reached. Imports: nothing of this crate.

/// How improvement goes with units `u` since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// `1 − e^(−rate·u)`
    Exponential { rate: f64 },
    /// `1 − (1 + u/knee)^(−exponent)`
    Power { knee: f64, exponent: f64 },
}

impl Shape {
    /// Level at `units`, 0 ..= 1.
    pub(super) fn level(self, units: f64) -> f64 {
        match self {
            Shape::Exponential { rate } => -(-rate * units).exp_m1(),
            Shape::Power { knee, exponent } => 1.0 - (-exponent * (1.0 + units / knee).ln()).exp(),
        }
    }

    /// Units at which `level` is reached; infinite if it never is.
    pub(super) fn units_to(self, level: f64) -> f64 {
        if level >= 1.0 {
            return f64::INFINITY;
        }
        let left = -(-level.max(0.0)).ln_1p();
        match self {
            Shape::Exponential { rate } => left / rate,
            Shape::Power { knee, exponent } => knee * (left / exponent).exp_m1(),
        }
    }
}

/// The shapes to try on a run that has done `seen` units and will do `total` (the same as `seen` where it is not known): from
/// nearly straight over the whole run to converged within the first hundredth of what was seen.
pub(super) fn candidates(seen: f64, total: f64) -> impl Iterator<Item = Shape> {
    const RATES: usize = 36;
    const KNEES: usize = 4;
    const EXPONENTS: [f64; 3] = [0.35, 0.8, 1.6];
    let total = total.max(seen);
    let (slowest, fastest) = (0.3 / total, 60.0 / seen);
    let rates = (0..RATES).map(move |n| slowest * (fastest / slowest).powf(n as f64 / (RATES - 1) as f64));
    let (small, large) = (0.003 * seen, 0.3 * total);
    let knees = (0..KNEES).map(move |n| small * (large / small).powf(n as f64 / (KNEES - 1) as f64));
    let powers = knees.flat_map(|knee| EXPONENTS.map(|exponent| Shape::Power { knee, exponent }));
    rates.map(|rate| Shape::Exponential { rate }).chain(powers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_reaches_the_level_where_it_says() {
        for shape in candidates(50.0, 400.0) {
            for level in [0.0, 0.1, 0.95] {
                let reached = shape.level(shape.units_to(level));
                assert!((reached - level).abs() < 1e-9, "{shape:?}: {reached} for {level}");
            }
            assert_eq!(shape.units_to(1.0), f64::INFINITY);
        }
    }
}
