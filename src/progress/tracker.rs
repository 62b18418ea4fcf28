//! One job's log: the reader of its bytes and the history of its evaluations, behind one door.

use super::claim::Claim;
use super::curve::History;
use super::prior_run::PriorRun;
use super::reader::{CountReading, Heard, Memory, Reader, Sample, SeriesKey, View};
use super::survey::{EXCERPT_MAX, excerpt};
use super::wishes::wishes;
use crate::model::{Direction, Directives, Evaluation, Learning, Millis, Progress};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Values of all series that wait for a choice; a choice that is revised begins with them.
const WAITING: usize = 32;

/// What survives a restart of the daemon: the choice of metric, the scale, and a thinned history. Versioned by its owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    #[serde(default)]
    reader: Option<Memory>,
    history: History,
}

impl Checkpoint {
    /// With ages at `now` in place of instants, for another clock.
    pub(super) fn with_ages(self, now: Millis) -> Checkpoint {
        Checkpoint { history: self.history.with_ages(now), ..self }
    }

    /// With instants of this clock in place of ages at `now`.
    pub(super) fn with_instants(self, now: Millis) -> Checkpoint {
        Checkpoint { history: self.history.with_instants(now), ..self }
    }

    pub(super) fn has_progress(&self) -> bool {
        self.history.progress().is_some()
    }

    /// What is wrong with one that has ages and came from elsewhere.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        match &self.reader {
            Some(reader) if !reader.is_plausible() => Some("what it says of its lines"),
            _ => self.history.flaw(),
        }
    }
}

/// Follows one job's log. Memory is bounded whatever the log contains.
pub struct Tracker {
    reader: Reader,
    followed: Followed,
    problems: Vec<String>,
}

/// The chosen series, as the history follows it.
struct Followed {
    chosen: Option<SeriesKey>,
    waiting: VecDeque<Waiting>,
    /// The progress on the present line, once a value of it was read.
    counted: Option<Option<CountReading>>,
    history: History,
    line: Option<String>,
    /// The beginning of the latest line with a value, not yet turned into text.
    unshown: Vec<u8>,
    metric: Option<String>,
}

/// A value of any series: what of an [`Evaluation`] a choice begins with. There are many of them.
struct Waiting {
    series: SeriesKey,
    value: f64,
    at: Millis,
}

impl Tracker {
    /// A tracker that has read nothing, obeying the container's labels.
    pub fn new(directives: &Directives) -> Self {
        let (wishes, problems) = wishes(directives);
        let followed = Followed {
            chosen: None,
            waiting: VecDeque::new(),
            counted: None,
            history: History::new(directives.direction),
            line: None,
            unshown: Vec::new(),
            metric: directives.metric.clone(),
        };
        Tracker { reader: Reader::new(wishes), followed, problems }
    }

    /// Goes on where an earlier daemon stopped.
    pub fn resume(directives: &Directives, checkpoint: &Checkpoint) -> Self {
        let mut tracker = Tracker::new(directives);
        tracker.followed.history = checkpoint.history.clone();
        if directives.direction.is_some() && directives.direction != tracker.followed.history.direction() {
            tracker.followed.history.restart(directives.direction);
        }
        if let Some(memory) = &checkpoint.reader {
            tracker.followed.chosen = tracker.reader.remember(memory);
        }
        tracker
    }

    /// What [`Tracker::resume`] needs, a few KiB.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { reader: Some(self.reader.memory()), history: self.followed.history.clone() }
    }

    /// Earlier runs of the same training, which forecasts may lean on from now on.
    pub fn lean_on(&mut self, prior_runs: Vec<Arc<PriorRun>>) {
        self.followed.history.lean_on(prior_runs);
    }

    /// Totals that the job's command, environment or configuration claims, instead of those claimed before.
    pub fn claims(&mut self, claims: Vec<Claim>) {
        self.followed.history.claims(claims);
    }

    /// This run's curve, for later runs of the same training, once it has come to its end; `None` if it did not clearly improve.
    pub fn prior_run(&self) -> Option<PriorRun> {
        self.followed.history.prior_run()
    }

    /// Reads the next bytes of the log, in order, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], now: Millis) {
        let followed = &mut self.followed;
        self.reader.push(bytes, |heard, view| followed.hear(heard, view, now));
        self.followed.show();
    }

    /// Takes an evaluation that did not come from bytes (the simulator's).
    pub fn evaluate(&mut self, evaluation: Evaluation) {
        self.followed.history.push(evaluation);
    }

    /// Takes a progress report that did not come from bytes (the simulator's).
    pub fn report(&mut self, progress: Progress) {
        self.followed.history.report(progress);
    }

    /// The progress that the log told last.
    pub fn progress(&self) -> Option<Progress> {
        self.followed.history.progress()
    }

    /// What is known now, for status; changes nothing.
    pub fn peek(&self, now: Millis) -> Learning {
        self.named(self.followed.history.peek(now))
    }

    /// Ends an interval: what is known now with the gain since the last interval that had evaluations. Once per tick.
    pub fn close_interval(&mut self, now: Millis) -> Learning {
        let learning = self.followed.history.close_interval(now);
        self.named(learning)
    }

    /// The latest values of the metric, oldest first, at most 60, for a sparkline.
    pub fn recent(&self) -> Vec<f64> {
        self.followed.history.recent()
    }

    /// The line that the latest evaluation stood on, shortened.
    pub fn line(&self) -> Option<&str> {
        self.followed.line.as_deref()
    }

    /// What is wrong with the labels, in words (an invalid pattern, a contradiction).
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn named(&self, learning: Learning) -> Learning {
        match self.reader.view().choice() {
            Some(choice) => Learning { metric: Some(choice.metric), confidence: choice.confidence, ..learning },
            // Evaluations without a log are the simulator's, and certain.
            None => {
                let confidence = if learning.latest.is_some() { 1.0 } else { 0.0 };
                Learning { metric: self.followed.metric.clone(), confidence, ..learning }
            }
        }
    }
}

impl Followed {
    /// Everything happens line by line, so that it makes no difference how many lines one read of the log brings.
    fn hear(&mut self, heard: Heard<'_>, view: &View<'_>, now: Millis) {
        match heard {
            Heard::Value(sample) => self.take(sample, view, now),
            Heard::End => {
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
            let text = sample.rendering.text;
            self.unshown.clear();
            self.unshown.extend_from_slice(&text[..text.len().min(EXCERPT_MAX)]);
        }
    }

    /// Reports the progress on the present line.
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

    /// Turns to another series, or to the other direction, when the reader did. Decisions taken on the old one stay; its values are forgotten.
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
