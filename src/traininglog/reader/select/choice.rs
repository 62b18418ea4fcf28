//! Chooses the evaluation function and the progress counter, following the hints, and rates the confidence.
//!
//! A choice may be revised later. A rival must be clearly better, so that two similar series do not alternate. Decisions on earlier values
//! are not revised.

use super::candidates::Candidates;
use super::counter::Counter;
use super::counters::{Beside, Counters};
use super::series::{Series, SeriesKey};
use crate::pattern::Pattern;
use crate::reader::parse::meaning::{Count, Split};
use crate::{Direction, Hints, ProgressUnit};
use serde::{Deserialize, Serialize};

/// Minimum ratio of a rival's score to that of the current choice.
const CLEARLY_BETTER: f64 = 1.04;

/// The current choice of the evaluation function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub key: SeriesKey,
    pub metric: String,
    pub direction: Direction,
    /// 0 ..= 1.
    pub confidence: f64,
    /// It is measured on held-out data.
    pub is_held_out: bool,
}

/// A candidate, for display.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Candidate {
    pub metric: String,
    pub count: u32,
    pub score: f64,
}

/// Reading of a progress counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CountReading {
    pub unit: ProgressUnit,
    /// As printed.
    pub current: f64,
    /// Units done, including the fraction from inner counters.
    pub done: f64,
    pub total: Option<f64>,
}

/// Holds the current choice.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    hints: Hints,
    chosen: Option<SeriesKey>,
    /// The direction in which the chosen series improves, if it was known at the latest update.
    direction: Option<Direction>,
    lines: u32,
    next_update: u32,
}

impl Chooser {
    pub(crate) fn new(hints: Hints) -> Self {
        let direction = hints.direction;
        Chooser { hints, chosen: None, direction, lines: 0, next_update: 1 }
    }

    /// Forgets everything except the hints.
    pub(crate) fn reset(&mut self) {
        *self = Chooser::new(std::mem::take(&mut self.hints));
    }

    pub(crate) fn chosen(&self) -> Option<SeriesKey> {
        self.chosen
    }

    /// Continues with the choice of an earlier reader.
    pub(crate) fn choose(&mut self, key: SeriesKey) {
        self.chosen = Some(key);
    }

    /// Called after each line with findings. Updates the choice after each of the first lines, later at growing intervals.
    pub(crate) fn after_line(&mut self, candidates: &Candidates) {
        self.lines = self.lines.saturating_add(1);
        if self.lines < self.next_update || self.hints.pattern.is_some() {
            return;
        }
        self.update(candidates);
        // The first choice is made soon.
        let longest = if self.chosen.is_some() { 256 } else { 8 };
        self.next_update = self.lines + 1 + (self.lines / 8).min(longest);
    }

    /// Updates the choice from all candidates.
    pub(crate) fn update(&mut self, candidates: &Candidates) {
        self.chosen = self.best(candidates);
        let series = self.chosen.and_then(|key| candidates.get(key.slot, key.generation));
        self.direction = series.and_then(|series| self.direction_of(series, candidates));
    }

    pub(crate) fn direction(&self) -> Option<Direction> {
        self.direction
    }

    fn direction_of(&self, series: &Series, candidates: &Candidates) -> Option<Direction> {
        self.hints.direction.or_else(|| candidates.direction(series))
    }

    pub(crate) fn pattern(&self) -> Option<&Pattern> {
        self.hints.pattern.as_ref()
    }

    /// Returns the name of the series that the pattern reads.
    pub(crate) fn pattern_name(&self) -> String {
        self.hints.metric.clone().unwrap_or_else(|| "value".to_owned())
    }

    /// Returns the counter for the unit of the hints; steps by default.
    pub(crate) fn requested_count(&self) -> Count {
        match self.hints.unit {
            Some(ProgressUnit::Epoch) => Count::Epoch,
            Some(ProgressUnit::Iteration) => Count::Iteration,
            Some(ProgressUnit::Round) => Count::Round,
            Some(ProgressUnit::Sample) => Count::Sample,
            Some(ProgressUnit::Percent) => Count::Percent,
            Some(ProgressUnit::Step) | None => Count::Step,
        }
    }

    fn best(&self, candidates: &Candidates) -> Option<SeriesKey> {
        if self.hints.pattern.is_some() {
            return self.chosen;
        }
        let ranked = self.ranked(candidates);
        let (best, score) = *ranked.first()?;
        let keeps =
            self.chosen.filter(|old| ranked.iter().any(|(key, own)| key == old && own * CLEARLY_BETTER >= score));
        keeps.or(Some(best))
    }

    /// Returns the ranking without series that the hints ignore, or only series like the metric that they name.
    fn ranked(&self, candidates: &Candidates) -> Vec<(SeriesKey, f64)> {
        let key = |slot: u16| {
            let generation = candidates.all()[usize::from(slot)].generation;
            SeriesKey { slot, generation }
        };
        let name = |slot: u16| candidates.all()[usize::from(slot)].name.as_str();
        if let Some(metric) = &self.hints.metric {
            let mut named: Vec<(SeriesKey, f64)> = candidates
                .all()
                .iter()
                .enumerate()
                .filter(|(_, series)| series.count > 0)
                .map(|(slot, series)| {
                    (
                        key(slot as u16),
                        likeness(metric, &series.name).max(likeness(metric, &name_with_split(series)))
                            + f64::from(series.count.min(1000)) * 1e-6,
                    )
                })
                .filter(|(_, likeness)| *likeness >= 0.5)
                .collect();
            named.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            return named;
        }
        let ranked = candidates.ranked();
        let ignored = |slot: u16| self.hints.ignore.iter().any(|ignored| likeness(ignored, name(slot)) >= 1.0);
        ranked.into_iter().filter(|(slot, _)| !ignored(*slot)).map(|(slot, score)| (key(slot), score)).collect()
    }

    pub(crate) fn choice(&self, candidates: &Candidates) -> Option<Choice> {
        let key = self.chosen?;
        let series = candidates.get(key.slot, key.generation)?;
        let known = self.direction_of(series, candidates);
        let is_named = self.hints.metric.is_some() || self.hints.pattern.is_some();
        let confidence = if is_named { 1.0 } else { series.confidence(known.is_some()) };
        let is_held_out = series.split == Split::Valid;
        let direction = known.unwrap_or(Direction::Down);
        Some(Choice { key, metric: shown(series), direction, confidence, is_held_out })
    }

    pub(crate) fn progress(&self, candidates: &Candidates, counters: &Counters) -> Option<CountReading> {
        let series = self.chosen.and_then(|key| candidates.get(key.slot, key.generation));
        let beside = series
            .map_or(Beside::default(), |series| Beside { first_line: series.first_line, counters: series.beside });
        let by_unit = self.hints.unit.and_then(|unit| counters.of_unit(unit));
        let counter = by_unit.or_else(|| counters.outermost(beside))?;
        let total = self.hints.total.or_else(|| counters.total_of(counter));
        Some(reading(counter, counters, total))
    }

    pub(crate) fn candidates(&self, candidates: &Candidates) -> Vec<Candidate> {
        let ranked = self.ranked(candidates);
        let again = |series: &Series| candidates.all().iter().filter(|other| other.name == series.name).count() > 1;
        ranked
            .into_iter()
            .filter_map(|(key, score)| candidates.get(key.slot, key.generation).map(|series| (series, score)))
            .map(|(series, score)| Candidate {
                metric: if again(series) { name_with_split(series) } else { shown(series) },
                count: series.count,
                score: (score * 1000.0).round() / 1000.0,
            })
            .collect()
    }
}

fn shown(series: &Series) -> String {
    series.name.clone()
}

/// Returns the name with the data split, as in `valid loss`. It is shown if several series have the same name, and accepted in hints.
fn name_with_split(series: &Series) -> String {
    match series.split {
        Split::Unsaid => shown(series),
        Split::Train => format!("train {}", series.name),
        Split::Valid => format!("valid {}", series.name),
        Split::Test => format!("test {}", series.name),
    }
}

fn reading(counter: &Counter, counters: &Counters, total: Option<f64>) -> CountReading {
    let done = counters.folded(counter);
    let done = total.map_or(done, |total| done.min(total.max(counter.current)));
    CountReading { unit: counter.count.unit(), current: counter.current, done, total }
}

/// Returns 1 for the same letters and digits, 0.5 if `name` begins or ends with `wanted`, and 0 otherwise.
fn likeness(wanted: &str, name: &str) -> f64 {
    let letters =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    let (wanted, name) = (letters(wanted), letters(name));
    if wanted.is_empty() || name.is_empty() {
        0.0
    } else if wanted == name {
        1.0
    } else if name.ends_with(&wanted) || name.starts_with(&wanted) {
        0.5
    } else {
        0.0
    }
}
