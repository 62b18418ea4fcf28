//! What `top` has seen of the jobs since it was started: shares over time, and the evaluations of the job that is looked at.
//!
//! Bounded: a trace that is full keeps every second point. Pure. Imports: wire types.

use crate::api::wire::{Container, ContainerDetail};
use std::collections::VecDeque;

/// Points of one trace.
const POINTS_AT_MOST: usize = 240;

/// Evaluations of one curve.
const EVALUATIONS_AT_MOST: usize = 4096;

/// Log lines that are kept of the job that is looked at.
const LINES_AT_MOST: usize = 200;

/// A job at one instant; fractions of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Its share.
    pub share: Option<f32>,
    /// The CPU that it used.
    pub cpu: Option<f32>,
}

impl Point {
    /// What a snapshot tells.
    pub fn of(container: &Container, unix_ms: u64) -> Point {
        let narrow = |number: Option<f64>| number.map(|number| number as f32);
        Point { unix_ms, share: narrow(container.share), cpu: narrow(container.cpu_used) }
    }
}

/// One job's points, oldest first, evenly enough in time.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    points: VecDeque<Point>,
    spacing_ms: u64,
}

impl Trace {
    /// Takes a point that is newer than the last by the present spacing; others are already told by their neighbours.
    pub fn push(&mut self, point: Point) {
        let due = self.points.back().is_none_or(|last| point.unix_ms > last.unix_ms.saturating_add(self.spacing_ms));
        if !due {
            return;
        }
        if self.points.len() == POINTS_AT_MOST {
            self.thin_out();
        }
        self.points.push_back(point);
    }

    fn thin_out(&mut self) {
        let mut at = 0;
        self.points.retain(|_| {
            at += 1;
            at % 2 == 1
        });
        let span = self.span_ms();
        self.spacing_ms = span / self.points.len().max(1) as u64;
    }

    fn span_ms(&self) -> u64 {
        let ends = self.points.back().zip(self.points.front());
        ends.map_or(0, |(last, first)| last.unix_ms.saturating_sub(first.unix_ms))
    }

    /// The points, oldest first.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter()
    }
}

/// The evaluations of one job, numbered from its first.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Number and value; NaN where the job printed none.
    values: VecDeque<(u64, f64)>,
    /// The lines that evaluations were read from, oldest first.
    lines: VecDeque<String>,
}

impl Curve {
    /// Takes what is new. The daemon tells the latest values and how many there were in all.
    pub fn take(&mut self, detail: &ContainerDetail) {
        let reading = &detail.explanation.reading;
        let recent = detail.container.metric.as_ref().map_or(&[][..], |metric| &metric.recent);
        let known = self.values.back().map_or(0, |(number, _)| *number);
        if reading.evaluations < known {
            self.values.clear(); // another metric, or another run of the job
        }
        let first = reading.evaluations.saturating_sub(recent.len() as u64) + 1;
        let known = self.values.back().map_or(0, |(number, _)| *number);
        let fresh = (first..).zip(recent).filter(|(number, _)| *number > known);
        self.values.extend(fresh.map(|(number, value)| (number, value.unwrap_or(f64::NAN))));
        while self.values.len() > EVALUATIONS_AT_MOST {
            self.values.pop_front();
        }
        if let Some(line) = reading.line.as_ref().filter(|line| self.lines.back() != Some(line)) {
            self.lines.push_back(line.clone());
            if self.lines.len() > LINES_AT_MOST {
                self.lines.pop_front();
            }
        }
    }

    /// The values that are numbers, each with its place.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let known = self.values.iter().filter(|(_, value)| value.is_finite());
        known.map(|(number, value)| (*number as f64, *value)).collect()
    }

    /// The lines that evaluations were read from, oldest first.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{container, detail};
    use super::*;

    #[test]
    fn a_trace_keeps_its_span_and_its_bound() {
        let mut trace = Trace::default();
        for second in 0..10_000 {
            trace.push(Point { unix_ms: second * 1000, share: Some(0.5), cpu: None });
        }
        let points: Vec<&Point> = trace.points().collect();
        assert!(points.len() <= POINTS_AT_MOST && points.len() >= POINTS_AT_MOST / 2, "{}", points.len());
        assert_eq!(points[0].unix_ms, 0);
        assert!(points[points.len() - 1].unix_ms > 9_800_000);
    }

    #[test]
    fn the_same_snapshot_twice_is_one_point() {
        let mut trace = Trace::default();
        trace.push(Point::of(&container("a"), 5));
        trace.push(Point::of(&container("a"), 5));
        assert_eq!(trace.points().count(), 1);
    }

    #[test]
    fn evaluations_are_put_together_without_gap_or_repetition() {
        let mut curve = Curve::default();
        curve.take(&detail("a", &[3.0, 2.0], 10, "epoch 10"));
        curve.take(&detail("a", &[3.0, 2.0], 10, "epoch 10"));
        curve.take(&detail("a", &[2.0, 1.0], 11, "epoch 11"));
        assert_eq!(curve.points(), [(9.0, 3.0), (10.0, 2.0), (11.0, 1.0)]);
        assert_eq!(curve.lines().collect::<Vec<_>>(), ["epoch 10", "epoch 11"]);
        curve.take(&detail("a", &[7.0], 1, "epoch 1"));
        assert_eq!(curve.points(), [(1.0, 7.0)], "a job that begins anew");
    }

    #[test]
    fn what_is_not_a_number_leaves_a_gap_and_keeps_its_place() {
        let mut curve = Curve::default();
        curve.take(&detail("a", &[3.0, f64::NAN, 1.0], 3, ""));
        assert_eq!(curve.points(), [(1.0, 3.0), (3.0, 1.0)]);
    }
}
