//! The learning curve of an earlier run of the same training: the best forecast for a run that has just begun.
//!
//! Trainings are often repeated with another seed, learning rate or number of epochs. The shape of an earlier curve then predicts more
//! than any formula fitted to the first few values. The curve of a completed run is therefore kept, and the fit of a later run tries it,
//! slightly stretched, beside the formulas. It is preferred only while it explains the values that this run prints.

use crate::{Direction, ProgressUnit};
use serde::{Deserialize, Serialize};

/// Minimum number of points.
const MIN_POINTS: usize = 8;

/// Last fraction of the units, whose mean is the final value; a single last value would be noisy.
const FINAL_PART: f64 = 0.05;

/// Minimum improvement of the whole run, in standard deviations of one value; less could be noise.
const MIN_RISE: f64 = 4.0;

/// The curve of a completed run, from [`Tracker::prior_run`](crate::Tracker::prior_run), for later runs of the same training.
///
/// It is stored with serde; [`PriorRun::is_valid`] checks what was read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriorRun {
    pub(super) direction: Direction,
    /// Unit of progress; `None` if printed evaluations are counted.
    pub(super) unit: Option<ProgressUnit>,
    /// CPU-seconds per unit, including the start of the job.
    #[serde(default)]
    pub(super) cpu_per_unit: Option<f64>,
    /// (units, fraction of the whole improvement), both rising, from level 0 to level 1.
    points: Vec<(f64, f64)>,
}

impl PriorRun {
    /// Builds the curve from (units, improvement, evaluations) of a whole run. `deviation` is the standard deviation of one improvement.
    /// `None` if the run did not clearly improve.
    pub(super) fn new(
        direction: Direction,
        unit: Option<ProgressUnit>,
        mut points: Vec<(f64, f64, f64)>,
        deviation: f64,
    ) -> Option<PriorRun> {
        points.retain(|(x, y, _)| x.is_finite() && y.is_finite());
        if points.len() < MIN_POINTS {
            return None;
        }
        average_final_part(&mut points);
        let rising = rising(&points);
        let (first, last) = (*rising.first()?, *rising.last()?);
        let rise = last.1 - first.1;
        if rise.is_nan() || rise <= MIN_RISE * deviation || last.0 <= first.0 {
            return None;
        }
        let mut points: Vec<(f64, f64)> = rising.iter().map(|(x, y)| (*x, (y - first.1) / rise)).collect();
        drop_between_equals(&mut points);
        Some(PriorRun { direction, unit, cpu_per_unit: None, points })
    }

    /// Sets the cost per unit from the CPU-seconds of the whole run.
    pub fn with_total_cost(self, cpu_s: f64) -> PriorRun {
        let cpu_per_unit = cpu_s / self.end();
        self.with_cost_per_unit(cpu_per_unit)
    }

    /// Sets the cost per unit, in CPU-seconds.
    pub fn with_cost_per_unit(self, cpu_per_unit: f64) -> PriorRun {
        PriorRun { cpu_per_unit: Some(cpu_per_unit).filter(|cost| cost.is_finite() && *cost > 0.0), ..self }
    }

    /// Whether a stored curve is valid: it rises from 0 to 1.
    pub fn is_valid(&self) -> bool {
        let sound = |(x, level): &(f64, f64)| x.is_finite() && (0.0..=1.0).contains(level);
        let rising = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        self.points.len() >= 2
            && self.cpu_per_unit.is_none_or(|cost| cost.is_finite() && cost > 0.0)
            && self.points.iter().all(sound)
            && self.points.windows(2).all(rising)
            && self.points.first().is_some_and(|point| point.1 == 0.0)
            && self.points.last().is_some_and(|point| point.1 == 1.0)
    }

    /// Units at the end of the run.
    pub(super) fn end(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.0)
    }

    /// Returns the fraction of the whole improvement at `units`. Beyond the end, each doubling of the units adds what the second half of
    /// the run added.
    pub(super) fn level(&self, units: f64) -> f64 {
        let end = self.end();
        if units > end {
            return 1.0 + self.creep() * (units / end).log2();
        }
        self.within(units)
    }

    /// Returns the smallest number of units at which `level` is reached; infinite if it is never reached.
    pub(super) fn units_to(&self, level: f64) -> f64 {
        if level > 1.0 {
            let creep = self.creep();
            return if creep > 0.0 { self.end() * ((level - 1.0) / creep).exp2() } else { f64::INFINITY };
        }
        let after = self.points.partition_point(|point| point.1 < level);
        let (Some(&(x1, y1)), Some(&(x0, y0))) =
            (self.points.get(after), after.checked_sub(1).and_then(|before| self.points.get(before)))
        else {
            return self.points.first().map_or(0.0, |point| point.0);
        };
        x0 + (x1 - x0) * (level - y0) / (y1 - y0)
    }

    /// Level gained over the last doubling.
    fn creep(&self) -> f64 {
        1.0 - self.within(0.5 * self.end())
    }

    fn within(&self, units: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 < units);
        match (after.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(after)) {
            (Some(&(x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (units - x0) / (x1 - x0),
            (None, _) => 0.0,
            (Some(_), None) => 1.0,
        }
    }
}

/// Drops the points between the first and the last of each level: they add no information.
fn drop_between_equals(points: &mut Vec<(f64, f64)>) {
    let all = std::mem::take(points);
    for (at, point) in all.iter().enumerate() {
        let level_at = |at: usize| all.get(at).map(|(_, level)| *level);
        let is_between = at > 0 && level_at(at - 1) == Some(point.1) && level_at(at + 1) == Some(point.1);
        if !is_between {
            points.push(*point);
        }
    }
}

/// Replaces the values of the final part by their mean.
fn average_final_part(points: &mut [(f64, f64, f64)]) {
    let (Some((first, _, _)), Some((last, _, _))) = (points.first().copied(), points.last().copied()) else { return };
    let from = points.partition_point(|(x, _, _)| *x < last - FINAL_PART * (last - first));
    let last_points = &mut points[from..];
    let count: f64 = last_points.iter().map(|(_, _, count)| count).sum();
    let mean = last_points.iter().map(|(_, y, count)| y * count).sum::<f64>() / count;
    last_points.iter_mut().for_each(|(_, y, _)| *y = mean);
}

/// Fits the nearest rising curve to the points by isotonic regression: falling neighbours are pooled. Otherwise noise would cross every
/// level too early.
fn rising(points: &[(f64, f64, f64)]) -> Vec<(f64, f64)> {
    // (mean value, evaluations, number of points)
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (_, y, count) in points {
        pools.push((*y, *count, 1));
        while let [.., before, last] = pools.as_mut_slice()
            && before.0 > last.0
        {
            let count = before.1 + last.1;
            before.0 += (last.0 - before.0) * (last.1 / count);
            (before.1, before.2) = (count, before.2 + last.2);
            pools.pop();
        }
    }
    let levels = pools.iter().flat_map(|(y, _, points)| std::iter::repeat_n(*y, *points));
    points.iter().zip(levels).map(|((x, _, _), y)| (*x, y)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prior_run(values: impl Iterator<Item = (f64, f64)>) -> Option<PriorRun> {
        PriorRun::new(Direction::Down, None, values.map(|(x, y)| (x, y, 1.0)).collect(), 0.01)
    }

    #[test]
    fn units_to_a_level_are_the_inverse_of_the_curve_within_the_run_and_beyond() {
        let curve = prior_run((1..=50).map(|n| (f64::from(n), 1.0 - 0.9f64.powi(n)))).expect("it rises");
        assert!(curve.is_valid());
        for level in [0.01, 0.3, 0.95, 1.0, 1.002] {
            assert!((curve.level(curve.units_to(level)) - level).abs() < 1e-9, "{level}");
        }
        assert!(curve.level(100.0) > 1.0 && curve.level(100.0) < 1.2, "it keeps rising slowly");
    }

    #[test]
    fn noise_does_not_cross_a_level_early() {
        // 95 % of the improvement is reached at 76 of 200; single values exceed it from 50 on.
        let noise = |n: u32| (f64::from(n * 7919 % 1009) / 1009.0 - 0.5) * 0.2;
        let curve = prior_run((0..200).map(|n| (f64::from(n), 1.0 - (-0.04 * f64::from(n)).exp() + noise(n))));
        let at = curve.expect("it rises").units_to(0.95);
        assert!((60.0..110.0).contains(&at), "{at}");
    }

    #[test]
    fn a_run_that_did_not_improve_is_not_kept() {
        assert_eq!(prior_run((0..50).map(|n| (f64::from(n), 0.01 * f64::from(n * 7919 % 5)))), None, "noise");
        assert_eq!(prior_run((0..50).map(|n| (f64::from(n), -f64::from(n)))), None, "it falls");
        assert_eq!(prior_run((0..5).map(|n| (f64::from(n), f64::from(n)))), None, "too short");
        assert_eq!(prior_run((0..50).map(|n| (3.0, f64::from(n)))), None, "nothing is counted");
    }
}
