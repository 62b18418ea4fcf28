//! The families of fitted learning curves. Each rises from 0 at the start towards 1.
//!
//! - exponential approach `1 − e^(−k·u)`: gradient descent near a minimum, boosting;
//! - power law `1 − (1 + u/s)^(−p)`: language models and other curves with a long tail;
//! - a prior run: the stretched curve of an earlier run of the same training.
//!
//! Each can be solved for the units at which a level is reached.

use crate::prior_run::PriorRun;

/// Improvement as a function of the units `u` since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape<'a> {
    /// `1 − e^(−rate·u)`
    Exponential { rate: f64 },
    /// `1 − (1 + u/knee)^(−exponent)`
    Power { knee: f64, exponent: f64 },
    /// The curve of an earlier run, with `stretch` units for each of its units; `start` is the counter at the start of this run's curve.
    PriorRun { prior_run: &'a PriorRun, stretch: f64, start: f64 },
}

impl Shape<'_> {
    /// Returns the level at `units`, 0 ..= 1; a prior run exceeds 1 slowly beyond its end.
    pub(super) fn level(self, units: f64) -> f64 {
        match self {
            Shape::Exponential { rate } => -(-rate * units).exp_m1(),
            Shape::Power { knee, exponent } => 1.0 - (-exponent * (1.0 + units / knee).ln()).exp(),
            Shape::PriorRun { prior_run, stretch, start } => prior_run.level((start + units) / stretch),
        }
    }

    /// Returns the units at which `level` is reached; infinite if it is never reached.
    pub(super) fn units_to(self, level: f64) -> f64 {
        let left = if level < 1.0 { -(-level.max(0.0)).ln_1p() } else { f64::INFINITY };
        match self {
            Shape::Exponential { rate } => left / rate,
            Shape::Power { knee, exponent } => knee * (left / exponent).exp_m1(),
            Shape::PriorRun { prior_run, stretch, start } => prior_run.units_to(level) * stretch - start,
        }
    }
}

/// Returns the shapes to try for a run that has done `seen` units of `total` (`seen` if the total is unknown): from nearly straight over
/// the whole run to converged within the first hundredth of `seen`.
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

/// Stretches of a prior run, each with its log prior.
const STRETCHES: [(f64, f64); 5] = [(0.5, -2.0), (0.7, -0.7), (1.0, 0.0), (1.4, -0.7), (2.0, -2.0)];

/// Log prior of a stretch by the ratio of the lengths, as when the learning rate schedule is stretched with the run.
const STRETCHED_WITH_THE_LENGTH: f64 = -0.7;

/// Minimum fraction of a run that a prior run must cover: a trial of ten epochs says too little about a run of a thousand.
const MIN_COVERAGE: f64 = 0.4;

/// Returns the stretched curves of a prior run with their log priors, for a run whose curve begins at `start`, whose counter is at `now`,
/// and that ends at `total`.
pub(super) fn stretched(
    prior_run: &PriorRun,
    start: f64,
    now: f64,
    total: Option<f64>,
) -> impl Iterator<Item = (Shape<'_>, f64)> {
    let run = total.unwrap_or(now);
    let covers = move |(stretch, _): &(f64, f64)| stretch * prior_run.end() >= MIN_COVERAGE * run;
    let by_length = total.map(|total| total / prior_run.end()).filter(|ratio| (0.01..=100.0).contains(ratio));
    let by_length = by_length.map(|stretch| (stretch, STRETCHED_WITH_THE_LENGTH));
    let shape = move |(stretch, prior)| (Shape::PriorRun { prior_run, stretch, start }, prior);
    STRETCHES.into_iter().chain(by_length).filter(covers).map(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_to_a_level_are_the_inverse_of_every_shape() {
        for shape in candidates(50.0, 400.0) {
            for level in [0.0, 0.1, 0.95] {
                let reached = shape.level(shape.units_to(level));
                assert!((reached - level).abs() < 1e-9, "{shape:?}: {reached} for {level}");
            }
            assert_eq!(shape.units_to(1.0), f64::INFINITY);
        }
    }
}
