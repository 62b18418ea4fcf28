//! The history of one job's evaluations and progress: what it gained, how fast it goes, and where its learning curve leads.
//!
//! ## Terms
//!
//! - *Units*: the job's own progress counter (epochs, steps …); printed evaluations, where the log counts nothing.
//! - *Improvement*: value turned so that up is better and counted from the first value; every question is asked of improvements.
//! - *Range*: largest less smallest improvement so far. It makes 300 → 290 and 2.3 → 0.1 comparable.
//!
//! ## Approach
//!
//! Evaluations go through an outlier filter ([`noise`]) into a thinned series ([`series`]); at the end of an interval a weighed set of
//! curves is fitted ([`fit`]). The *gain* of an interval is what the curves say, plus as much of the deviation of the interval's mean
//! from them as noise cannot explain: a long flat noisy run gains nothing, a sudden drop of the loss is a gain at once. Such a jump after a
//! plateau (a learning rate that was lowered) begins a new *segment*, and curves are fitted to it alone.
//!
//! ## Properties
//!
//! - Bounded: a few dozen points, whatever the run's length; constant work for each evaluation, one fit an interval.
//! - A gain once reported is never changed: a range that grows later only divides later gains.
//! - No evaluation in an interval means no gain, which is unknown and not zero.
//!
//! Pure. Imports: model only.

mod fit;
mod noise;
mod pace;
mod phase;
mod series;
mod shape;

use crate::model::{Curve, Direction, Estimate, Evaluation, Gain, Learning, Millis, Phase, Progress};
use fit::Fit;
use noise::Noise;
use pace::Pace;
use serde::{Deserialize, Serialize};
use series::Series;
use std::collections::VecDeque;

/// Latest values kept for a sparkline.
const RECENT: usize = 60;

/// What one job's evaluations and progress reports add up to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct History {
    direction: Option<Direction>,
    evaluations: u64,
    latest: Option<Evaluation>,
    recent: VecDeque<f64>,
    /// Not-a-number values in a row.
    not_finite: u32,
    noise: Noise,
    improvements: Improvements,
    open: Interval,
    closed: Option<ClosedInterval>,
    gain: Option<Gain>,
    progress: Option<Progress>,
    pace: Pace,
    curve: Option<Forecast>,
}

/// Improvements against units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Improvements {
    /// The first value; improvements count from it.
    first: Option<f64>,
    series: Series,
    /// Units before the first evaluation of the segment.
    start: f64,
    /// Improvement at the beginning of the whole run, once a segment of its own is fitted.
    from: Option<f64>,
    least: f64,
    greatest: f64,
    /// Mean of the latest few, decaying, and the best that it ever was.
    level: f64,
    best_level: f64,
    units: f64,
    counts: bool,
}

/// The evaluations of an interval that has not ended yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Interval {
    sum: f64,
    units: f64,
    count: f64,
}

/// The mean improvement of an interval, and when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct ClosedInterval {
    mean: f64,
    units: f64,
    count: f64,
    end: Millis,
}

/// What the fit said at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Forecast {
    phase: Phase,
    quality: f64,
    /// Units at 95 % of the final improvement.
    quality_at: Option<Estimate>,
}

impl History {
    /// Nothing seen yet; `direction` as far as it is known.
    pub(super) fn new(direction: Option<Direction>) -> Self {
        History { direction, ..History::default() }
    }

    /// Forgets the evaluations (another metric was chosen), keeps progress. No gain is known until two intervals have passed.
    pub(super) fn restart(&mut self, direction: Option<Direction>) {
        let (progress, pace) = (self.progress, std::mem::take(&mut self.pace));
        *self = History { progress, pace, ..History::new(direction) };
    }

    /// Which way the evaluations improve, as far as it is known.
    pub(super) fn direction(&self) -> Option<Direction> {
        self.direction
    }

    /// Takes one evaluation; the progress of its line is reported before it. Values that are not finite are counted and shown, but no
    /// mean can contain them.
    pub(super) fn push(&mut self, evaluation: Evaluation) {
        self.evaluations += 1;
        self.latest = Some(evaluation);
        if !evaluation.value.is_finite() {
            self.not_finite = self.not_finite.saturating_add(1);
            return;
        }
        self.not_finite = 0;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(evaluation.value);
        let Some(direction) = self.direction else { return };
        let value = self.noise.accept(evaluation.value);
        let counter = self.progress.map(|progress| progress.current).filter(|current| current.is_finite());
        let (units, improvement) = self.improvements.push(direction, value, counter);
        self.open.sum += improvement;
        self.open.units += units;
        self.open.count += 1.0;
    }

    /// Takes one progress report. A counter that falls, or counts something else, starts a new rate and a new curve.
    pub(super) fn report(&mut self, progress: Progress) {
        let restarted =
            self.progress.is_some_and(|before| before.unit != progress.unit || before.current > progress.current);
        if restarted {
            self.pace.restart();
            self.improvements.begin_again();
            self.curve = None;
            self.open = Interval::default();
            self.closed = None;
        }
        self.progress = Some(progress);
        self.pace.mark(progress);
    }

    /// Ends the interval at `now`: what is known, with the gain over the previous interval that had evaluations.
    pub(super) fn close_interval(&mut self, now: Millis) -> Learning {
        let open = std::mem::take(&mut self.open);
        self.gain = None;
        if open.count > 0.0 {
            let (mean, units) = (open.sum / open.count, open.units / open.count);
            let present = ClosedInterval { mean, units, count: open.count, end: now };
            self.begin_segment_after_a_jump(&present);
            let fit = self.fit();
            self.gain = self.closed.map(|earlier| self.gain_between(&earlier, &present, fit.as_ref()));
            self.curve = Some(self.forecast(fit.as_ref()));
            self.closed = Some(present);
        } else if self.not_finite >= phase::NOT_FINITE {
            self.curve = Some(self.forecast(None));
        }
        self.peek(now)
    }

    /// What is known at `now`; changes nothing. Metric and confidence are the reader's to fill in.
    pub(super) fn peek(&self, now: Millis) -> Learning {
        Learning {
            direction: self.direction,
            latest: self.latest,
            evaluations: self.evaluations,
            gain: self.gain,
            progress: self.progress,
            units_per_second: self.pace.units_per_second(now),
            units_to_completion: self.progress.and_then(left_of),
            curve: self.curve.map(|forecast| forecast.seen_from(self.improvements.units)),
            ..Learning::default()
        }
    }

    /// The latest finite values, oldest first.
    pub(super) fn recent(&self) -> Vec<f64> {
        self.recent.iter().copied().collect()
    }

    fn total(&self) -> Option<f64> {
        let progress = self.progress.filter(|_| self.improvements.counts)?;
        progress.total.filter(|total| total.is_finite() && *total >= progress.current)
    }

    fn fit(&self) -> Option<Fit> {
        Fit::new(self.improvements.series.points(), self.improvements.start, self.total())
    }

    fn deviation(&self) -> f64 {
        self.noise.deviation().unwrap_or(0.0)
    }

    /// Divides by what was seen so far, but never by noise alone.
    fn range(&self) -> f64 {
        (self.improvements.greatest - self.improvements.least).max(4.0 * self.deviation())
    }

    /// FlowCon's P without the division by time: the improvement between two intervals as a fraction of the range.
    fn gain_between(&self, earlier: &ClosedInterval, present: &ClosedInterval, fit: Option<&Fit>) -> Gain {
        let expected = fit.map_or(0.0, |fit| fit.value(present.units) - fit.value(earlier.units));
        let surprise = present.mean - earlier.mean - expected;
        let error = self.deviation() * (1.0 / earlier.count + 1.0 / present.count).sqrt();
        let improvement = expected + beyond_noise(surprise, error);
        let range = self.range();
        let part = improvement / range;
        // A range of zero: nothing has moved yet.
        let amount = if part.is_finite() { part.clamp(-1.0, 1.0) } else { 0.0 };
        Gain { amount, from: earlier.end, to: present.end }
    }

    /// A leap above what the curves foresaw, after a plateau: a learning rate was lowered, or another phase of training began.
    fn begin_segment_after_a_jump(&mut self, present: &ClosedInterval) {
        let on_plateau = self.curve.is_some_and(|forecast| forecast.phase == Phase::Plateau);
        let Some(earlier) = self.closed.filter(|_| on_plateau) else { return };
        let error = self.deviation() * (1.0 / earlier.count + 1.0 / present.count).sqrt();
        if phase::is_jump(present.mean - earlier.mean, error, self.range()) {
            self.improvements.begin_segment(earlier.units);
        }
    }

    fn forecast(&self, fit: Option<&Fit>) -> Forecast {
        let improvements = &self.improvements;
        let units = improvements.units;
        let evidence = phase::Evidence {
            not_finite: self.not_finite,
            evaluations: self.evaluations,
            level: improvements.level,
            best_level: improvements.best_level,
            range: self.range(),
            deviation: self.deviation(),
            ahead: fit.map(|fit| fit.value(units + 0.25 * (units - improvements.start)) - fit.value(units)),
            points: improvements.series.points().len(),
        };
        let phase = phase::phase(&evidence);
        let (quality, to_go) = match fit {
            Some(fit) => {
                let (quality, to_go) = fit.forecast(improvements.from, units, self.total());
                (quality, Some(to_go))
            }
            None => (0.0, None),
        };
        let at = |left: f64| units + left;
        let quality_at = to_go.map(|e| Estimate { low: at(e.low), likely: at(e.likely), high: at(e.high) });
        Forecast { phase, quality, quality_at }
    }
}

impl Improvements {
    /// Takes a value; returns its units and its improvement.
    fn push(&mut self, direction: Direction, value: f64, counter: Option<f64>) -> (f64, f64) {
        if counter.is_some() != self.counts && self.first.is_some() {
            // The counter appeared or vanished: units before and after do not compare.
            self.begin_again();
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
            // A counter that began with its own stride began at zero.
            let stride = self.units - only.x;
            if only.x <= 1.5 * stride {
                self.start = 0.0;
            }
        }
        self.series.push(self.units, improvement);
        self.least = self.least.min(improvement);
        self.greatest = self.greatest.max(improvement);
        self.level += phase::LEVEL_WEIGHT * (improvement - self.level);
        self.best_level = self.best_level.max(self.level);
        (self.units, improvement)
    }

    /// A counter that started again: the range seen stays, the curve is a new one.
    fn begin_again(&mut self) {
        self.series = Series::default();
        self.from = None;
        self.units = 0.0;
    }

    /// The new segment begins with the steepest rise since `since`.
    fn begin_segment(&mut self, since: f64) {
        let points = self.series.points();
        let recent = points.windows(2).filter(|pair| pair[0].x >= since);
        let steepest = recent.max_by(|a, b| (a[1].y - a[0].y).total_cmp(&(b[1].y - b[0].y)));
        let Some(&[before, after]) = steepest else { return };
        let beginning = points.first().map_or(0.0, |point| point.y);
        self.from.get_or_insert(beginning);
        self.series.forget_before(after.x);
        self.start = before.x;
    }
}

impl Forecast {
    fn seen_from(self, units: f64) -> Curve {
        let left = |at: f64| (at - units).max(0.0);
        let left_of = |at: Estimate| Estimate { low: left(at.low), likely: left(at.likely), high: left(at.high) };
        Curve { phase: self.phase, quality: self.quality, units_to_quality: self.quality_at.map(left_of) }
    }
}

/// The part of a surprise that noise cannot explain: nothing below two standard errors, nearly all of a large one.
fn beyond_noise(surprise: f64, error: f64) -> f64 {
    if surprise == 0.0 { 0.0 } else { surprise * (1.0 - (2.0 * error / surprise).powi(2)).max(0.0) }
}

/// Work left is as certain as the counter itself; a counter past its total says nothing.
fn left_of(progress: Progress) -> Option<Estimate> {
    let left = progress.total? - progress.current;
    (left.is_finite() && left >= 0.0).then_some(Estimate { low: left, likely: left, high: left })
}

#[cfg(test)]
mod tests;
