//! Follows one job's log: combines the reader of its bytes with the history of its evaluations.

use super::claim::Claim;
use super::curve::History;
use super::prior_run::PriorRun;
use super::reader::{CountReading, ReadEvent, Reader, ReaderState, Sample, SeriesKey, View};
use super::survey::{EXCERPT_MAX, excerpt};
use crate::{Direction, Estimate, Evaluation, Hints, Learning, Millis, Progress};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Latest values of all series that are kept; a new choice of series starts with its values among them.
const WAITING: usize = 32;

/// The state of a tracker that survives a restart of its program: the chosen metric, the scale, and a thinned history.
///
/// Instants in it are those of the caller's clock, which must go on across the restart; to continue on another clock, use a
/// [`LearningRecord`](crate::LearningRecord). The caller versions what it stores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    #[serde(default)]
    reader: Option<ReaderState>,
    history: History,
}

impl Checkpoint {
    /// Replaces instants by ages at `now`, for use with another clock.
    pub(super) fn with_ages(self, now: Millis) -> Checkpoint {
        Checkpoint { history: self.history.with_ages(now), ..self }
    }

    /// Replaces ages at `now` by instants of this clock.
    pub(super) fn with_instants(self, now: Millis) -> Checkpoint {
        Checkpoint { history: self.history.with_instants(now), ..self }
    }

    pub(super) fn has_progress(&self) -> bool {
        self.history.progress().is_some()
    }

    /// Returns the name of an implausible part of a checkpoint with ages that another machine sent.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        match &self.reader {
            Some(reader) if !reader.is_plausible() => Some("reader state"),
            _ => self.history.flaw(),
        }
    }
}

/// Follows the log of one training, in bounded memory: it is fed bytes and asked what is known.
///
/// See the [crate](crate) for an example.
pub struct Tracker {
    reader: Reader,
    followed: Followed,
    grew: Option<Millis>,
}

/// The chosen series and its history.
struct Followed {
    chosen: Option<SeriesKey>,
    waiting: VecDeque<Waiting>,
    /// Progress on the current line, once a value of the line was read.
    counted: Option<Option<CountReading>>,
    history: History,
    line: Option<String>,
    /// The beginning of the latest line with a value, not yet converted to text.
    unshown: Vec<u8>,
    metric: Option<String>,
}

/// A value of any series, smaller than an [`Evaluation`] because many are kept.
struct Waiting {
    series: SeriesKey,
    value: f64,
    at: Millis,
}

impl Tracker {
    /// Returns an empty tracker that follows `hints`.
    pub fn new(hints: &Hints) -> Self {
        let followed = Followed {
            chosen: None,
            waiting: VecDeque::new(),
            counted: None,
            history: History::new(hints.direction),
            line: None,
            unshown: Vec::new(),
            metric: hints.metric.clone(),
        };
        Tracker { reader: Reader::new(hints), followed, grew: None }
    }

    /// Returns a tracker that continues from the checkpoint of an earlier one, in the middle of the log.
    pub fn resume(hints: &Hints, checkpoint: &Checkpoint) -> Self {
        let mut tracker = Tracker::new(hints);
        tracker.followed.history = checkpoint.history.clone();
        if hints.direction.is_some() && hints.direction != tracker.followed.history.direction() {
            tracker.followed.history.restart(hints.direction);
        }
        if let Some(state) = &checkpoint.reader {
            tracker.followed.chosen = tracker.reader.restore(state);
        }
        tracker
    }

    /// Returns the state that [`Tracker::resume`] needs, a few KiB.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { reader: Some(self.reader.state()), history: self.followed.history.clone() }
    }

    /// Sets the earlier runs of the same training, oldest first, for use in forecasts.
    pub fn use_prior_runs(&mut self, prior_runs: Vec<Arc<PriorRun>>) {
        self.followed.history.use_prior_runs(prior_runs);
    }

    /// Replaces the totals that the job's command, environment and configuration files claim.
    pub fn claims(&mut self, claims: Vec<Claim>) {
        self.followed.history.claims(claims);
    }

    /// Returns this completed run's curve for later runs of the same training; `None` if it did not clearly improve.
    pub fn prior_run(&self) -> Option<PriorRun> {
        self.followed.history.prior_run()
    }

    /// Reads the next bytes of the log, which were written by `now`. Bytes are pushed in order and may be cut anywhere; a line counts once
    /// it has ended or is redrawn.
    pub fn push(&mut self, bytes: &[u8], now: Millis) {
        if !bytes.is_empty() {
            self.grew = Some(now);
        }
        let followed = &mut self.followed;
        self.reader.push(bytes, |event, view| followed.handle(event, view, now));
        self.followed.show();
    }

    /// Adds an evaluation that was not read from bytes, as of a simulated training.
    pub fn evaluate(&mut self, evaluation: Evaluation) {
        self.followed.history.push(evaluation);
    }

    /// Adds a progress report that was not read from bytes. It belongs before the evaluations that it counts.
    pub fn report(&mut self, progress: Progress) {
        self.followed.history.report(progress);
    }

    /// The latest progress in the log.
    pub fn progress(&self) -> Option<Progress> {
        self.followed.history.progress()
    }

    /// Returns what is known at `now`, without ending an interval.
    pub fn peek(&self, now: Millis) -> Learning {
        self.named(self.followed.history.peek(now))
    }

    /// Ends an interval and returns what is known at `now`, with the gain since the last interval that had evaluations. Curves are fitted
    /// here, so it is to be called at regular intervals, such as every twenty seconds.
    pub fn close_interval(&mut self, now: Millis) -> Learning {
        let learning = self.followed.history.close_interval(now);
        self.named(learning)
    }

    /// The latest values of the metric, oldest first, at most 60, for a sparkline.
    pub fn recent(&self) -> Vec<f64> {
        self.followed.history.recent()
    }

    /// The evaluations so far, thinned to a few dozen means, oldest first: progress units and value. Empty if the log counts nothing.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        self.followed.history.points()
    }

    /// The value of the metric that is expected at the end of the training; `None` while there are too few evaluations.
    pub fn expected_final(&self) -> Option<Estimate> {
        self.followed.history.expected_final()
    }

    /// The line of the latest evaluation, truncated to 160 bytes.
    pub fn line(&self) -> Option<&str> {
        self.followed.line.as_deref()
    }

    fn named(&self, learning: Learning) -> Learning {
        let learning = Learning { log_grew: self.grew, ..learning };
        match self.reader.view().choice() {
            Some(choice) => Learning {
                metric: Some(choice.metric),
                confidence: choice.confidence,
                is_held_out: choice.is_held_out,
                ..learning
            },
            // Evaluations without a log are certain.
            None => {
                let confidence = if learning.latest.is_some() { 1.0 } else { 0.0 };
                let is_held_out = learning.latest.is_some();
                Learning { metric: self.followed.metric.clone(), confidence, is_held_out, ..learning }
            }
        }
    }
}

impl Followed {
    /// Works line by line, so that the result does not depend on how many lines one read returns.
    fn handle(&mut self, event: ReadEvent<'_>, view: &View<'_>, now: Millis) {
        match event {
            ReadEvent::Value(sample) => self.take(sample, view, now),
            ReadEvent::End => {
                self.follow(view);
                if self.counted.take().is_none() {
                    self.count(view, now);
                    self.counted = None;
                }
            }
        }
    }

    fn take(&mut self, sample: Sample<'_>, view: &View<'_>, now: Millis) {
        let count = match self.counted {
            Some(count) => count,
            None => self.count(view, now),
        };
        let evaluation = Evaluation {
            at: now,
            value: sample.value,
            current: count.map(|count| count.current),
            total: count.and_then(|count| count.total),
        };
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting { series: sample.series, value: sample.value, at: now });
        if self.chosen == Some(sample.series) {
            self.history.push(evaluation);
            let text = sample.rendering.printed;
            self.unshown.clear();
            self.unshown.extend_from_slice(&text[..text.len().min(EXCERPT_MAX)]);
        }
    }

    /// Reports the progress on the current line.
    fn count(&mut self, view: &View<'_>, now: Millis) -> Option<CountReading> {
        let count = view.progress();
        self.counted = Some(count);
        if let Some(read) = count {
            self.history.report(Progress { unit: read.unit, current: read.done, total: read.total, at: now });
        }
        count
    }

    fn show(&mut self) {
        if !self.unshown.is_empty() {
            self.line = Some(excerpt(&self.unshown));
            self.unshown.clear();
        }
    }

    /// Switches to another series or direction when the reader did. Earlier decisions remain; the values of the old series are forgotten.
    fn follow(&mut self, view: &View<'_>) {
        let turned = view.direction().is_some_and(|direction| Some(direction) != self.history.direction());
        if view.chosen() == self.chosen && !turned {
            return;
        }
        self.chosen = view.chosen();
        self.history.restart(view.direction().or(Some(Direction::Down)));
        for waiting in self.waiting.iter().filter(|waiting| Some(waiting.series) == self.chosen) {
            self.history.push(Evaluation { at: waiting.at, value: waiting.value, current: None, total: None });
        }
    }
}
