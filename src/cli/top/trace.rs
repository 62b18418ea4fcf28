//! What `top` has seen of the jobs since it was started: shares over time, and the evaluations of the job that is looked at.
//!
//! Bounded: a trace that is full keeps every second point. Pure. Imports: wire types.

use crate::api::wire::{Container, ContainerDetail, Sample};
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

    /// What the daemon's history tells of a job on a node of so many cores. CPU used is that since the sample before.
    pub fn of_past(past: &[Sample], cores: f64) -> Vec<Point> {
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

    /// Takes over what was before the first point.
    pub fn precede(&mut self, past: &[Point]) {
        let first = self.points.front().map_or(u64::MAX, |point| point.unix_ms);
        past.iter().rev().filter(|point| point.unix_ms < first).for_each(|point| self.points.push_front(*point));
        while self.points.len() > POINTS_AT_MOST {
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
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter()
    }
}

/// The evaluations of one job, numbered from its first.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Number and value; NaN where the job printed none.
    values: VecDeque<(u64, f64)>,
    /// When and value, from the daemon's history on.
    timed: VecDeque<(u64, f64)>,
    /// The history told of evaluations.
    has_past: bool,
    /// When the last look was.
    looked: u64,
    /// The lines that evaluations were read from, oldest first.
    lines: VecDeque<String>,
    /// The lines are those of the log itself: the latest one that the daemon tells is among them.
    are_read: bool,
}

/// Points to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum CurvePoints {
    /// By Unix time in milliseconds.
    OverTime(Vec<(u64, f64)>),
    /// By the number of the evaluation: nobody remembers when they were.
    ByNumber(Vec<(f64, f64)>),
}

impl Curve {
    /// Takes what is new at this instant. The daemon tells the latest values and how many there were in all.
    pub fn take(&mut self, detail: &ContainerDetail, unix_ms: u64) {
        let reading = &detail.explanation.reading;
        let recent = detail.container.metric.as_ref().map_or(&[][..], |metric| &metric.recent);
        let known = self.values.back().map_or(0, |(number, _)| *number);
        if reading.evaluations < known {
            self.values.clear(); // another metric, or another run of the job
            self.timed.clear();
            self.has_past = false;
        }
        let first = reading.evaluations.saturating_sub(recent.len() as u64) + 1;
        let known = self.values.back().map_or(0, |(number, _)| *number);
        let fresh: Vec<(u64, f64)> = (first..)
            .zip(recent)
            .filter(|(number, _)| *number > known)
            .map(|(number, value)| (number, value.unwrap_or(f64::NAN)))
            .collect();
        self.time(&fresh, known > 0, unix_ms);
        self.values.extend(fresh);
        while self.values.len() > EVALUATIONS_AT_MOST {
            self.values.pop_front();
        }
        while self.timed.len() > EVALUATIONS_AT_MOST {
            self.timed.pop_front();
        }
        if let Some(line) = reading.line.as_ref().filter(|line| !self.are_read && self.lines.back() != Some(line)) {
            self.lines.push_back(line.clone());
            if self.lines.len() > LINES_AT_MOST {
                self.lines.pop_front();
            }
        }
    }

    /// Nobody tells when an evaluation was: those between two looks are spread over the time between them. Of the first look only
    /// the last is known to be recent.
    fn time(&mut self, fresh: &[(u64, f64)], has_looked: bool, unix_ms: u64) {
        let skipped = if has_looked { 0 } else { fresh.len().saturating_sub(1) };
        let before = std::mem::replace(&mut self.looked, unix_ms);
        let each = unix_ms.saturating_sub(before) as f64 / fresh.len().max(1) as f64;
        let last = fresh.len();
        let timed = fresh.iter().enumerate().skip(skipped).filter(|(_, (_, value))| value.is_finite());
        let at = |place: usize| unix_ms.saturating_sub(((last - 1 - place) as f64 * each) as u64);
        self.timed.extend(timed.map(|(place, (_, value))| (at(place), *value)));
    }

    /// Takes over the evaluations before the first that was seen. The same value at the next sample is no evaluation of its own.
    pub fn precede(&mut self, past: &[Sample]) {
        let first = self.timed.front().map_or(u64::MAX, |(unix_ms, _)| *unix_ms);
        let mut told: Vec<(u64, f64)> = past
            .iter()
            .filter(|sample| sample.unix_ms < first)
            .filter_map(|sample| Some((sample.unix_ms, sample.value.filter(|value| value.is_finite())?)))
            .collect();
        told.dedup_by_key(|(_, value)| *value);
        self.has_past = told.len() > 1;
        told.iter().rev().for_each(|timed| self.timed.push_front(*timed));
    }

    /// The values that are numbers: over time where the history knows when they were.
    pub fn points(&self) -> CurvePoints {
        if self.has_past {
            return CurvePoints::OverTime(self.timed.iter().copied().collect());
        }
        let known = self.values.iter().filter(|(_, value)| value.is_finite());
        CurvePoints::ByNumber(known.map(|(number, value)| (*number as f64, *value)).collect())
    }

    /// Takes the understood lines at the end of the log, in place of those that were seen one by one.
    pub fn read(&mut self, lines: Vec<String>) {
        self.are_read = !lines.is_empty();
        if self.are_read {
            self.lines = lines.into();
        }
    }

    /// The lines that evaluations were read from, oldest first.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, container, detail, sample};
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
        curve.take(&detail("a", &[3.0, 2.0], 10, "epoch 10"), 0);
        curve.take(&detail("a", &[3.0, 2.0], 10, "epoch 10"), 0);
        curve.take(&detail("a", &[2.0, 1.0], 11, "epoch 11"), 0);
        assert_eq!(curve.points(), CurvePoints::ByNumber(vec![(9.0, 3.0), (10.0, 2.0), (11.0, 1.0)]));
        assert_eq!(curve.lines().collect::<Vec<_>>(), ["epoch 10", "epoch 11"]);
        curve.take(&detail("a", &[7.0], 1, "epoch 1"), 0);
        assert_eq!(curve.points(), CurvePoints::ByNumber(vec![(1.0, 7.0)]), "a job that begins anew");
    }

    #[test]
    fn what_is_not_a_number_leaves_a_gap_and_keeps_its_place() {
        let mut curve = Curve::default();
        curve.take(&detail("a", &[3.0, f64::NAN, 1.0], 3, ""), 0);
        assert_eq!(curve.points(), CurvePoints::ByNumber(vec![(1.0, 3.0), (3.0, 1.0)]));
    }

    #[test]
    fn the_history_comes_before_what_was_seen() {
        let mut curve = Curve::default();
        curve.take(&detail("a", &[1.0], 7, ""), NOW);
        let past: Vec<Sample> = (1..=4).map(|at| sample(NOW - 5000 + at * 1000, 0.5, "")).collect();
        curve.precede(&past);
        curve.take(&detail("a", &[1.0, 0.5, 0.25], 9, ""), NOW + 2000);
        let CurvePoints::OverTime(points) = curve.points() else { panic!("{:?}", curve.points()) };
        let times: Vec<u64> = points.iter().map(|(unix_ms, _)| *unix_ms).collect();
        assert_eq!(times, [NOW - 4000, NOW - 3000, NOW - 2000, NOW - 1000, NOW, NOW + 1000, NOW + 2000]);

        let mut trace = Trace::default();
        trace.push(Point { unix_ms: NOW, share: Some(0.5), cpu: None });
        trace.precede(&Point::of_past(&past, 4.0));
        let points: Vec<&Point> = trace.points().collect();
        assert_eq!(points.len(), 5);
        assert_eq!(points[0].cpu, None, "used since an unknown sample");
        assert_eq!(points[1].cpu, Some(0.25), "a second of four cores in a second");
    }

    #[test]
    fn a_value_that_stands_at_several_samples_is_one_evaluation() {
        let mut curve = Curve::default();
        let mut past: Vec<Sample> = (1..=6).map(|at| sample(NOW + at, 0.5, "")).collect();
        past.iter_mut().zip([3.0, 3.0, 2.0, f64::NAN, 2.0, 1.0]).for_each(|(sample, value)| sample.value = Some(value));
        curve.precede(&past);
        let CurvePoints::OverTime(points) = curve.points() else { panic!("{:?}", curve.points()) };
        assert_eq!(points.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [3.0, 2.0, 1.0]);
    }
}
