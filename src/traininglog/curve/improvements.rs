//! Improvements against units: the points for fitting curves, and their range.

use super::decline::Means;
use super::phase;
use super::series::{Point, Series};
use crate::plausible;
use crate::{Decline, Direction};
use serde::{Deserialize, Serialize};

/// Maximum points kept of earlier segments.
const EARLIER: usize = 120;

/// Improvements against units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Improvements {
    /// The first value; improvements count from it.
    first: Option<f64>,
    pub(super) series: Series,
    /// Units before the first evaluation of the segment.
    pub(super) start: f64,
    /// The points of earlier segments, oldest first.
    #[serde(default)]
    earlier: Vec<Point>,
    /// Improvement at the beginning of the whole run, once a later segment is fitted.
    pub(super) from: Option<f64>,
    pub(super) least: f64,
    pub(super) greatest: f64,
    /// Decaying mean of the latest improvements.
    pub(super) level: f64,
    /// Maximum of `level` so far.
    pub(super) best_level: f64,
    /// Means of the latest and of the best improvements.
    #[serde(default)]
    pub(super) means: Means,
    pub(super) units: f64,
    /// Whether `units` come from a counter of the log, not from the number of evaluations.
    pub(super) counts: bool,
}

impl Improvements {
    /// Adds a value; returns its units and its improvement.
    pub(super) fn push(&mut self, direction: Direction, value: f64, counter: Option<f64>) -> (f64, f64) {
        if counter.is_some() != self.counts && self.first.is_some() {
            // The counter appeared or vanished: units before and after are not comparable.
            self.restart();
        }
        let is_first = self.series.points().is_empty();
        self.counts = counter.is_some();
        self.units = counter.unwrap_or(if is_first { 1.0 } else { self.units + 1.0 });
        let improvement = direction.improvement(*self.first.get_or_insert(value), value);
        if is_first {
            self.start = if self.units <= 3.0 { 0.0 } else { self.units };
            (self.least, self.greatest) = (improvement, improvement);
            (self.level, self.best_level) = (improvement, improvement);
        } else if let [only] = self.series.points() {
            // A counter whose first value is about its stride began at zero.
            let stride = self.units - only.x;
            if only.x <= 1.5 * stride {
                self.start = 0.0;
            }
        }
        self.series.push(self.units, improvement);
        self.means.push(self.units, improvement);
        self.least = self.least.min(improvement);
        self.greatest = self.greatest.max(improvement);
        self.level += phase::LEVEL_WEIGHT * (improvement - self.level);
        self.best_level = self.best_level.max(self.level);
        (self.units, improvement)
    }

    /// Returns the printed value that belongs to an improvement, if a value was printed.
    pub(super) fn value_of(&self, direction: Direction, improvement: f64) -> Option<f64> {
        let first = self.first?;
        Some(match direction {
            Direction::Down => first - improvement,
            Direction::Up => first + improvement,
        })
    }

    /// How far the latest values are behind the best ones; `deviation` is that of the noise.
    pub(super) fn decline(&self, direction: Direction, deviation: f64) -> Option<Decline> {
        let below = self.means.below_best()?;
        let part = |of: f64| if of > 0.0 { (below.by / of).min(Decline::AT_MOST) } else { Decline::AT_MOST };
        Some(Decline {
            best: self.value_of(direction, below.best)?,
            units: self.counts.then_some(below.units),
            evaluations: below.since,
            of_range: part(self.greatest - self.least),
            errors: part(Means::error(deviation)),
        })
    }

    /// Whether all values are plausible.
    pub(super) fn is_plausible(&self) -> bool {
        let Improvements { first, start, from, least, greatest, level, best_level, units, .. } = *self;
        [start, least, greatest, level, best_level, units].into_iter().all(plausible::number)
            && [first, from].into_iter().all(plausible::optional)
            && least <= greatest
            && self.earlier.len() <= EARLIER
            && self.earlier.iter().all(Point::is_plausible)
            && self.series.is_plausible()
            && self.means.is_plausible()
    }

    /// The points of all segments, oldest first.
    pub(super) fn whole(&self) -> impl Iterator<Item = &Point> {
        self.earlier.iter().chain(self.series.points())
    }

    /// The same as units and values.
    pub(super) fn points(&self, direction: Direction) -> impl Iterator<Item = (f64, f64)> {
        self.whole().filter_map(move |point| Some((point.x, self.value_of(direction, point.y)?)))
    }

    /// Begins a new curve because the counter started again; keeps the range.
    pub(super) fn restart(&mut self) {
        self.series = Series::default();
        self.means = Means::default();
        self.earlier = Vec::new();
        self.from = None;
        self.units = 0.0;
    }

    /// Forgets the points after `units`, or all if none are left in the current segment.
    pub(super) fn rewind(&mut self, units: f64) {
        self.series.forget_after(units);
        self.means = Means::default();
        if self.series.points().is_empty() {
            return self.restart();
        }
        self.units = self.units.min(units);
    }

    /// Begins a new segment at the steepest rise after `since`.
    pub(super) fn begin_segment(&mut self, since: f64) {
        let points = self.series.points();
        let recent = points.windows(2).filter(|pair| pair[0].x >= since);
        let steepest = recent.max_by(|a, b| (a[1].y - a[0].y).total_cmp(&(b[1].y - b[0].y)));
        let Some(&[before, after]) = steepest else { return };
        let beginning = points.first().map_or(0.0, |point| point.y);
        self.from.get_or_insert(beginning);
        let room = EARLIER.saturating_sub(self.earlier.len());
        self.earlier.extend(self.series.forget_before(after.x).take(room));
        self.start = before.x;
    }
}
