//! Evaluations against progress units, thinned to a few dozen points for any length of a run.
//!
//! A learning curve is steep at first and flat later, so the points are denser at the beginning: each point spans about the same fraction
//! of (units since the start + a sixteenth of all units). Points are appended, and one pass merges neighbours when there are too many. The
//! cost per evaluation is constant.

use crate::plausible;
use serde::{Deserialize, Serialize};

/// Maximum number of points; more are thinned.
const MAX_POINTS: usize = 56;

/// Maximum number of points after thinning.
const THINNED: usize = 36;

/// Evaluations merged into one point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    /// Mean units.
    pub(super) x: f64,
    /// Mean value.
    pub(super) y: f64,
    /// Number of evaluations.
    pub(super) count: f64,
}

impl Point {
    /// Whether all values are plausible.
    pub(super) fn is_plausible(&self) -> bool {
        let Point { x, y, count } = *self;
        [x, y, count].into_iter().all(plausible::number) && count >= 1.0
    }

    fn merged(self, other: Point) -> Point {
        let count = self.count + other.count;
        let mean = |a: f64, b: f64| a + (b - a) * (other.count / count);
        Point { x: mean(self.x, other.x), y: mean(self.y, other.y), count }
    }
}

/// A bounded series of points with rising x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Series {
    points: Vec<Point>,
}

impl Series {
    /// Appends an evaluation at `x`, which is not before the last one.
    pub(super) fn push(&mut self, x: f64, y: f64) {
        let point = Point { x, y, count: 1.0 };
        match self.points.last_mut() {
            Some(last) if last.x >= x => *last = last.merged(point),
            _ => self.points.push(point),
        }
        if self.points.len() > MAX_POINTS {
            self.thin();
        }
    }

    /// The points, oldest first.
    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whether all points are plausible.
    pub(super) fn is_plausible(&self) -> bool {
        let rises = self.points.windows(2).all(|pair| pair[0].x < pair[1].x);
        self.points.len() <= MAX_POINTS && rises && self.points.iter().all(Point::is_plausible)
    }

    /// Forgets all points after `x`.
    pub(super) fn forget_after(&mut self, x: f64) {
        self.points.retain(|point| point.x <= x);
    }

    /// Removes and returns all points before `x`, but keeps the last point.
    pub(super) fn forget_before(&mut self, x: f64) -> impl Iterator<Item = Point> {
        let kept = self.points.partition_point(|point| point.x < x).min(self.points.len().saturating_sub(1));
        self.points.drain(..kept)
    }

    fn thin(&mut self) {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return };
        let (start, sixteenth) = (first.x, (last.x - first.x) / 16.0);
        // ∫ dx/(x + X/16) over 0 … X is ln 17: the width of each group if all groups were full.
        let mut part = 17.0f64.ln() / THINNED as f64;
        loop {
            let merged = merge_within(&self.points, |a, b| {
                let middle = f64::midpoint(a.x, b.x) - start;
                b.x - a.x <= part * (middle + sixteenth)
            });
            if merged.len() <= THINNED || part > 1e3 {
                self.points = merged;
                return;
            }
            part *= 1.15;
        }
    }
}

/// Merges neighbours into groups whose first and last points are `near`.
fn merge_within(points: &[Point], near: impl Fn(&Point, &Point) -> bool) -> Vec<Point> {
    let mut merged: Vec<Point> = Vec::with_capacity(points.len());
    let mut group_start: Option<Point> = None;
    for point in points {
        match (group_start, merged.last_mut()) {
            (Some(start), Some(group)) if near(&start, point) => *group = group.merged(*point),
            _ => {
                group_start = Some(*point);
                merged.push(*point);
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_evaluations_are_thinned_to_a_few_dozen_points_with_the_same_mean() {
        let mut series = Series::default();
        for step in 0..1_000_000u64 {
            series.push(step as f64, 1.0 / (1.0 + step as f64));
        }
        let points = series.points();
        assert!((20..=MAX_POINTS).contains(&points.len()), "{} points", points.len());
        assert!(points.windows(2).all(|pair| pair[0].x < pair[1].x));
        let count: f64 = points.iter().map(|point| point.count).sum();
        let mean: f64 = points.iter().map(|point| point.count * point.y).sum::<f64>() / count;
        let harmonic: f64 = (1..=1_000_000u64).map(|n| 1.0 / n as f64).sum();
        assert!((count - 1e6).abs() < 0.5 && (mean - harmonic / 1e6).abs() < 1e-12);
        assert!(points[5].x < 0.05 * 1e6, "dense at the beginning");
    }

    #[test]
    fn evaluations_at_one_counter_value_are_merged_into_one_point() {
        let mut series = Series::default();
        for value in [1.0, 2.0, 3.0] {
            series.push(7.0, value);
        }
        assert_eq!(series.points(), [Point { x: 7.0, y: 2.0, count: 3.0 }]);
    }
}
