//! Reads a whole log and returns every observation of the finally chosen series, so that a user can check the choice.
//!
//! A [`Tracker`](crate::Tracker) keeps a bounded history; a survey keeps all observations. Beyond a million values it keeps only those of
//! the current choice, and [`Survey::is_complete`] reports whether a second pass with [`Survey::again`] is needed. Pure.
//!
//! ```
//! use traininglog::Hints;
//! use traininglog::survey::Survey;
//!
//! let mut survey = Survey::new(&Hints::default());
//! survey.push(b"epoch,train_loss,lr\n1,0.91,0.1\n2,0.55,0.1\n3,0.41,0.1");
//! survey.finish();
//! let reading = survey.reading();
//! assert_eq!(reading.metric.as_deref(), Some("train_loss"));
//! let values: Vec<(u64, f64)> = reading.observations.iter().map(|seen| (seen.line, seen.value)).collect();
//! assert_eq!(values, [(2, 0.91), (3, 0.55), (4, 0.41)]);
//! ```

use super::reader::{Candidate, Choice, ReadEvent, Reader, Rendering, Sample, SeriesKey, View};
use crate::{Direction, Hints, ProgressUnit};
use std::collections::BTreeMap;

/// Maximum number of observations of all series; beyond it only the chosen series is kept.
const BUDGET: usize = 1 << 20;

/// Maximum bytes of a line's excerpt.
pub(super) const EXCERPT_MAX: usize = 160;

/// One printed value of the chosen series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Line number, from 1.
    pub line: u64,
    /// Its place among the values of all series in the order of reading, from 1, as counted by [`Survey::values_read`].
    pub number: u64,
    /// As printed; may be NaN or infinite.
    pub value: f64,
    /// Progress counter at this observation, as printed.
    pub current: Option<f64>,
    /// The counter's total.
    pub total: Option<f64>,
    /// Whether this rendering of the line was not overwritten by a redraw.
    pub last: bool,
}

/// The progress counter at the end of the log, as printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrintedProgress {
    /// The unit that is counted.
    pub unit: ProgressUnit,
    /// The number as printed: counted from 0 if the program does so.
    pub current: f64,
    /// The printed total.
    pub total: Option<f64>,
}

/// A candidate for the evaluation function.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedSeries {
    /// Its name as printed.
    pub metric: String,
    /// Number of values read.
    pub count: u32,
    /// Score of the choice; higher is more likely.
    pub score: f64,
}

/// The result of reading a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogReading {
    /// The evaluation function's name.
    pub metric: Option<String>,
    /// The direction in which it improves.
    pub direction: Option<Direction>,
    /// Confidence of the choice, 0 ..= 1.
    pub confidence: f64,
    /// Its values, in order.
    pub observations: Vec<Observation>,
    /// The progress counter at the end of the log.
    pub progress: Option<PrintedProgress>,
    /// All candidates, best first.
    pub candidates: Vec<RankedSeries>,
    /// The first and the latest line with a value of the metric, with line numbers, truncated.
    pub excerpts: Vec<(u64, String)>,
}

/// Reads a whole log; see the [module](self).
pub struct Survey {
    reader: Reader,
    kept: Kept,
}

#[derive(Default)]
struct Kept {
    series: BTreeMap<SeriesKey, Values>,
    values: usize,
    /// Number of values read, whether kept or not.
    read: u64,
    only: Option<SeriesKey>,
    dropped: bool,
    counts: Vec<(Option<f64>, Option<f64>)>,
    /// Whether the last of `counts` belongs to the current line.
    counted: bool,
}

#[derive(Default)]
struct Values {
    values: Vec<Printed>,
    first: Option<(u64, String)>,
    latest: Option<(u64, String)>,
}

struct Printed {
    line: u64,
    number: u64,
    value: f64,
    last: bool,
    /// Index into `Kept::counts`.
    count: u32,
}

impl Survey {
    /// Returns an empty survey that follows `hints`.
    pub fn new(hints: &Hints) -> Self {
        Survey { reader: Reader::new(hints), kept: Kept::default() }
    }

    /// Reads the next bytes; they may be cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        let kept = &mut self.kept;
        self.reader.push(bytes, |event, view| kept.handle(event, view));
    }

    /// Reads an unfinished last line.
    pub fn finish(&mut self) {
        let kept = &mut self.kept;
        self.reader.finish(|event, view| kept.handle(event, view));
    }

    /// Number of values of all series read so far; those of a line are read once it has ended or is redrawn.
    pub fn values_read(&self) -> u64 {
        self.kept.read
    }

    /// Whether all observations of the chosen series were kept.
    pub fn is_complete(&self) -> bool {
        !self.kept.dropped || self.kept.only == self.reader.view().choice().map(|choice| choice.key)
    }

    /// Returns an empty survey for a second pass, which keeps only the series that this one chose.
    pub fn again(&self, hints: &Hints) -> Survey {
        let mut survey = Survey::new(hints);
        survey.kept.only = self.reader.view().choice().map(|choice| choice.key);
        survey
    }

    /// Returns the result.
    pub fn reading(mut self) -> LogReading {
        let view = self.reader.view();
        let candidates = view.candidates().into_iter().map(ranked).collect();
        let progress = view.progress().map(|p| PrintedProgress { unit: p.unit, current: p.current, total: p.total });
        let reading = LogReading { progress, candidates, ..LogReading::default() };
        match view.choice() {
            None => reading,
            Some(Choice { key, metric, direction, confidence, .. }) => {
                let values = self.kept.series.remove(&key).unwrap_or_default();
                let observations = with_counts(&values.values, &self.kept.counts);
                let excerpts = values.first.into_iter().chain(values.latest).collect();
                LogReading {
                    metric: Some(metric),
                    direction: Some(direction),
                    confidence,
                    observations,
                    excerpts,
                    ..reading
                }
            }
        }
    }
}

impl Kept {
    fn handle(&mut self, event: ReadEvent<'_>, view: &View<'_>) {
        match event {
            ReadEvent::Value(sample) => {
                self.read += 1;
                self.take(sample, view);
            }
            ReadEvent::End => self.counted = false,
        }
    }

    fn take(&mut self, sample: Sample<'_>, view: &View<'_>) {
        if self.only.is_some_and(|only| only != sample.series) {
            return;
        }
        if self.only.is_none() && self.values >= BUDGET {
            self.keep_only(view.chosen());
            return self.take(sample, view);
        }
        let Rendering { line, last, printed: text, .. } = sample.rendering;
        if !std::mem::replace(&mut self.counted, true) {
            self.count(view);
        }
        let count = self.counts.len() as u32 - 1;
        let values = self.series.entry(sample.series).or_default();
        values.values.push(Printed { line, number: self.read, value: sample.value, last, count });
        match values.values.len() {
            1 => values.first = Some((line, excerpt(text))),
            _ => values.latest = Some((line, excerpt(text))),
        }
        self.values += 1;
    }

    fn keep_only(&mut self, chosen: Option<SeriesKey>) {
        self.series.retain(|key, _| Some(*key) == chosen);
        self.dropped = true;
        // If no series was chosen among so many values, none will be.
        self.only = chosen.or(self.series.keys().next().copied());
        if self.only.is_none() {
            self.values = 0;
        }
    }

    fn count(&mut self, view: &View<'_>) {
        let count = view.progress().map_or((None, None), |p| (Some(p.current), p.total));
        if self.counts.last() != Some(&count) {
            self.counts.push(count);
        }
    }
}

fn ranked(candidate: Candidate) -> RankedSeries {
    RankedSeries { metric: candidate.metric, count: candidate.count, score: candidate.score }
}

fn with_counts(values: &[Printed], counts: &[(Option<f64>, Option<f64>)]) -> Vec<Observation> {
    let observed = |printed: &Printed| {
        let (current, total) = counts.get(printed.count as usize).copied().unwrap_or_default();
        let Printed { line, number, value, last, .. } = *printed;
        Observation { line, number, value, current, total, last }
    };
    values.iter().map(observed).collect()
}

/// Returns the beginning of a line as text.
pub(super) fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(EXCERPT_MAX)]).trim().to_owned()
}
