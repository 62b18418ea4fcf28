//! The families of learning curves that are fitted, each rising from 0 at the start towards 1.
//!
//! - exponential approach `1 − e^(−k·u)`: gradient descent near a minimum, boosting;
//! - power law `1 − (1 + u/s)^(−p)`: language models and everything with a long tail;
//! - a prior run: the curve of an earlier run of the same training, stretched.
//!
//! All can be solved for the units at which a level is reached. Imports: the prior runs.

use crate::progress::prior_run::PriorRun;

/// How improvement goes with units `u` since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape<'a> {
    /// `1 − e^(−rate·u)`
    Exponential { rate: f64 },
    /// `1 − (1 + u/knee)^(−exponent)`
    Power { knee: f64, exponent: f64 },
    /// What took the earlier run a unit takes `stretch` units; `start` is where this run's curve begins on the counter.
    Seen { prior_run: &'a PriorRun, stretch: f64, start: f64 },
}

impl Shape<'_> {
    /// Level at `units`, 0 ..= 1; a prior run creeps on beyond its end.
    pub(super) fn level(self, units: f64) -> f64 {
        match self {
            Shape::Exponential { rate } => -(-rate * units).exp_m1(),
            Shape::Power { knee, exponent } => 1.0 - (-exponent * (1.0 + units / knee).ln()).exp(),
            Shape::Seen { prior_run, stretch, start } => prior_run.level((start + units) / stretch),
        }
    }

    /// Units at which `level` is reached; infinite if it never is.
    pub(super) fn units_to(self, level: f64) -> f64 {
        let left = if level < 1.0 { -(-level.max(0.0)).ln_1p() } else { f64::INFINITY };
        match self {
            Shape::Exponential { rate } => left / rate,
            Shape::Power { knee, exponent } => knee * (left / exponent).exp_m1(),
            Shape::Seen { prior_run, stretch, start } => prior_run.units_to(level) * stretch - start,
        }
    }
}

/// The shapes to try on a run that has done `seen` units and will do `total` (the same as `seen` where it is not known): from
/// nearly straight over the whole run to converged within the first hundredth of what was seen.
pub(super) fn candidates(seen: f64, total: f64) -> impl Iterator<Item = Shape<'static>> {
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

/// How differently fast a run of the same training learns, with the logarithm of how probable that is.
const STRETCHES: [(f64, f64); 5] = [(0.5, -2.0), (0.7, -0.7), (1.0, 0.0), (1.4, -0.7), (2.0, -2.0)];

/// A run of another length, if its schedule of learning rates is stretched with it.
const STRETCHED_WITH_THE_LENGTH: f64 = -0.7;

/// A prior run that covers less than this part of a run says too little about its rest: a trial of ten epochs about a thousand.
const COVERS: f64 = 0.4;

/// A prior run on a run whose curve begins at `start`, that is at `now`, and that ends at `total`, each stretch with the logarithm of its
/// prior.
pub(super) fn stretched(
    prior_run: &PriorRun,
    start: f64,
    now: f64,
    total: Option<f64>,
) -> impl Iterator<Item = (Shape<'_>, f64)> {
    let run = total.unwrap_or(now);
    let covers = move |(stretch, _): &(f64, f64)| stretch * prior_run.end() >= COVERS * run;
    let longer = total.map(|total| total / prior_run.end()).filter(|ratio| (0.01..=100.0).contains(ratio));
    let longer = longer.map(|stretch| (stretch, STRETCHED_WITH_THE_LENGTH));
    let seen = move |(stretch, prior)| (Shape::Seen { prior_run, stretch, start }, prior);
    STRETCHES.into_iter().chain(longer).filter(covers).map(seen)
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
