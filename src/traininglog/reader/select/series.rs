//! One candidate series: its name, its trend, and how it is printed.

use crate::Direction;
use crate::plausible;
use crate::reader::parse::lexicon;
use crate::reader::parse::meaning::Split;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fraction of its range by which a validation must have improved to be preferred over its training value.
const IMPROVED: f64 = 0.3;

/// Minimum number of values for that decision.
const VALIDATED: u32 = 3;

/// Number of values below which the last value is used instead of a decaying mean.
const SHORT: u32 = 15;

/// Minimum ratio of moves in one direction to moves in the other for a steady trend.
const STEADILY: f64 = 1.25;

/// Number of first values that are averaged as the beginning of a series.
const EARLY: u32 = 5;

/// Maximum bytes of the name of a received series.
const MAX_NAME: usize = 1024;
/// Maximum weight of a received series.
const MAX_WEIGHT: f32 = 100.0;

/// Key of a series, invalid after its eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SeriesKey {
    pub slot: u16,
    pub generation: u16,
}

/// One candidate.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub name: String,
    pub split: Split,
    /// Kinds of counters on its line, one bit each: a value per epoch is not the value per step of the same name.
    pub signature: u16,
    /// Position among the named values of the line.
    pub place: u8,
    /// Counts the series of this slot, so that keys of an evicted series become invalid.
    pub generation: u16,
    pub count: u32,
    pub first_line: u64,
    /// The counters on its latest line, one bit each.
    pub beside: u16,
    last_line: u64,
    pub last: f64,
    pub named_direction: Option<Direction>,
    pub weight: f32,
    pub(super) low: f64,
    pub(super) high: f64,
    pub rises: u32,
    pub falls: u32,
    early: f64,
    pub(super) late: f64,
    first: f64,
    /// Advances of outer counters at the first and at the latest value.
    pub paces: Option<(u32, u32)>,
    form: Form,
    pub(super) whole: bool,
    /// Whether the name is ambiguous about the direction.
    soft: bool,
    /// Hash of the name without the data split: equal for one quantity measured on several splits.
    pub quantity: u64,
    /// Whether it ever improved in the direction of its name.
    pub improved: bool,
    /// Number of values on lines like the one before, since which nothing was counted: the items of a list.
    pub listed: u32,
}

/// How and when a value was printed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    /// Of the line.
    pub shape: u16,
    /// Bytes of the number.
    pub length: u8,
    /// Number of advances of all counters.
    pub at: u16,
}

/// The stored state of a series. Only finite numbers, because JSON has no others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeriesState {
    name: String,
    split: Split,
    signature: u16,
    direction: Option<Direction>,
    pub weight: f32,
    count: u32,
    range: Option<(f64, f64)>,
    moves: (u32, u32),
    early: f64,
    late: f64,
    whole: bool,
    #[serde(default)]
    improved: bool,
}

impl SeriesState {
    /// Whether all values are plausible.
    pub(crate) fn is_plausible(&self) -> bool {
        let (low, high) = self.range.unwrap_or_default();
        self.name.len() <= MAX_NAME
            && (0.0..=MAX_WEIGHT).contains(&self.weight)
            && [low, high, self.early, self.late].into_iter().all(plausible::number)
            && low <= high
            && [self.count, self.moves.0, self.moves.1].into_iter().all(plausible::small_count)
    }

    /// Returns the name and position of the series.
    pub(crate) fn named(&self) -> Named<'_> {
        let SeriesState { name, split, signature, direction, weight, .. } = self;
        Named { place: 0, name, split: *split, signature: *signature, direction: *direction, weight: *weight }
    }
}

impl From<&Series> for SeriesState {
    fn from(series: &Series) -> Self {
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        SeriesState {
            name: series.name.clone(),
            split: series.split,
            signature: series.signature,
            direction: series.named_direction,
            weight: series.weight,
            count: series.count,
            range: (series.low <= series.high).then_some((finite(series.low), finite(series.high))),
            moves: (series.rises, series.falls),
            early: finite(series.early),
            late: finite(series.late),
            whole: series.whole,
            improved: series.improved,
        }
    }
}

/// A series as found by line analysis.
pub(crate) struct Named<'a> {
    pub place: u8,
    pub name: &'a str,
    pub split: Split,
    pub signature: u16,
    pub direction: Option<Direction>,
    pub weight: f32,
}

/// Returns the evidence from the number of values of a series.
pub(crate) fn recurrence(count: u32) -> f64 {
    1.0 + f64::from(count.max(1)).ln()
}

/// Whether a name is ambiguous about the direction.
fn is_soft(name: &str, weight: f32) -> bool {
    let name = name.to_lowercase();
    let soft = ["score", "objective", "objf", "obj", "fitness", "energy", "metric"];
    weight <= 0.5 || !name.contains("loss") && soft.iter().any(|soft| name.contains(soft))
}

impl Series {
    /// Returns the line until which the series should be kept: later for frequent series with a good name.
    pub(crate) fn kept_until(&self) -> u64 {
        let worth = f64::from(self.weight) * f64::from(self.count.min(100)) * 100.0;
        self.last_line + worth as u64
    }

    pub(crate) fn new(named: &Named<'_>, generation: u16, line: u64) -> Series {
        Series {
            name: named.name.to_owned(),
            split: named.split,
            signature: named.signature,
            place: named.place,
            generation,
            count: 0,
            first_line: 0,
            beside: 0,
            last_line: line,
            last: f64::NAN,
            named_direction: named.direction,
            weight: named.weight,
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            rises: 0,
            falls: 0,
            early: 0.0,
            late: 0.0,
            first: f64::NAN,
            paces: None,
            form: Form::default(),
            whole: true,
            soft: is_soft(named.name, named.weight),
            quantity: quantity(named.name),
            improved: false,
            listed: 0,
        }
    }

    /// Continues from the state of an earlier reader.
    pub(crate) fn resume(&mut self, state: &SeriesState) {
        (self.count, self.whole, self.improved) = (state.count, state.whole, state.improved);
        (self.rises, self.falls) = state.moves;
        (self.early, self.late) = (state.early, state.late);
        (self.low, self.high) = state.range.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
    }

    /// Whether `named` is this series.
    pub(crate) fn is(&self, named: &Named<'_>) -> bool {
        self.signature == named.signature && self.is_called(named)
    }

    /// Whether its only value was printed before the first count of the series `named`.
    pub(crate) fn begins(&self, named: &Named<'_>) -> bool {
        self.signature == 0 && self.count == 1 && !self.whole && self.is_called(named)
    }

    fn is_called(&self, named: &Named<'_>) -> bool {
        self.place == named.place && self.split == named.split && self.name == named.name
    }

    /// Whether a progress bar is drawn again with the validation of the epoch before: on the same line, and no epoch has begun since.
    pub(crate) fn is_redrawn(&self, value: f64, line: u64, pace: u32) -> bool {
        let is_same = value == self.last && line == self.last_line;
        is_same && self.split == Split::Valid && self.paces.is_some_and(|(_, last)| last == pace)
    }

    /// Whether a value is nearer to the first one than to the latest ones, as in another run.
    pub(crate) fn is_back_at_start(&self, value: f64) -> bool {
        (value - self.first).abs() < (value - self.late).abs()
    }

    /// Whether another form of report repeats the latest value at the same progress, possibly rounded: `loss 0.534012`, `loss: 0.53`.
    pub(crate) fn is_repeated(&self, value: f64, form: Form) -> bool {
        let is_another = form.shape != self.form.shape && form.at == self.form.at && self.signature != 0;
        let rounds = |fine: f64, coarse: f64| {
            let is_whole = |scale: f64| (coarse * scale - (coarse * scale).round()).abs() < 1e-6;
            let scale = [10.0, 100.0, 1e3, 1e4, 1e5, 1e6].into_iter().find(|scale| is_whole(*scale));
            scale.is_some_and(|scale| (fine - coarse).abs() * scale <= 0.501)
        };
        is_another
            && !self.whole
            && match form.length.cmp(&self.form.length) {
                Ordering::Less => rounds(self.last, value),
                Ordering::Equal => false,
                Ordering::Greater => rounds(value, self.last),
            }
    }

    /// Adds a value that was printed in this form.
    pub(crate) fn take_printed(&mut self, value: f64, line: u64, form: Form) {
        let is_next = self.count > 0 && line == self.last_line + 1;
        self.listed += u32::from(is_next && (form.shape, form.at) == (self.form.shape, self.form.at));
        self.form = form;
        self.take(value, line);
    }

    /// Adds a value.
    pub(crate) fn take(&mut self, value: f64, line: u64) {
        self.last_line = line;
        if self.count == 0 {
            (self.first_line, self.late, self.first) = (line, value, value);
        }
        self.count = self.count.saturating_add(1);
        if !value.is_finite() {
            return;
        }
        self.rises += u32::from(value > self.last);
        self.falls += u32::from(value < self.last);
        (self.low, self.high) = (self.low.min(value), self.high.max(value));
        self.whole &= value == value.trunc();
        if self.count <= EARLY {
            self.early += value;
        }
        self.late += (value - self.late) * 0.2;
        self.last = value;
        self.improved |= self.count >= VALIDATED && self.expected_sign() * self.moved() > IMPROVED;
    }

    pub(super) fn early_mean(&self) -> f64 {
        self.early / f64::from(self.count.clamp(1, EARLY))
    }

    /// Returns the change from the first value to the end, as a fraction of the range, -1 ..= 1.
    pub(crate) fn moved(&self) -> f64 {
        let range = self.high - self.low;
        // From the first value, because most of the change is often in the first steps.
        let to = if self.count < SHORT { self.last } else { self.late };
        if range > 0.0 && self.first.is_finite() { (to - self.first) / range } else { 0.0 }
    }

    pub(crate) fn is_softly_named(&self) -> bool {
        // This includes names of a data split alone: CatBoost's `learn`, a graph network's `Train: 0.81`.
        self.soft
    }

    /// Returns the direction of its name as a sign, 0 if unknown.
    pub(super) fn expected_sign(&self) -> f64 {
        match self.named_direction {
            Some(Direction::Down) => -1.0,
            Some(Direction::Up) => 1.0,
            None => 0.0,
        }
    }

    /// Whether it moves steadily against the direction of its name.
    pub(crate) fn contradicts(&self) -> bool {
        let range = self.high - self.low;
        let worse = -self.expected_sign() * (self.late - self.early_mean());
        if self.is_softly_named() && self.named_direction.is_some() {
            return self.count >= 5 && self.moved() * self.expected_sign() < -0.6;
        }
        let (towards, away) = match self.named_direction {
            Some(Direction::Up) => (self.rises, self.falls),
            _ => (self.falls, self.rises),
        };
        // Values that alternate between two levels are sometimes far from the first ones, hence the count of moves.
        self.count >= 10 && range > 0.0 && worse > range * 0.25 && f64::from(away) > STEADILY * f64::from(towards)
    }
}

/// Hashes the words of a name that do not name a data split.
fn quantity(name: &str) -> u64 {
    let words = lexicon::words(name);
    let mut hasher = DefaultHasher::new();
    let is_kept = |word: &&_| lexicon::split_of(std::slice::from_ref(*word)) == Split::Unsaid;
    words.iter().filter(is_kept).for_each(|word| word.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(values: impl IntoIterator<Item = f64>) -> Series {
        let direction = Some(Direction::Down);
        let named = Named { place: 0, name: "loss", split: Split::Unsaid, signature: 1, direction, weight: 1.0 };
        let mut series = Series::new(&named, 1, 1);
        values.into_iter().zip(1..).for_each(|(value, line)| series.take(value, line));
        series
    }

    #[test]
    fn only_a_loss_that_grows_steadily_contradicts_its_name() {
        assert!(loss((0..20).map(f64::from)).contradicts());
        // Two kinds of batches in random order, a third of them hard.
        let mut random = 1u32;
        let mut batch = || {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
            if (random >> 16) % 10 < 3 { 0.92 } else { 0.53 }
        };
        let alternating: Vec<f64> = (0..300).map(|_| batch()).collect();
        for count in 1..=alternating.len() {
            assert!(!loss(alternating[..count].iter().copied()).contradicts(), "after {count} values");
        }
    }
}
