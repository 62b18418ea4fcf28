//! The fitted learning curve: a set of candidates, each weighted by how well it explains the points.
//!
//! ## Approach
//!
//! Values are improvements over the first value. For each candidate [`Shape`] φ the two linear coefficients of
//! `value = base + height·φ(units)` follow in closed form (weighted least squares). The weight of a candidate is
//! `prior · SSE^(−ν/2)`, the likelihood with the unknown noise integrated out. ν counts points, not evaluations, because the errors of
//! neighbouring points are correlated where the shape does not fit. Falling candidates have no weight.
//!
//! All candidates together give a result: a forecast is their weighted mean, a number of units has their weighted quantiles. Early in a run
//! many candidates remain, and the interval is accordingly wide.
//!
//! The units to 95 % are computed from the candidates that have not reached it, unless nearly all have.
//!
//! Formulas alone are overconfident: real curves keep improving slowly, and a young one seems to have converged. If the total is known, a
//! strong prior applies: most trainings reach 95 % between a quarter and a half of it. The prior has long tails, so that the data can
//! override it.
//!
//! ## Cost
//!
//! Candidates × points: about 50 × 60 evaluations of a formula, below 20 µs, plus 6 × 60 searches in the points of each prior run.

use super::series::Point;
use super::shape::{Shape, candidates, stretched};
use crate::Estimate;
use crate::prior_run::PriorRun;

/// Fraction of the final improvement that counts as final quality.
const QUALITY: f64 = 0.95;

/// Minimum weight of a candidate, relative to the best.
const MIN_WEIGHT: f64 = 2e-3;

/// Maximum units of a forecast.
const MAX_UNITS: f64 = 1e12;

/// Minimum number of points for a fit.
const MIN_POINTS: usize = 3;

/// Fraction of the whole run at which 95 % is typically reached.
const TYPICAL_PLACE: f64 = 0.37;
/// Typical spread around it, in e-foldings.
const TYPICAL_FOLDS: f64 = 0.4;

/// Log prior of an exponential over a power law.
const EXPONENTIAL: f64 = 1.0;

/// 95 % counts as reached if the candidates that have not reached it have less total weight than this.
const STILL_AHEAD: f64 = 0.1;

/// Log prior of a prior run's curve over a formula.
const PRIOR_RUN: f64 = 3.0;

/// Allowed squared error of a prior run's curve relative to a formula's: it has noise itself, and the best of many formulas is chosen.
const PRIOR_RUN_ERROR: f64 = 3.0;

/// A candidate with its coefficients.
#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    shape: Shape<'a>,
    base: f64,
    height: f64,
    weight: f64,
}

/// A weighted set of curves. Values are improvements.
#[derive(Clone, Debug)]
pub(super) struct Fit<'a> {
    start: f64,
    candidates: Vec<Candidate<'a>>,
}

impl<'a> Fit<'a> {
    /// Fits `points` (units, improvement) from `start` units on. `None` if there are too few points, or if no candidate rises.
    pub(super) fn new(
        points: &[Point],
        start: f64,
        total: Option<f64>,
        prior_runs: impl Iterator<Item = &'a PriorRun>,
    ) -> Option<Fit<'a>> {
        let last = points.last()?;
        let seen = last.x - start;
        if points.len() < MIN_POINTS || !seen.is_finite() || seen <= 0.0 {
            return None;
        }
        let whole = total.map_or(seen, |total| total - start);
        let moments = Moments::of(points);
        let freedom = (points.len() as f64 - 2.0).max(1.0);
        let formulas = candidates(seen, whole).map(|shape| (shape, log_prior(shape, whole, total.is_some())));
        let preference = PRIOR_RUN + 0.5 * freedom * PRIOR_RUN_ERROR.ln();
        let curves_of_prior_runs = prior_runs
            .flat_map(|prior_run| stretched(prior_run, start, last.x, total))
            .map(|(shape, prior)| (shape, prior + preference));
        let mut tried: Vec<Candidate> = formulas
            .chain(curves_of_prior_runs)
            .filter_map(|(shape, prior)| {
                let (base, height, sse) = moments.solve(points, |x| shape.level((x - start).max(0.0)))?;
                Some(Candidate { shape, base, height, weight: prior - 0.5 * freedom * sse.ln() })
            })
            .collect();
        normalise(&mut tried);
        (!tried.is_empty()).then_some(Fit { start, candidates: tried })
    }

    /// Returns the expected value at `x`; before the start, the value at the start.
    pub(super) fn value(&self, x: f64) -> f64 {
        self.mean(|c| c.value((x - self.start).max(0.0)))
    }

    /// Returns the fraction of the final improvement over the value `from` that is reached at `x`, and the units from `x` to 95 % of it.
    /// The final value is that at `total`, or the asymptote if the total is unknown.
    pub(super) fn forecast(&self, from: Option<f64>, x: f64, total: Option<f64>) -> (f64, Estimate) {
        let now = (x - self.start).max(0.0);
        let end = total.map(|total| (total - self.start).max(now));
        let quality = self.mean(|c| c.quality(from, now, end));
        let units_left = |c: &Candidate| {
            let most = end.unwrap_or(f64::INFINITY) - now;
            ((c.units_to_quality(from, end) - now).clamp(0.0, most.clamp(0.0, MAX_UNITS)), c.weight)
        };
        let mut ahead: Vec<(f64, f64)> =
            self.candidates.iter().map(units_left).filter(|(left, _)| *left > 0.0).collect();
        let sum: f64 = ahead.iter().map(|(_, weight)| weight).sum();
        if sum < STILL_AHEAD {
            return (quality, Estimate::exactly(0.0));
        }
        ahead.iter_mut().for_each(|(_, weight)| *weight /= sum);
        (quality, quantiles(ahead))
    }

    /// Returns the improvement at `total`, or the asymptote if the total is unknown.
    pub(super) fn final_value(&self, total: Option<f64>) -> Estimate {
        let end = total.map(|total| (total - self.start).max(0.0));
        quantiles(self.candidates.iter().map(|c| (c.final_value(end), c.weight)).collect())
    }

    fn mean(&self, value: impl Fn(&Candidate) -> f64) -> f64 {
        self.candidates.iter().map(|candidate| candidate.weight * value(candidate)).sum()
    }
}

impl Candidate<'_> {
    fn value(&self, units: f64) -> f64 {
        self.base + self.height * self.shape.level(units)
    }

    fn final_value(&self, end: Option<f64>) -> f64 {
        end.map_or(self.base + self.height, |end| self.value(end))
    }

    fn quality(&self, from: Option<f64>, now: f64, end: Option<f64>) -> f64 {
        let from = from.unwrap_or(self.base);
        let whole = self.final_value(end) - from;
        if whole > 0.0 { ((self.value(now) - from) / whole).clamp(0.0, 1.0) } else { 1.0 }
    }

    fn units_to_quality(&self, from: Option<f64>, end: Option<f64>) -> f64 {
        let from = from.unwrap_or(self.base);
        let target = from + QUALITY * (self.final_value(end) - from);
        self.shape.units_to((target - self.base) / self.height)
    }
}

/// Sums over the points that do not depend on the shape.
struct Moments {
    weight: f64,
    mean: f64,
    least_sse: f64,
}

impl Moments {
    fn of(points: &[Point]) -> Moments {
        let weight: f64 = points.iter().map(weight_of).sum();
        let mean = points.iter().map(|p| weight_of(p) * p.y).sum::<f64>() / weight;
        let spread = points.iter().map(|p| weight_of(p) * (p.y - mean).powi(2)).sum::<f64>();
        // Printed values are rounded: no fit is better than a few thousandths of the spread.
        Moments { weight, mean, least_sse: (spread * 4e-6).max(f64::MIN_POSITIVE) }
    }

    /// Returns base, height and squared error of the best curve of one shape; `None` if it does not rise.
    fn solve(&self, points: &[Point], level: impl Fn(f64) -> f64) -> Option<(f64, f64, f64)> {
        let (mut sum_l, mut sum_ll, mut sum_ly, mut sum_yy) = (0.0, 0.0, 0.0, 0.0);
        for point in points {
            let (w, l, y) = (weight_of(point), level(point.x), point.y - self.mean);
            sum_l += w * l;
            sum_ll += w * l * l;
            sum_ly += w * l * y;
            sum_yy += w * y * y;
        }
        let variance = sum_ll - sum_l * sum_l / self.weight;
        let height = sum_ly / variance;
        if !height.is_finite() || height <= 0.0 {
            return None;
        }
        let base = self.mean - height * sum_l / self.weight;
        Some((base, height, (sum_yy - height * sum_ly).max(0.0) + self.least_sse))
    }
}

/// Returns the square root of the count, not the count, because errors of neighbouring evaluations are correlated.
fn weight_of(point: &Point) -> f64 {
    point.count.sqrt()
}

fn log_prior(shape: Shape<'_>, whole: f64, total_known: bool) -> f64 {
    let family = if matches!(shape, Shape::Power { .. }) { -EXPONENTIAL } else { 0.0 };
    if !total_known {
        return family;
    }
    let place = shape.units_to(QUALITY * shape.level(whole)) / whole;
    let folds = (place / TYPICAL_PLACE).ln() / TYPICAL_FOLDS;
    family - (1.0 + 0.5 * folds * folds).ln()
}

/// Turns log weights into weights that add up to one, and drops negligible candidates.
fn normalise(candidates: &mut Vec<Candidate>) {
    let best = candidates.iter().map(|c| c.weight).fold(f64::NEG_INFINITY, f64::max);
    candidates.iter_mut().for_each(|c| c.weight = (c.weight - best).exp());
    candidates.retain(|c| c.weight > MIN_WEIGHT);
    let sum: f64 = candidates.iter().map(|c| c.weight).sum();
    candidates.iter_mut().for_each(|c| c.weight /= sum);
}

/// Returns the counter at 95 % of the final improvement according to prior runs alone, for a run with too few points to fit.
pub(super) fn forecast_of_prior_runs<'a>(
    prior_runs: impl Iterator<Item = &'a PriorRun>,
    total: Option<f64>,
) -> Option<Estimate> {
    let units_to_quality = |(shape, prior): (Shape<'_>, f64)| {
        let whole = total.map_or(1.0, |total| shape.level(total));
        (shape.units_to(QUALITY * whole), prior.exp())
    };
    let mut weighted: Vec<(f64, f64)> =
        prior_runs.flat_map(|prior_run| stretched(prior_run, 0.0, 0.0, total)).map(units_to_quality).collect();
    let sum: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    weighted.iter_mut().for_each(|(_, weight)| *weight /= sum);
    (!weighted.is_empty()).then(|| quantiles(weighted))
}

/// Returns the 10 %, 50 % and 90 % quantiles of weighted values. Each value lies at the middle of its weight, with linear interpolation.
fn quantiles(mut weighted: Vec<(f64, f64)>) -> Estimate {
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |part: f64| {
        let mut below = 0.0;
        let mut before: Option<(f64, f64)> = None;
        for (value, weight) in &weighted {
            let middle = below + 0.5 * weight;
            if middle >= part {
                let (place, lower) = before.unwrap_or((middle - 1.0, *value));
                return lower + (value - lower) * (part - place) / (middle - place);
            }
            before = Some((middle, *value));
            below += weight;
        }
        before.map_or(0.0, |(_, value)| value)
    };
    Estimate { low: at(0.1), likely: at(0.5), high: at(0.9) }
}
