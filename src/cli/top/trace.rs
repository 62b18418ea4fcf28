//! Time series recorded by `top`: the shares of all jobs, and the evaluations of the job on the detail page.
//!
//! Bounded: a full trace drops every second point. Pure.

use api::wire::{Container, ContainerDetail, Sample};
use std::collections::VecDeque;

/// Maximum number of points in a trace.
const MAX_POINTS: usize = 240;

/// Maximum number of evaluations in a curve.
const MAX_EVALUATIONS: usize = 4096;

/// Maximum number of log lines kept for the job on the detail page.
const MAX_LINES: usize = 200;

/// A job at one instant; values are fractions of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Its share.
    pub share: Option<f32>,
    /// CPU used.
    pub cpu: Option<f32>,
}

impl Point {
    /// The point of a snapshot.
    pub(super) fn of(container: &Container, unix_ms: u64) -> Point {
        let narrow = |number: Option<f64>| number.map(|number| number as f32);
        Point { unix_ms, share: narrow(container.share), cpu: narrow(container.cpu_used) }
    }

    /// Points from a job's history on a node with `cores` cores. CPU used is the mean since the previous sample.
    pub(super) fn of_history(past: &[Sample], cores: f64) -> Vec<Point> {
        let used = |before: &Sample, now: &Sample| {
            let seconds = now.unix_ms.saturating_sub(before.unix_ms) as f64 / 1000.0;
            let part = (now.cpu_s? - before.cpu_s?) / seconds / cores;
            part.is_finite().then_some(part.clamp(0.0, 1.0) as f32)
        };
        let before = std::iter::once(None).chain(past.iter().map(Some));
        past.iter()
            .zip(before)
            .map(|(sample, before)| Point {
                unix_ms: sample.unix_ms,
                share: sample.share.map(|share| share as f32),
                cpu: before.and_then(|before| used(before, sample)),
            })
            .collect()
    }
}

/// Points of one job, oldest first, approximately evenly spaced in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    points: VecDeque<Point>,
    spacing_ms: u64,
}

impl Trace {
    /// Appends a point if it is newer than the last by the current spacing, else drops it.
    pub(super) fn push(&mut self, point: Point) {
        let due = self.points.back().is_none_or(|last| point.unix_ms > last.unix_ms.saturating_add(self.spacing_ms));
        if !due {
            return;
        }
        if self.points.len() == MAX_POINTS {
            self.thin_out();
        }
        self.points.push_back(point);
    }

    /// Prepends the points from before the first one.
    pub(super) fn prepend(&mut self, past: &[Point]) {
        let first = self.points.front().map_or(u64::MAX, |point| point.unix_ms);
        past.iter().rev().filter(|point| point.unix_ms < first).for_each(|point| self.points.push_front(*point));
        while self.points.len() > MAX_POINTS {
            self.thin_out();
        }
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
    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter()
    }
}

/// The evaluations of one job, numbered from its first.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    /// Number and value; NaN where the job printed none.
    values: VecDeque<(u64, f64)>,
    /// Unix time in milliseconds and value, including the daemon's history.
    timed: VecDeque<(u64, f64)>,
    /// Whether the history contained evaluations.
    has_history: bool,
    /// Time of the last update.
    updated: u64,
    /// The lines that evaluations were read from, oldest first.
    lines: VecDeque<String>,
    /// Whether the lines were read from the log itself, so that they include the daemon's latest one.
    is_from_log: bool,
}

/// Points to draw.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CurvePoints {
    /// By Unix time in milliseconds.
    OverTime(Vec<(u64, f64)>),
    /// By the number of the evaluation, because their times are unknown.
    ByNumber(Vec<(f64, f64)>),
}

impl Curve {
    /// Appends the new evaluations in a detail. The daemon reports the latest values and the total count.
    pub(super) fn take(&mut self, detail: &ContainerDetail, unix_ms: u64) {
        let reading = &detail.explanation.reading;
        let recent = detail.container.metric.as_ref().map_or(&[][..], |metric| &metric.recent);
        let known = self.values.back().map_or(0, |(number, _)| *number);
        if reading.evaluations < known {
            self.values.clear(); // another metric, or another run of the job
            self.timed.clear();
            self.has_history = false;
        }
        let first = reading.evaluations.saturating_sub(recent.len() as u64) + 1;
        let known = self.values.back().map_or(0, |(number, _)| *number);
        let fresh: Vec<(u64, f64)> = (first..)
            .zip(recent)
            .filter(|(number, _)| *number > known)
            .map(|(number, value)| (number, value.unwrap_or(f64::NAN)))
            .collect();
        self.assign_times(&fresh, known > 0, unix_ms);
        self.values.extend(fresh);
        while self.values.len() > MAX_EVALUATIONS {
            self.values.pop_front();
        }
        while self.timed.len() > MAX_EVALUATIONS {
            self.timed.pop_front();
        }
        if let Some(line) = reading.line.as_ref().filter(|line| !self.is_from_log && self.lines.back() != Some(line)) {
            self.lines.push_back(line.clone());
            if self.lines.len() > MAX_LINES {
                self.lines.pop_front();
            }
        }
    }

    /// Assigns times to evaluations, which the daemon does not report: those between two updates are spread evenly. In the first update,
    /// only the last one is known to be recent.
    fn assign_times(&mut self, fresh: &[(u64, f64)], has_values: bool, unix_ms: u64) {
        let skipped = if has_values { 0 } else { fresh.len().saturating_sub(1) };
        let before = std::mem::replace(&mut self.updated, unix_ms);
        let each = unix_ms.saturating_sub(before) as f64 / fresh.len().max(1) as f64;
        let last = fresh.len();
        let timed = fresh.iter().enumerate().skip(skipped).filter(|(_, (_, value))| value.is_finite());
        let at = |place: usize| unix_ms.saturating_sub(((last - 1 - place) as f64 * each) as u64);
        self.timed.extend(timed.map(|(place, (_, value))| (at(place), *value)));
    }

    /// Prepends the evaluations from before the first recorded one. An unchanged value in the next sample is not a new evaluation.
    pub(super) fn prepend(&mut self, past: &[Sample]) {
        let first = self.timed.front().map_or(u64::MAX, |(unix_ms, _)| *unix_ms);
        let mut older: Vec<(u64, f64)> = past
            .iter()
            .filter(|sample| sample.unix_ms < first)
            .filter_map(|sample| Some((sample.unix_ms, sample.value.filter(|value| value.is_finite())?)))
            .collect();
        older.dedup_by_key(|(_, value)| *value);
        self.has_history = older.len() > 1;
        older.iter().rev().for_each(|timed| self.timed.push_front(*timed));
    }

    /// The finite values: over time if the history has their times.
    pub(super) fn points(&self) -> CurvePoints {
        if self.has_history {
            return CurvePoints::OverTime(self.timed.iter().copied().collect());
        }
        let known = self.values.iter().filter(|(_, value)| value.is_finite());
        CurvePoints::ByNumber(known.map(|(number, value)| (*number as f64, *value)).collect())
    }

    /// Replaces the collected lines by the parsed lines at the end of the log.
    pub(super) fn set_lines(&mut self, lines: Vec<String>) {
        self.is_from_log = !lines.is_empty();
        if self.is_from_log {
            self.lines = lines.into();
        }
    }

    /// The lines that evaluations were read from, oldest first.
    pub(super) fn lines(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, container, detail, sample};
    use super::*;

    #[test]
    fn a_full_trace_keeps_its_time_span() {
        let mut trace = Trace::default();
        for second in 0..10_000 {
            trace.push(Point { unix_ms: second * 1000, share: Some(0.5), cpu: None });
        }
        let points: Vec<&Point> = trace.points().collect();
        assert!(points.len() <= MAX_POINTS && points.len() >= MAX_POINTS / 2, "{}", points.len());
        assert_eq!(points[0].unix_ms, 0);
        assert!(points[points.len() - 1].unix_ms > 9_800_000);
    }

    #[test]
    fn a_repeated_snapshot_adds_no_point() {
        let mut trace = Trace::default();
        trace.push(Point::of(&container("a"), 5));
        trace.push(Point::of(&container("a"), 5));
        assert_eq!(trace.points().count(), 1);
    }

    #[test]
    fn evaluations_are_joined_without_gap_or_repetition() {
        let mut curve = Curve::default();
        curve.take(&detail("a", &[3.0, 2.0], 10, "epoch 10"), 0);
        curve.take(&detail("a", &[3.0, 2.0], 10, "epoch 10"), 0);
        curve.take(&detail("a", &[2.0, 1.0], 11, "epoch 11"), 0);
        assert_eq!(curve.points(), CurvePoints::ByNumber(vec![(9.0, 3.0), (10.0, 2.0), (11.0, 1.0)]));
        assert_eq!(curve.lines().collect::<Vec<_>>(), ["epoch 10", "epoch 11"]);
        curve.take(&detail("a", &[7.0], 1, "epoch 1"), 0);
        assert_eq!(curve.points(), CurvePoints::ByNumber(vec![(1.0, 7.0)]), "the job restarted");
    }

    #[test]
    fn nan_leaves_a_gap_and_keeps_its_number() {
        let mut curve = Curve::default();
        curve.take(&detail("a", &[3.0, f64::NAN, 1.0], 3, ""), 0);
        assert_eq!(curve.points(), CurvePoints::ByNumber(vec![(1.0, 3.0), (3.0, 1.0)]));
    }

    #[test]
    fn the_history_is_prepended() {
        let mut curve = Curve::default();
        curve.take(&detail("a", &[1.0], 7, ""), NOW);
        let past: Vec<Sample> = (1..=4).map(|at| sample(NOW - 5000 + at * 1000, 0.5, "")).collect();
        curve.prepend(&past);
        curve.take(&detail("a", &[1.0, 0.5, 0.25], 9, ""), NOW + 2000);
        let CurvePoints::OverTime(points) = curve.points() else { panic!("{:?}", curve.points()) };
        let times: Vec<u64> = points.iter().map(|(unix_ms, _)| *unix_ms).collect();
        assert_eq!(times, [NOW - 4000, NOW - 3000, NOW - 2000, NOW - 1000, NOW, NOW + 1000, NOW + 2000]);

        let mut trace = Trace::default();
        trace.push(Point { unix_ms: NOW, share: Some(0.5), cpu: None });
        trace.prepend(&Point::of_history(&past, 4.0));
        let points: Vec<&Point> = trace.points().collect();
        assert_eq!(points.len(), 5);
        assert_eq!(points[0].cpu, None, "no previous sample");
        assert_eq!(points[1].cpu, Some(0.25), "one core-second in a second on four cores");
    }

    #[test]
    fn a_value_repeated_in_several_samples_is_one_evaluation() {
        let mut curve = Curve::default();
        let mut past: Vec<Sample> = (1..=6).map(|at| sample(NOW + at, 0.5, "")).collect();
        past.iter_mut().zip([3.0, 3.0, 2.0, f64::NAN, 2.0, 1.0]).for_each(|(sample, value)| sample.value = Some(value));
        curve.prepend(&past);
        let CurvePoints::OverTime(points) = curve.points() else { panic!("{:?}", curve.points()) };
        assert_eq!(points.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [3.0, 2.0, 1.0]);
    }
}
