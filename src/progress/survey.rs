//! A whole log at once: every observation of the series that was chosen in the end, for a reader who wants to check.
//!
//! The tracker keeps a bounded history; a survey keeps what it shows. Beyond a budget only the present choice is kept, and
//! [`Survey::is_complete`] says whether a second pass with [`Survey::again`] is needed. Pure. Imports: model only.

use super::reader::{Candidate, Choice, Heard, Reader, Rendering, Sample, SeriesKey, View};
use super::wishes::wishes;
use crate::model::{Direction, Directives, ProgressUnit};
use std::collections::BTreeMap;

/// Observations of all series together that are kept before only the chosen series is.
const BUDGET: usize = 1 << 20;

/// Longest excerpt of a line.
pub(super) const EXCERPT_MAX: usize = 160;

/// One printed value of the chosen series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Newlines before it, plus one.
    pub line: u64,
    /// As printed; may be NaN or infinite.
    pub value: f64,
    /// The progress counter where it was printed, as printed.
    pub current: Option<f64>,
    /// The counter's total.
    pub total: Option<f64>,
    /// Whether no redraw overwrote the line that it stands on.
    pub last: bool,
}

/// The progress counter at the end of the log, as printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrintedProgress {
    /// What is counted.
    pub unit: ProgressUnit,
    /// The number as printed (counted from 0 where the program does so).
    pub current: f64,
    /// How many there will be.
    pub total: Option<f64>,
}

/// A series that might have been the evaluation function.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedSeries {
    /// Its name as printed.
    pub metric: String,
    /// Values read.
    pub count: u32,
    /// Its rank; larger is likelier.
    pub score: f64,
}

/// What a log was understood to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogReading {
    /// The evaluation function's name.
    pub metric: Option<String>,
    /// Which way it improves.
    pub direction: Option<Direction>,
    /// How sure that is, 0 ..= 1.
    pub confidence: f64,
    /// Its values, in order.
    pub observations: Vec<Observation>,
    /// How far the job is.
    pub progress: Option<PrintedProgress>,
    /// All candidates, best first.
    pub candidates: Vec<RankedSeries>,
    /// The first and the latest line with a value of the metric, shortened.
    pub excerpts: Vec<(u64, String)>,
    /// What is wrong with the labels.
    pub problems: Vec<String>,
}

/// Reads a whole log; see the module.
pub struct Survey {
    reader: Reader,
    kept: Kept,
    problems: Vec<String>,
}

#[derive(Default)]
struct Kept {
    series: BTreeMap<SeriesKey, Values>,
    values: usize,
    only: Option<SeriesKey>,
    dropped: bool,
    counts: Vec<(Option<f64>, Option<f64>)>,
    /// Whether the last of the counts is the present line's.
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
    value: f64,
    last: bool,
    /// Index among the counts.
    count: u32,
}

impl Survey {
    /// A survey that has read nothing, obeying `directives`.
    pub fn new(directives: &Directives) -> Self {
        let (wishes, problems) = wishes(directives);
        Survey { reader: Reader::new(wishes), kept: Kept::default(), problems }
    }

    /// Reads the next bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        let kept = &mut self.kept;
        self.reader.push(bytes, |heard, view| kept.hear(heard, view));
    }

    /// Reads what stands on an unfinished last line.
    pub fn finish(&mut self) {
        let kept = &mut self.kept;
        self.reader.finish(|heard, view| kept.hear(heard, view));
    }

    /// Whether all observations of the choice were kept.
    pub fn is_complete(&self) -> bool {
        !self.kept.dropped || self.kept.only == self.reader.view().choice().map(|choice| choice.key)
    }

    /// A survey of the same bytes that keeps only the series that this one chose in the end.
    pub fn again(&self, directives: &Directives) -> Survey {
        let mut survey = Survey::new(directives);
        survey.kept.only = self.reader.view().choice().map(|choice| choice.key);
        survey
    }

    /// What was understood.
    pub fn reading(mut self) -> LogReading {
        let view = self.reader.view();
        let candidates = view.candidates().into_iter().map(ranked).collect();
        let progress = view.progress().map(|p| PrintedProgress { unit: p.unit, current: p.current, total: p.total });
        let reading = LogReading { progress, candidates, problems: self.problems, ..LogReading::default() };
        match view.choice() {
            None => reading,
            Some(Choice { key, metric, direction, confidence }) => {
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
    fn hear(&mut self, heard: Heard<'_>, view: &View<'_>) {
        match heard {
            Heard::Value(sample) => self.take(sample, view),
            Heard::End => self.counted = false,
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
        let Rendering { line, last, text } = sample.rendering;
        if !std::mem::replace(&mut self.counted, true) {
            self.count(view);
        }
        let count = self.counts.len() as u32 - 1;
        let values = self.series.entry(sample.series).or_default();
        values.values.push(Printed { line, value: sample.value, last, count });
        match values.values.len() {
            1 => values.first = Some((line, excerpt(text))),
            count if count.is_power_of_two() => values.latest = Some((line, excerpt(text))),
            _ => {}
        }
        self.values += 1;
    }

    fn keep_only(&mut self, chosen: Option<SeriesKey>) {
        self.series.retain(|key, _| Some(*key) == chosen);
        self.dropped = true;
        // Nothing chosen among so many values: nothing will be.
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
        Observation { line: printed.line, value: printed.value, current, total, last: printed.last }
    };
    values.iter().map(observed).collect()
}

/// The beginning of a line, as text.
pub(super) fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(EXCERPT_MAX)]).trim().to_owned()
}
