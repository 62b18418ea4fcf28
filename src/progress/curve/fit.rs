//! The fitted learning curve: not one best curve but all candidates, each weighed by how well it explains the points.
//!
//! ## Approach
//!
//! Values are turned so that up is better and counted from the first. For each candidate [`Shape`] φ the two linear coefficients of
//! `value = base + height·φ(units)` follow in closed form (weighted least squares). A candidate weighs
//! `prior · SSE^(−ν/2)`, the likelihood with the unknown noise integrated out, where ν counts points, not evaluations: what a shape
//! cannot express makes neighbouring points err alike. Candidates that would fall are no learning curves and weigh nothing.
//!
//! Every question is then answered by all candidates together: a forecast is their weighted mean, a number of units the weighted
//! quantiles of their answers. A young run leaves many candidates alive, and the interval is as wide as it should be.
//!
//! How far it is to 95 % is asked of the candidates for which it is still ahead, unless nearly all say that it was reached: what is
//! behind already is no distance.
//!
//! Formulas are too sure of themselves: real curves creep, and a young one seems to be done. Where the whole is known, most trainings
//! reach 95 % between a quarter and a half of it, whatever they are, and that is a strong prior. Its tails are long, so that a curve
//! that is otherwise is believed once it shows it.
//!
//! ## Cost
//!
//! Candidates × points: about 50 × 60 evaluations of a formula, below 20 µs, and for each prior run 6 × 60 searches in its points.

use super::series::Point;
use super::shape::{Shape, candidates, stretched};
use crate::model::Estimate;
use crate::progress::prior_run::PriorRun;

/// Quality that counts as reached, of the final improvement.
const QUALITY: f64 = 0.95;

/// Candidates lighter than this are dropped.
const LEAST_WEIGHT: f64 = 2e-3;

/// Further away is as good as never.
const MOST_UNITS: f64 = 1e12;

/// Points needed before any curve is fitted.
const LEAST_POINTS: usize = 3;

/// Part of the whole run at which 95 % is reached typically, and how many e-foldings around it are ordinary.
const TYPICAL_PLACE: f64 = 0.37;
const ORDINARY_FOLDS: f64 = 0.4;

/// Logarithm of how much more probable an exponential is than a power law.
const EXPONENTIAL: f64 = 1.0;

/// 95 % was reached if the candidates for which it is still ahead weigh less than this together.
const STILL_AHEAD: f64 = 0.1;

/// Logarithm of how much more probable an earlier run's curve is than a formula.
const PRIOR_RUN: f64 = 3.0;

/// A prior run carries noise of its own, and formulas are chosen among many: its squared error may be so many times theirs.
const PRIOR_RUN_ERROR: f64 = 3.0;

/// One candidate with its coefficients.
#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    shape: Shape<'a>,
    base: f64,
    height: f64,
    weight: f64,
}

/// A weighed set of curves. Values are improvements: up is better.
#[derive(Clone, Debug)]
pub(super) struct Fit<'a> {
    start: f64,
    candidates: Vec<Candidate<'a>>,
}

impl<'a> Fit<'a> {
    /// Fits `points` (values turned so that up is better) from `start` units on. `None` while there are too few points, or when
    /// nothing rises.
    pub(super) fn new(
        points: &[Point],
        start: f64,
        total: Option<f64>,
        prior_runs: impl Iterator<Item = &'a PriorRun>,
    ) -> Option<Fit<'a>> {
        let last = points.last()?;
        let seen = last.x - start;
        if points.len() < LEAST_POINTS || !seen.is_finite() || seen <= 0.0 {
            return None;
        }
        let whole = total.map_or(seen, |total| total - start);
        let moments = Moments::of(points);
        let freedom = (points.len() as f64 - 2.0).max(1.0);
        let formulas = candidates(seen, whole).map(|shape| (shape, log_prior(shape, whole, total.is_some())));
        let in_favour = PRIOR_RUN + 0.5 * freedom * PRIOR_RUN_ERROR.ln();
        let seen_before = prior_runs
            .flat_map(|prior_run| stretched(prior_run, start, last.x, total))
            .map(|(shape, prior)| (shape, prior + in_favour));
        let mut tried: Vec<Candidate> = formulas
            .chain(seen_before)
            .filter_map(|(shape, prior)| {
                let (base, height, sse) = moments.solve(points, |x| shape.level((x - start).max(0.0)))?;
                Some(Candidate { shape, base, height, weight: prior - 0.5 * freedom * sse.ln() })
            })
            .collect();
        normalise(&mut tried);
        (!tried.is_empty()).then_some(Fit { start, candidates: tried })
    }

    /// Expected value at `x`; before the start, that at the start.
    pub(super) fn value(&self, x: f64) -> f64 {
        self.mean(|c| c.value((x - self.start).max(0.0)))
    }

    /// Share of the final improvement since `from` (a value) had at `x`, and the units from `x` to 95 % of it. The final value is
    /// that at `total`, or the asymptote where the total is not known.
    pub(super) fn forecast(&self, from: Option<f64>, x: f64, total: Option<f64>) -> (f64, Estimate) {
        let now = (x - self.start).max(0.0);
        let end = total.map(|total| (total - self.start).max(now));
        let quality = self.mean(|c| c.quality(from, now, end));
        let answer = |c: &Candidate| {
            let most = end.unwrap_or(f64::INFINITY) - now;
            ((c.units_to_quality(from, end) - now).clamp(0.0, most.clamp(0.0, MOST_UNITS)), c.weight)
        };
        let mut ahead: Vec<(f64, f64)> = self.candidates.iter().map(answer).filter(|(left, _)| *left > 0.0).collect();
        let sum: f64 = ahead.iter().map(|(_, weight)| weight).sum();
        if sum < STILL_AHEAD {
            return (quality, Estimate { low: 0.0, likely: 0.0, high: 0.0 });
        }
        ahead.iter_mut().for_each(|(_, weight)| *weight /= sum);
        (quality, quantiles(ahead))
    }

    fn mean(&self, answer: impl Fn(&Candidate) -> f64) -> f64 {
        self.candidates.iter().map(|candidate| candidate.weight * answer(candidate)).sum()
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
        // Printed values are rounded: nothing is explained better than to a few thousandths of the spread.
        Moments { weight, mean, least_sse: (spread * 4e-6).max(f64::MIN_POSITIVE) }
    }

    /// Base, height and squared error of the best curve of one shape; `None` if it does not rise.
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

/// A point of many evaluations is surer than one of few, but neighbouring evaluations err alike.
fn weight_of(point: &Point) -> f64 {
    point.count.sqrt()
}

fn log_prior(shape: Shape<'_>, whole: f64, total_known: bool) -> f64 {
    let family = if matches!(shape, Shape::Power { .. }) { -EXPONENTIAL } else { 0.0 };
    if !total_known {
        return family;
    }
    let place = shape.units_to(QUALITY * shape.level(whole)) / whole;
    let folds = (place / TYPICAL_PLACE).ln() / ORDINARY_FOLDS;
    family - (1.0 + 0.5 * folds * folds).ln()
}

/// From logarithms to weights that add up to one, without the negligible.
fn normalise(candidates: &mut Vec<Candidate>) {
    let best = candidates.iter().map(|c| c.weight).fold(f64::NEG_INFINITY, f64::max);
    candidates.iter_mut().for_each(|c| c.weight = (c.weight - best).exp());
    candidates.retain(|c| c.weight > LEAST_WEIGHT);
    let sum: f64 = candidates.iter().map(|c| c.weight).sum();
    candidates.iter_mut().for_each(|c| c.weight /= sum);
}

/// Units on the counter at 95 % of the final improvement, as prior runs alone have it: before a run has printed enough to fit anything.
pub(super) fn foreseen<'a>(prior_runs: impl Iterator<Item = &'a PriorRun>, total: Option<f64>) -> Option<Estimate> {
    let answer = |(shape, prior): (Shape<'_>, f64)| {
        let whole = total.map_or(1.0, |total| shape.level(total));
        (shape.units_to(QUALITY * whole), prior.exp())
    };
    let mut answers: Vec<(f64, f64)> =
        prior_runs.flat_map(|prior_run| stretched(prior_run, 0.0, 0.0, total)).map(answer).collect();
    let sum: f64 = answers.iter().map(|(_, weight)| weight).sum();
    answers.iter_mut().for_each(|(_, weight)| *weight /= sum);
    (!answers.is_empty()).then(|| quantiles(answers))
}

/// The 10 %, 50 % and 90 % quantiles of weighted answers: each stands at the middle of its weight, straight lines between.
fn quantiles(mut answers: Vec<(f64, f64)>) -> Estimate {
    answers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |part: f64| {
        let mut below = 0.0;
        let mut before: Option<(f64, f64)> = None;
        for (answer, weight) in &answers {
            let middle = below + 0.5 * weight;
            if middle >= part {
                let (place, value) = before.unwrap_or((middle - 1.0, *answer));
                return value + (answer - value) * (part - place) / (middle - place);
            }
            before = Some((middle, *answer));
            below += weight;
        }
        before.map_or(0.0, |(_, answer)| answer)
    };
    Estimate { low: at(0.1), likely: at(0.5), high: at(0.9) }
}
