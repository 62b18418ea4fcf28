//! True learning curves: the evaluation function over the work done, without noise and with the noise of a log.
//!
//! Work is a fraction 0 ..= 1 of the job's whole work, improvement a fraction 0 ..= 1 of the final improvement, so that "95 % quality" is
//! an exact point on each curve.

use super::random::Stream;
use model::Direction;
use std::sync::Arc;

/// The improvement as a function of work, normalised to 0 at the start and 1 at the end.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// `1 − e^(−rate·x)`.
    Exponential {
        /// Number of time constants in the whole work.
        rate: f64,
    },
    /// `1 − (1 + x/knee)^(−exponent)`.
    Power {
        /// Exponent of the power law.
        exponent: f64,
        /// Part of the work after which the curve flattens.
        knee: f64,
    },
    /// Exponential approach to a series of plateaus, as with drops of the learning rate.
    Plateaus(Vec<RateStage>),
    /// Measured points (work, improvement) with linear interpolation; the first is (0, 0), the last (1, 1).
    Samples(Arc<[(f64, f64)]>),
}

/// A stage with one learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStage {
    /// Work at the end of the stage, 0 ..= 1; the last is 1.
    pub until: f64,
    /// Improvement at its end, 0 ..= 1; the last is 1.
    pub level: f64,
    /// Number of time constants within the stage.
    pub rate: f64,
}

/// An evaluation function over work.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurve {
    /// Value before any work.
    pub from: f64,
    /// True value at the end of the work.
    pub to: f64,
    /// Standard deviation of a printed value at the start, as a part of `|to − from|`; a third of it at the end.
    pub noise: f64,
    /// The shape of the curve between them.
    pub shape: Shape,
}

/// Probability that a printed value is an outlier, and the factor on its deviation.
const OUTLIER_CHANCE: f64 = 0.01;
const OUTLIER_WIDTH: f64 = 4.0;

impl LearningCurve {
    /// Returns the improvement at `work`, both fractions.
    pub fn improvement(&self, work: f64) -> f64 {
        let x = work.clamp(0.0, 1.0);
        match &self.shape {
            Shape::Exponential { rate } => approach(*rate, x),
            Shape::Power { exponent, knee } => {
                let fall = |x: f64| 1.0 - (1.0 + x / knee).powf(-exponent);
                fall(x) / fall(1.0)
            }
            Shape::Plateaus(stages) => staged(stages, x),
            Shape::Samples(points) => interpolate(points, x),
        }
    }

    /// Returns the true value at `work`.
    pub fn value(&self, work: f64) -> f64 {
        self.from + (self.to - self.from) * self.improvement(work)
    }

    /// Draws the value that the job prints at `work`: noise is larger early, with occasional outliers. Measured curves contain their noise
    /// already.
    pub fn printed(&self, work: f64, draws: &mut Stream) -> f64 {
        let outlier = if draws.uniform(0.0, 1.0) < OUTLIER_CHANCE { OUTLIER_WIDTH } else { 1.0 };
        let deviation = self.noise * (self.to - self.from).abs() * (1.0 - 2.0 / 3.0 * self.improvement(work)) * outlier;
        self.value(work) + deviation * draws.normal()
    }

    /// Returns the least work at which `improvement` is reached, both fractions.
    pub fn work_to(&self, improvement: f64) -> f64 {
        match &self.shape {
            Shape::Samples(points) => first_crossing(points, improvement),
            _ => bisect(|work| self.improvement(work) >= improvement),
        }
    }

    /// The direction in which the values improve.
    pub fn direction(&self) -> Direction {
        if self.to > self.from { Direction::Up } else { Direction::Down }
    }
}

/// Exponential approach, normalised to reach 1 at x = 1.
fn approach(rate: f64, x: f64) -> f64 {
    (-rate * x).exp_m1() / (-rate).exp_m1()
}

fn staged(stages: &[RateStage], x: f64) -> f64 {
    let (mut start, mut low) = (0.0, 0.0);
    for stage in stages {
        if x <= stage.until {
            return low + (stage.level - low) * approach(stage.rate, (x - start) / (stage.until - start));
        }
        (start, low) = (stage.until, stage.level);
    }
    low
}

fn interpolate(points: &[(f64, f64)], x: f64) -> f64 {
    let after = points.partition_point(|point| point.0 < x);
    match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
        (Some(&(x0, y0)), Some(&(x1, y1))) if x1 > x0 => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (_, Some(&(_, y))) | (Some(&(_, y)), None) => y,
        (None, None) => x,
    }
}

fn first_crossing(points: &[(f64, f64)], improvement: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for &(x, y) in points {
        if y >= improvement {
            let part = if y > before.1 { (improvement - before.1) / (y - before.1) } else { 1.0 };
            return before.0 + (x - before.0) * part.clamp(0.0, 1.0);
        }
        before = (x, y);
    }
    1.0
}

/// Returns the least x in 0 ..= 1 at which a monotone `reached` holds; 1 if it never does.
fn bisect(reached: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if reached(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(shape: Shape) -> LearningCurve {
        LearningCurve { from: 2.3, to: 0.1, noise: 0.01, shape }
    }

    fn shapes() -> Vec<Shape> {
        vec![
            Shape::Exponential { rate: 6.0 },
            Shape::Power { exponent: 0.7, knee: 0.02 },
            Shape::Plateaus(vec![
                RateStage { until: 0.6, level: 0.5, rate: 8.0 },
                RateStage { until: 1.0, level: 1.0, rate: 6.0 },
            ]),
            Shape::Samples([(0.0, 0.0), (0.2, 0.7), (0.3, 0.65), (1.0, 1.0)].into()),
        ]
    }

    #[test]
    fn every_curve_starts_at_from_and_ends_at_to() {
        for shape in shapes() {
            let curve = curve(shape);
            assert!((curve.value(0.0) - 2.3).abs() < 1e-12, "{curve:?}");
            assert!((curve.value(1.0) - 0.1).abs() < 1e-12, "{curve:?}");
        }
    }

    #[test]
    fn the_work_to_a_quality_reaches_exactly_that_quality() {
        for shape in shapes() {
            let curve = curve(shape);
            for quality in [0.1, 0.5, 0.95] {
                assert!((curve.improvement(curve.work_to(quality)) - quality).abs() < 1e-9, "{curve:?} at {quality}");
            }
        }
    }

    #[test]
    fn a_measured_curve_reaches_a_quality_at_its_first_crossing() {
        let curve = curve(Shape::Samples([(0.0, 0.0), (0.2, 0.7), (0.3, 0.65), (1.0, 1.0)].into()));
        assert!((curve.work_to(0.7) - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_plateau_ends_with_the_learning_rate_drop() {
        let curve = curve(shapes().remove(2));
        assert!(curve.improvement(0.59) - curve.improvement(0.4) < 0.01, "flat before the drop");
        assert!(curve.improvement(0.7) - curve.improvement(0.6) > 0.2, "steep after the drop");
    }
}
