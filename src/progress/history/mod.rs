//! The history of one job's evaluations and progress: means per interval, their normalised gain, and the observed rate.
//!
//! Pure and bounded: no raw series is kept beyond the latest values. Imports: model only.

use crate::model::{Direction, Estimate, Evaluation, Gain, Learning, Millis, Progress};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Latest values kept for a sparkline.
const RECENT: usize = 60;

/// Progress marks kept to observe a rate.
const MARKS: usize = 32;

/// What one job's evaluations and progress reports add up to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct History {
    direction: Option<Direction>,
    evaluations: u64,
    latest: Option<Evaluation>,
    recent: VecDeque<f64>,
    open: Interval,
    closed: Option<ClosedInterval>,
    range: Option<(f64, f64)>,
    gain: Option<Gain>,
    progress: Option<Progress>,
    marks: VecDeque<Progress>,
}

/// The finite evaluations of an interval that has not ended yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Interval {
    sum: f64,
    count: u64,
}

/// The mean evaluation of an interval, and when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct ClosedInterval {
    mean: f64,
    end: Millis,
}

impl History {
    /// Nothing seen yet; `direction` as far as it is known.
    pub(super) fn new(direction: Option<Direction>) -> Self {
        History { direction, ..History::default() }
    }

    /// Forgets the evaluations (another metric was chosen), keeps progress. No gain is known until two intervals have passed.
    pub(super) fn restart(&mut self, direction: Option<Direction>) {
        let (progress, marks) = (self.progress, std::mem::take(&mut self.marks));
        *self = History { progress, marks, ..History::new(direction) };
    }

    /// Which way the evaluations improve, as far as it is known.
    pub(super) fn direction(&self) -> Option<Direction> {
        self.direction
    }

    /// Takes one evaluation. Values that are not finite are counted and shown, but no mean can contain them.
    pub(super) fn push(&mut self, evaluation: Evaluation) {
        self.evaluations += 1;
        self.latest = Some(evaluation);
        if !evaluation.value.is_finite() {
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(evaluation.value);
        self.open.sum += evaluation.value;
        self.open.count += 1;
        let (low, high) = self.range.unwrap_or((evaluation.value, evaluation.value));
        self.range = Some((low.min(evaluation.value), high.max(evaluation.value)));
    }

    /// Takes one progress report. A counter that falls, or counts something else, starts a new rate.
    pub(super) fn report(&mut self, progress: Progress) {
        self.progress = Some(progress);
        if self.marks.back().is_some_and(|last| last.unit != progress.unit || last.current > progress.current) {
            self.marks.clear();
        }
        match self.marks.back_mut() {
            Some(last) if last.current == progress.current || last.at == progress.at => last.current = progress.current,
            _ => self.marks.push_back(progress),
        }
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
    }

    /// Ends the interval at `now`: what is known, with the gain over the previous interval that had evaluations.
    pub(super) fn close_interval(&mut self, now: Millis) -> Learning {
        let open = std::mem::take(&mut self.open);
        self.gain = None;
        if open.count > 0 {
            let mean = open.sum / open.count as f64;
            self.gain = self.closed.and_then(|earlier| self.gain_over(earlier, mean, now));
            self.closed = Some(ClosedInterval { mean, end: now });
        }
        self.peek(now)
    }

    /// What is known at `now`; changes nothing. Metric and confidence are the reader's to fill in.
    pub(super) fn peek(&self, _now: Millis) -> Learning {
        Learning {
            direction: self.direction,
            latest: self.latest,
            evaluations: self.evaluations,
            gain: self.gain,
            progress: self.progress,
            units_per_second: self.rate(),
            units_to_completion: self.progress.and_then(left_of),
            ..Learning::default()
        }
    }

    /// The latest finite values, oldest first.
    pub(super) fn recent(&self) -> Vec<f64> {
        self.recent.iter().copied().collect()
    }

    /// FlowCon's P without the division by time: the improvement as a fraction of the range of values seen so far.
    fn gain_over(&self, earlier: ClosedInterval, mean: f64, now: Millis) -> Option<Gain> {
        let (low, high) = self.range?;
        let improvement = self.direction?.improvement(earlier.mean, mean);
        let range = high - low;
        let amount = if range > 0.0 && range.is_finite() { (improvement / range).clamp(-1.0, 1.0) } else { 0.0 };
        Some(Gain { amount, from: earlier.end, to: now })
    }

    fn rate(&self) -> Option<f64> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let seconds = last.at.since(first.at).as_secs_f64();
        (seconds > 0.0).then(|| (last.current - first.current) / seconds)
    }
}

/// Work left is as certain as the counter itself.
fn left_of(progress: Progress) -> Option<Estimate> {
    let left = (progress.total? - progress.current).max(0.0);
    Some(Estimate { low: left, likely: left, high: left })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProgressUnit;

    fn evaluation(at: u64, value: f64) -> Evaluation {
        Evaluation { at: Millis(at), value, current: None, total: None }
    }

    #[test]
    fn losses_of_different_scale_gain_alike() {
        for scale in [1.0, 1000.0] {
            let mut history = History::new(Some(Direction::Down));
            history.push(evaluation(1, 3.0 * scale));
            assert_eq!(history.close_interval(Millis(10)).gain, None);
            history.push(evaluation(11, 2.0 * scale));
            let gain = history.close_interval(Millis(20)).gain.expect("two intervals had evaluations");
            assert_eq!(gain, Gain { amount: 1.0, from: Millis(10), to: Millis(20) });
        }
    }

    #[test]
    fn a_rising_loss_is_negative_growth_and_silence_is_unknown() {
        let mut history = History::new(Some(Direction::Down));
        history.push(evaluation(1, 1.0));
        history.close_interval(Millis(10));
        assert_eq!(history.close_interval(Millis(20)).gain, None);
        history.push(evaluation(21, f64::NAN));
        assert_eq!(history.close_interval(Millis(30)).gain, None);
        history.push(evaluation(31, 2.0));
        let gain = history.close_interval(Millis(40)).gain.expect("evaluations again");
        assert_eq!((gain.amount, gain.from), (-1.0, Millis(10)));
    }

    #[test]
    fn rate_and_remaining_work_follow_the_counter() {
        let mut history = History::new(None);
        for step in 0..100u64 {
            let progress =
                Progress { unit: ProgressUnit::Step, current: step as f64, total: Some(200.0), at: Millis(step * 500) };
            history.report(progress);
        }
        let learning = history.peek(Millis(50_000));
        assert_eq!(learning.units_per_second, Some(2.0));
        assert_eq!(learning.units_to_completion.map(|left| left.likely), Some(101.0));
    }
}
