//! The history of one job's evaluations and progress: its gain, its rate, and the forecast of its learning curve.
//!
//! ## Terms
//!
//! - *Units*: the job's progress counter (epochs, steps …), or the number of printed evaluations if the log has no counter.
//! - *Improvement*: the difference from the first value, positive if better. All computations use improvements.
//! - *Range*: largest minus smallest improvement so far. It makes 300 → 290 and 2.3 → 0.1 comparable.
//!
//! ## Approach
//!
//! Evaluations go through an outlier filter ([`noise`]) into a thinned series ([`series`]). At the end of an interval a weighted set of
//! curves is fitted ([`fit`]). The *gain* of an interval is the improvement that the curves expect, plus the part of the mean's deviation
//! from them that noise cannot explain: a long flat noisy run gains nothing, and a sudden drop of the loss is a gain at once. Such a jump
//! after a plateau (after the learning rate was lowered) begins a new *segment*, and curves are fitted to that segment alone.
//!
//! If earlier runs of the same training are known, their curves are tried beside the formulas. Before the first line they are the only
//! source for the number of units, the units to 95 % of the final quality, and the cost per unit.
//!
//! If the log prints no total, a total claimed by the job's command is the end, until the job has run past it ([`claimed`]).
//!
//! ## Properties
//!
//! - Bounded: a few dozen points for any length of a run; constant work per evaluation, one fit per interval.
//! - A reported gain never changes: a range that grows later affects only later gains.
//! - The gain of an interval without evaluations is unknown, not zero.
//!
//! Pure.

mod carried;
mod claimed;
mod course;
mod decline;
mod explosion;
mod fit;
mod forecast;
mod improvements;
mod noise;
mod pace;
mod phase;
mod printed;
mod series;
mod shape;

use super::claim::Claim;
use super::prior_run::PriorRun;
use crate::{Direction, Estimate, Evaluation, Gain, Learning, Millis, Phase, Progress, ProgressUnit, Streak};
use explosion::Explosion;
use fit::Fit;
use forecast::Forecast;
use improvements::Improvements;
use noise::Noise;
use pace::Pace;
use printed::Printed;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of latest values kept for a sparkline.
const RECENT: usize = 60;

/// State of one job's learning, from its evaluations and progress reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct History {
    direction: Option<Direction>,
    evaluations: u64,
    latest: Option<Evaluation>,
    recent: VecDeque<f64>,
    /// Number of latest consecutive values that are not finite.
    not_finite: u32,
    /// The first of them.
    #[serde(default)]
    first_not_finite: Option<Evaluation>,
    /// The values before the latest finite ones that were not, if they were several.
    #[serde(default)]
    was_not_finite: Option<Streak>,
    #[serde(default)]
    explosion: Explosion,
    #[serde(default)]
    printed: Printed,
    noise: Noise,
    improvements: Improvements,
    open: Interval,
    closed: Option<ClosedInterval>,
    gain: Option<Gain>,
    progress: Option<Progress>,
    pace: Pace,
    curve: Option<Forecast>,
    /// Whether everything was read on another node and nothing here yet.
    #[serde(default)]
    is_carried: bool,
    /// Units done on the other node, until the job has done as many here.
    #[serde(default)]
    carried_to: Option<f64>,
    /// Earlier runs of the same training; the creator of the tracker sets them.
    #[serde(skip)]
    prior_runs: Vec<Arc<PriorRun>>,
    /// Totals found outside of the log; the creator of the tracker sets them.
    #[serde(skip)]
    claims: Vec<Claim>,
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

impl History {
    /// Returns an empty history; `direction` is `None` while unknown.
    pub(super) fn new(direction: Option<Direction>) -> Self {
        History { direction, ..History::default() }
    }

    /// Forgets the evaluations because another metric was chosen, and keeps the progress. The gain is unknown until two intervals have
    /// passed.
    pub(super) fn restart(&mut self, direction: Option<Direction>) {
        let (progress, pace) = (self.progress, std::mem::take(&mut self.pace));
        let (prior_runs, claims) = (std::mem::take(&mut self.prior_runs), std::mem::take(&mut self.claims));
        *self = History { progress, pace, prior_runs, claims, ..History::new(direction) };
    }

    /// Sets the earlier runs of the same training, for use in fits.
    pub(super) fn use_prior_runs(&mut self, prior_runs: Vec<Arc<PriorRun>>) {
        self.prior_runs = prior_runs;
    }

    /// Returns the curve of this completed run, for later runs.
    pub(super) fn prior_run(&self) -> Option<PriorRun> {
        let mut points: Vec<_> = self.improvements.whole().map(|point| (point.x, point.y, point.count)).collect();
        if let Some((end, _, _)) = points.last_mut() {
            *end = end.max(self.improvements.units); // x of a merged point is a mean
        }
        PriorRun::new(self.direction?, self.unit(), points, self.deviation())
    }

    /// The direction in which the evaluations improve, if known.
    pub(super) fn direction(&self) -> Option<Direction> {
        self.direction
    }

    /// The latest progress report.
    pub(super) fn progress(&self) -> Option<Progress> {
        self.progress
    }

    /// Adds an evaluation; the progress of its line must be reported before. Values that are not finite are counted and shown, but excluded
    /// from means.
    pub(super) fn push(&mut self, evaluation: Evaluation) {
        self.evaluations += 1;
        self.is_carried = false;
        self.latest = Some(evaluation);
        if !evaluation.value.is_finite() {
            self.not_finite = self.not_finite.saturating_add(1);
            self.first_not_finite.get_or_insert(evaluation);
            return;
        }
        self.was_not_finite = self.streak().filter(|streak| streak.values > 1).or(self.was_not_finite);
        (self.not_finite, self.first_not_finite) = (0, None);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(evaluation.value);
        self.printed.push(evaluation.value);
        let Some(direction) = self.direction else { return };
        self.explosion.push(direction, evaluation);
        let value = self.noise.accept(evaluation.value);
        let counter = self.progress.map(|progress| progress.current).filter(|current| current.is_finite());
        let (units, improvement) = self.improvements.push(direction, value, counter);
        self.open.sum += improvement;
        self.open.units += units;
        self.open.count += 1.0;
    }

    /// Adds a progress report. A counter that falls or changes its unit starts a new rate and a new curve.
    pub(super) fn report(&mut self, progress: Progress) {
        let restarted =
            self.progress.is_some_and(|before| before.unit != progress.unit || before.current > progress.current);
        if restarted && self.goes_on_from_saved(&progress) {
            self.rewind(progress.current);
        } else if restarted {
            self.pace.restart();
            self.improvements.restart();
            self.curve = None;
            self.open = Interval::default();
            self.closed = None;
        }
        self.is_carried = false;
        self.carried_to = self.carried_to.filter(|to| progress.current <= *to);
        self.progress = Some(progress);
        self.pace.mark(progress);
    }

    /// Ends the interval at `now` and returns the state, with the gain over the previous interval that had evaluations.
    pub(super) fn close_interval(&mut self, now: Millis) -> Learning {
        let open = std::mem::take(&mut self.open);
        self.gain = None;
        self.printed.close();
        if open.count > 0.0 {
            let (mean, units) = (open.sum / open.count, open.units / open.count);
            let present = ClosedInterval { mean, units, count: open.count, end: now };
            self.begin_segment_after_a_jump(&present);
            let fit = self.fit();
            let gain = self.closed.map(|earlier| self.gain_between(&earlier, &present, fit.as_ref()));
            let curve = self.forecast(fit.as_ref());
            (self.gain, self.curve) = (gain, Some(curve));
            self.closed = Some(present);
        } else if self.not_finite >= phase::NOT_FINITE {
            self.curve = Some(self.forecast(None));
        }
        self.peek(now)
    }

    /// Returns the state at `now`. The caller fills in metric and confidence.
    pub(super) fn peek(&self, now: Millis) -> Learning {
        Learning {
            direction: self.direction,
            latest: self.latest,
            evaluations: self.evaluations,
            gain: self.gain,
            printed: self.printed.mean(),
            progress: self.progress,
            units_per_second: self.pace.units_per_second(now),
            units_to_completion: self.units_to_completion(),
            curve: self
                .curve
                .or_else(|| self.forecast_of_prior_runs())
                .map(|forecast| self.with_divergence(forecast).curve_at(self.improvements.units)),
            prior_runs: self.comparable().count(),
            prior_cost_per_unit: self.comparable().last().and_then(|prior_run| prior_run.cpu_per_unit),
            claim: self.claim(),
            is_carried: self.is_carried,
            not_finite: self.streak(),
            was_not_finite: self.was_not_finite,
            exploded: self.explosion.streak(),
            decline: self.direction.and_then(|direction| self.improvements.decline(direction, self.deviation())),
            ..Learning::default()
        }
    }

    /// The latest values, if they are not finite.
    fn streak(&self) -> Option<Streak> {
        let first = self.first_not_finite?;
        Some(Streak { values: self.not_finite.into(), since: first.at, units: first.current })
    }

    /// The latest finite values, oldest first.
    pub(super) fn recent(&self) -> Vec<f64> {
        self.recent.iter().copied().collect()
    }

    /// The end of the axis that curves are fitted over.
    fn total(&self) -> Option<f64> {
        let printed = self
            .progress
            .filter(|_| self.improvements.counts)
            .and_then(|progress| progress.total.filter(|total| total.is_finite() && *total >= progress.current));
        printed.or_else(|| self.claimed_end())
    }

    fn fit(&self) -> Option<Fit<'_>> {
        let points = self.improvements.series.points();
        Fit::new(points, self.improvements.start, self.total(), self.comparable())
    }

    /// Returns the prior runs in the unit of this run, or in the unit of the latest of them while this run has printed nothing.
    fn comparable(&self) -> impl Iterator<Item = &PriorRun> {
        let latest = self.prior_runs.last().filter(|_| self.is_silent());
        let (direction, unit) = match latest {
            Some(latest) => (Some(latest.direction), latest.unit),
            None => (self.direction, self.unit()),
        };
        let alike = move |p: &&PriorRun| Some(p.direction) == direction && p.unit == unit;
        self.prior_runs.iter().map(Arc::as_ref).filter(alike)
    }

    fn is_silent(&self) -> bool {
        self.evaluations == 0 && self.progress.is_none()
    }

    /// The unit in which the evaluations are counted.
    fn unit(&self) -> Option<ProgressUnit> {
        self.progress.filter(|_| self.improvements.counts).map(|progress| progress.unit)
    }

    fn units_to_completion(&self) -> Option<Estimate> {
        if let Some(Progress { current, total: Some(total), .. }) = self.progress {
            return left(current, total);
        }
        match self.claimed() {
            Some((claim, _)) => left(self.done(), claim.total),
            None => self.expected_end(),
        }
    }

    /// Returns the expected units of a run that has printed nothing yet: those of the latest prior run.
    fn expected_end(&self) -> Option<Estimate> {
        let end = self.comparable().filter(|_| self.is_silent()).last()?.end();
        Some(Estimate::exactly(end))
    }

    /// Returns the forecast of prior runs for a run that has printed nothing yet.
    fn forecast_of_prior_runs(&self) -> Option<Forecast> {
        let quality_at =
            fit::forecast_of_prior_runs(self.comparable().filter(|_| self.is_silent()), self.claimed_end())?;
        Some(Forecast { phase: Phase::Unknown, quality: 0.0, quality_at: Some(quality_at) })
    }

    fn deviation(&self) -> f64 {
        self.noise.deviation().unwrap_or(0.0)
    }

    /// Returns the range of improvements so far, at least four standard deviations of the noise.
    fn range(&self) -> f64 {
        (self.improvements.greatest - self.improvements.least).max(4.0 * self.deviation())
    }

    /// FlowCon's P without the division by time: the improvement between two intervals as a fraction of the range.
    fn gain_between(&self, earlier: &ClosedInterval, present: &ClosedInterval, fit: Option<&Fit<'_>>) -> Gain {
        let expected = fit.map_or(0.0, |fit| fit.value(present.units) - fit.value(earlier.units));
        let surprise = present.mean - earlier.mean - expected;
        let error = self.deviation() * (1.0 / earlier.count + 1.0 / present.count).sqrt();
        let improvement = expected + beyond_noise(surprise, error);
        let range = self.range();
        let part = improvement / range;
        // The range is zero while all values are equal.
        let amount = if part.is_finite() { part.clamp(-1.0, 1.0) } else { 0.0 };
        Gain { amount, from: earlier.end, to: present.end }
    }

    /// Begins a segment if the value jumped after a plateau: the learning rate was lowered, or another phase of training began.
    fn begin_segment_after_a_jump(&mut self, present: &ClosedInterval) {
        let on_plateau = self.curve.is_some_and(|forecast| forecast.phase == Phase::Plateau);
        let Some(earlier) = self.closed.filter(|_| on_plateau) else { return };
        let error = self.deviation() * (1.0 / earlier.count + 1.0 / present.count).sqrt();
        if phase::is_jump(present.mean - earlier.mean, error, self.range()) {
            self.improvements.begin_segment(earlier.units);
        }
    }

    /// Replaces the phase if the values since the fit show that the job diverges.
    fn with_divergence(&self, forecast: Forecast) -> Forecast {
        let is_diverging = phase::is_diverging(&self.evidence(None));
        Forecast { phase: if is_diverging { Phase::Diverging } else { forecast.phase }, ..forecast }
    }

    fn evidence(&self, fit: Option<&Fit<'_>>) -> phase::Evidence {
        let improvements = &self.improvements;
        let units = improvements.units;
        phase::Evidence {
            not_finite: self.not_finite,
            evaluations: self.evaluations,
            level: improvements.level,
            best_level: improvements.best_level,
            range: self.range(),
            deviation: self.deviation(),
            ahead: fit.map(|fit| fit.value(units + 0.25 * (units - improvements.start)) - fit.value(units)),
            points: improvements.series.points().len(),
        }
    }

    fn forecast(&self, fit: Option<&Fit<'_>>) -> Forecast {
        let improvements = &self.improvements;
        let units = improvements.units;
        let phase = phase::phase(&self.evidence(fit));
        let (quality, quality_at) = match fit {
            Some(fit) => {
                let (quality, to_go) = fit.forecast(improvements.from, units, self.total());
                let at = |left: f64| units + left;
                (quality, Some(Estimate { low: at(to_go.low), likely: at(to_go.likely), high: at(to_go.high) }))
            }
            None => (0.0, fit::forecast_of_prior_runs(self.comparable(), self.total())),
        };
        Forecast { phase, quality, quality_at }
    }
}

/// Returns the part of a deviation that noise cannot explain: none below two standard errors, nearly all of a large one.
fn beyond_noise(surprise: f64, error: f64) -> f64 {
    if surprise == 0.0 { 0.0 } else { surprise * (1.0 - (2.0 * error / surprise).powi(2)).max(0.0) }
}

/// Returns the units left; `None` if the counter is past its total.
fn left(done: f64, total: f64) -> Option<Estimate> {
    let left = total - done;
    (left.is_finite() && left >= 0.0).then_some(Estimate::exactly(left))
}

#[cfg(test)]
mod tests;
