//! Sweeps as measured: `config/scenarios/sweep-curves.csv` has one trial per row, with the values at the end of each epoch. Each seed is
//! one of the sweeps, with other starts and other costs of the trials.

use super::NodeShape;
use crate::curve::{LearningCurve, Shape};
use crate::job::{JobPlan, SweepPlan};
use crate::random::Stream;
use model::Direction;

/// Made by `integration/bench/sweep-curves`.
const CURVES: &str = include_str!("../../../config/scenarios/sweep-curves.csv");

/// The sweeps on which the policy was tuned; the others come from other data and models.
const TUNED_ON: std::ops::RangeInclusive<u64> = 1..=6;
const UNSEEN: std::ops::RangeInclusive<u64> = 7..=12;

/// Node-CPU-seconds of a trial, and how much faster or slower its parameters can make it.
const SIZE_NODE_S: f64 = 40.0;
const SPREAD: f64 = 1.5;

const START_WITHIN_S: f64 = 10.0;

/// Draws the trials of one seed.
pub(super) fn trials(unseen: bool, node: &NodeShape, seed: u64, draws: &mut Stream) -> Vec<JobPlan> {
    let sweeps = if unseen { UNSEEN } else { TUNED_ON };
    let wanted = sweeps.start() + seed % (sweeps.end() - sweeps.start() + 1);
    let rows = CURVES.lines().skip(1).filter_map(measured).filter(|row| row.sweep == wanted);
    rows.enumerate()
        .map(|(number, Measured { direction, values, .. })| {
            let size = SIZE_NODE_S * draws.log_uniform(1.0 / SPREAD, SPREAD);
            let start_s = draws.uniform(0.0, START_WITHIN_S);
            let name = format!("trial-{}", number + 1);
            let plan = JobPlan::on_all_cores(&name, node.cores, (start_s, size), values.len(), through(&values));
            JobPlan { sweep: Some(SweepPlan { name: format!("sweep-{wanted}"), direction }), ..plan }
        })
        .collect()
}

struct Measured {
    sweep: u64,
    direction: Direction,
    values: Vec<f64>,
}

/// Parses a row; the file is checked by a test.
fn measured(row: &str) -> Option<Measured> {
    let mut cells = row.split(',');
    let sweep = cells.next()?.parse().ok()?;
    let direction = if cells.nth(1)? == "max" { Direction::Up } else { Direction::Down };
    let values = cells.map(|cell| cell.parse().ok()).collect::<Option<Vec<f64>>>()?;
    Some(Measured { sweep, direction, values })
}

/// The curve that has these values at the end of each epoch.
fn through(values: &[f64]) -> LearningCurve {
    let (from, last) = (values[0], values[values.len() - 1]);
    // The scale must not be zero.
    let to = if last == from { from + f64::EPSILON * from.abs().max(1.0) } else { last };
    let ends = (1..).map(|epoch: usize| epoch as f64 / values.len() as f64).zip(values);
    let points = ends.map(|(work, value)| (work, (value - from) / (to - from)));
    let points: Vec<(f64, f64)> = std::iter::once((0.0, 0.0)).chain(points).collect();
    LearningCurve { from, to, noise: 0.0, shape: Shape::Samples(points.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_trial_and_prints_what_was_measured() {
        assert_eq!(CURVES.lines().skip(1).filter_map(measured).count(), CURVES.lines().count() - 1);
        for (unseen, seed) in [(false, 0), (false, 5), (true, 1), (true, 11)] {
            let trials = trials(unseen, &NodeShape::default(), seed, &mut Stream::new(seed, 0));
            assert_eq!(trials.len(), 16);
            for trial in trials {
                let at_the_end = trial.curve.value(1.0);
                let row = CURVES.lines().skip(1).filter_map(measured);
                let is_measured =
                    |row: &Measured| row.values.last().is_some_and(|last| (last - at_the_end).abs() < 1e-9);
                assert!(row.into_iter().any(|row| is_measured(&row)), "{}: {at_the_end}", trial.name);
            }
        }
    }
}
