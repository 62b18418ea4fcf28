//! Which series is the evaluation function, and which counter is the progress: the choice, what the owner wishes, how sure it is.
//!
//! A choice may be revised as evidence comes; a rival must be clearly better, so that two equals do not alternate. What was
//! decided on earlier values stays decided. Imports: model, its siblings, `parse`.

use super::candidates::Candidates;
use super::counter::Counter;
use super::counters::{Beside, Counters};
use super::series::{Series, SeriesKey};
use crate::model::{Direction, Pattern, ProgressUnit};
use crate::progress::reader::parse::meaning::{Count, Split};
use serde::{Deserialize, Serialize};

/// A rival must be so much better to replace the choice.
const CLEARLY_BETTER: f64 = 1.04;

/// What the owner's labels ask of the reader.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    pub metric: Option<String>,
    pub direction: Option<Direction>,
    pub pattern: Option<Pattern>,
    pub total: Option<f64>,
    pub unit: Option<ProgressUnit>,
    pub ignore: Vec<String>,
}

/// The evaluation function as it is understood now.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub key: SeriesKey,
    pub metric: String,
    pub direction: Direction,
    /// 0 ..= 1.
    pub confidence: f64,
}

/// A candidate, for display.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub metric: String,
    pub count: u32,
    pub score: f64,
}

/// A progress counter, as printed and folded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountReading {
    pub unit: ProgressUnit,
    /// As printed.
    pub current: f64,
    /// Units done, inner counters folded in.
    pub done: f64,
    pub total: Option<f64>,
}

/// Keeps the choice.
#[derive(Clone, Debug)]
pub struct Chooser {
    wishes: Wishes,
    chosen: Option<SeriesKey>,
    /// Which way the chosen series improves, as far as it was known at the last look.
    direction: Option<Direction>,
    lines: u32,
    next_look: u32,
}

impl Chooser {
    pub fn new(wishes: Wishes) -> Self {
        let direction = wishes.direction;
        Chooser { wishes, chosen: None, direction, lines: 0, next_look: 1 }
    }

    /// Everything that was seen is forgotten.
    pub fn begin_again(&mut self) {
        *self = Chooser::new(std::mem::take(&mut self.wishes));
    }

    pub fn chosen(&self) -> Option<SeriesKey> {
        self.chosen
    }

    /// Goes on with the choice of an earlier reader.
    pub fn choose(&mut self, key: SeriesKey) {
        self.chosen = Some(key);
    }

    /// After each line with findings: looks again at the first lines one by one, then ever more rarely.
    pub fn after_line(&mut self, candidates: &Candidates) {
        self.lines = self.lines.saturating_add(1);
        if self.lines < self.next_look || self.wishes.pattern.is_some() {
            return;
        }
        self.look(candidates);
        // While there is nothing to lose, the first choice does not wait.
        let rarely = if self.chosen.is_some() { 256 } else { 8 };
        self.next_look = self.lines + 1 + (self.lines / 8).min(rarely);
    }

    /// Looks at all candidates again. What is told between two looks is what the last one found.
    pub fn look(&mut self, candidates: &Candidates) {
        self.chosen = self.best(candidates);
        let series = self.chosen.and_then(|key| candidates.get(key.slot, key.generation));
        self.direction = series.and_then(|series| self.direction_of(series, candidates));
    }

    pub fn direction(&self) -> Option<Direction> {
        self.direction
    }

    fn direction_of(&self, series: &Series, candidates: &Candidates) -> Option<Direction> {
        self.wishes.direction.or_else(|| candidates.direction(series))
    }

    pub fn pattern(&self) -> Option<&Pattern> {
        self.wishes.pattern.as_ref()
    }

    /// What the series that the pattern reads is called.
    pub fn pattern_name(&self) -> String {
        self.wishes.metric.clone().unwrap_or_else(|| "value".to_owned())
    }

    /// The counter that stands for the unit that the owner named; steps otherwise.
    pub fn wished_count(&self) -> Count {
        match self.wishes.unit {
            Some(ProgressUnit::Epoch) => Count::Epoch,
            Some(ProgressUnit::Iteration) => Count::Iteration,
            Some(ProgressUnit::Round) => Count::Round,
            Some(ProgressUnit::Sample) => Count::Sample,
            Some(ProgressUnit::Percent) => Count::Percent,
            Some(ProgressUnit::Step) | None => Count::Step,
        }
    }

    fn best(&self, candidates: &Candidates) -> Option<SeriesKey> {
        if self.wishes.pattern.is_some() {
            return self.chosen;
        }
        let ranked = self.wished(candidates);
        let (best, score) = *ranked.first()?;
        let keeps =
            self.chosen.filter(|old| ranked.iter().any(|(key, own)| key == old && own * CLEARLY_BETTER >= score));
        keeps.or(Some(best))
    }

    /// The ranking, less what the owner ignores; a metric that the owner names is first.
    fn wished(&self, candidates: &Candidates) -> Vec<(SeriesKey, f64)> {
        let key = |slot: u16| {
            let generation = candidates.all()[usize::from(slot)].generation;
            SeriesKey { slot, generation }
        };
        let name = |slot: u16| candidates.all()[usize::from(slot)].name.as_str();
        if let Some(metric) = &self.wishes.metric {
            let mut named: Vec<(SeriesKey, f64)> = candidates
                .all()
                .iter()
                .enumerate()
                .filter(|(_, series)| series.count > 0)
                .map(|(slot, series)| {
                    (
                        key(slot as u16),
                        likeness(metric, &series.name).max(likeness(metric, &told_apart(series)))
                            + f64::from(series.count.min(1000)) * 1e-6,
                    )
                })
                .filter(|(_, likeness)| *likeness >= 0.5)
                .collect();
            named.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            return named;
        }
        let ranked = candidates.ranked();
        let ignored = |slot: u16| self.wishes.ignore.iter().any(|ignored| likeness(ignored, name(slot)) >= 1.0);
        ranked.into_iter().filter(|(slot, _)| !ignored(*slot)).map(|(slot, score)| (key(slot), score)).collect()
    }

    pub fn choice(&self, candidates: &Candidates) -> Option<Choice> {
        let key = self.chosen?;
        let series = candidates.get(key.slot, key.generation)?;
        let known = self.direction_of(series, candidates);
        let told = self.wishes.metric.is_some() || self.wishes.pattern.is_some();
        let confidence = if told { 1.0 } else { series.confidence(known.is_some()) };
        Some(Choice { key, metric: shown(series), direction: known.unwrap_or(Direction::Down), confidence })
    }

    pub fn progress(&self, candidates: &Candidates, counters: &Counters) -> Option<CountReading> {
        let series = self.chosen.and_then(|key| candidates.get(key.slot, key.generation));
        let beside = series
            .map_or(Beside::default(), |series| Beside { first_line: series.first_line, counters: series.beside });
        let wished = self.wishes.unit.and_then(|unit| counters.of_unit(unit));
        let counter = wished.or_else(|| counters.outermost(beside))?;
        let total = self.wishes.total.or_else(|| counters.total_of(counter));
        Some(reading(counter, counters, total))
    }

    pub fn candidates(&self, candidates: &Candidates) -> Vec<Candidate> {
        let ranked = self.wished(candidates);
        let again = |series: &Series| candidates.all().iter().filter(|other| other.name == series.name).count() > 1;
        ranked
            .into_iter()
            .filter_map(|(key, score)| candidates.get(key.slot, key.generation).map(|series| (series, score)))
            .map(|(series, score)| Candidate {
                metric: if again(series) { told_apart(series) } else { shown(series) },
                count: series.count,
                score: (score * 1000.0).round() / 1000.0,
            })
            .collect()
    }
}

fn shown(series: &Series) -> String {
    series.name.clone()
}

/// The name with the part of the data: `valid loss`, where several are called `loss`. A label may name it so.
fn told_apart(series: &Series) -> String {
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

/// 1 for the same letters and digits, 0.5 for a name that begins or ends with the other, 0 otherwise.
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
