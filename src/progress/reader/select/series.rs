//! One candidate series: how it moves, how likely it is the evaluation function, and how sure that is.
//!
//! Problem: a log prints dozens of quantities; one of them measures learning. Approach: rank by what the name says, by how
//! often the series recurs, and by how it moves; a constant is a setting, and a "loss" that only grows is likely a sum.
//! Imports: plausible numbers, model, `parse`.

use crate::model::Direction;
use crate::progress::plausible;
use crate::progress::reader::parse::lexicon;
use crate::progress::reader::parse::meaning::Split;
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Names that say nothing, of which one may still be the evaluation.
const NAMELESS: usize = 4;

/// A validation is preferred to its training once it improved by this part of its range; one that only wavers is not.
const IMPROVED: f64 = 0.3;

/// So many values tell that.
const VALIDATED: u32 = 3;

/// Below so many values the last says more than a mean.
const SHORT: u32 = 15;

/// What moves steadily one way does so this many times as often as the other way.
const STEADILY: f64 = 1.25;

/// Values from which the beginning of a series is judged.
const EARLY: u32 = 5;

/// Of a series that came from elsewhere: its name has no more bytes, and it weighs no more.
const NAME_AT_MOST: usize = 1024;
const WEIGHT_AT_MOST: f32 = 100.0;

/// A series, as long as it is not evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesKey {
    pub slot: u16,
    pub generation: u16,
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub split: Split,
    /// Which counters stand on its line: a value per epoch is not the value per step of the same name.
    pub signature: u16,
    pub place: u8,
    /// Counts the owners of this slot, so that references to an evicted one are noticed.
    pub generation: u16,
    pub count: u32,
    pub first_line: u64,
    /// The counters on its latest line, a bit each.
    pub beside: u16,
    last_line: u64,
    pub last: f64,
    pub named_direction: Option<Direction>,
    pub weight: f32,
    low: f64,
    high: f64,
    pub rises: u32,
    pub falls: u32,
    early: f64,
    late: f64,
    first: f64,
    /// The advances of outer counters at the first and at the latest value.
    pub paces: Option<(u32, u32)>,
    whole: bool,
    /// The name says little about which way it improves.
    soft: bool,
    /// Of the name without the part of the data: equal for one quantity measured on several parts.
    pub quantity: u64,
    /// Whether it ever improved, as its name promises.
    pub improved: bool,
}

/// A series over a restart. Only finite numbers: others have no place in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesMemory {
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

impl SeriesMemory {
    /// Whether this can be ours.
    pub fn is_plausible(&self) -> bool {
        let (low, high) = self.range.unwrap_or_default();
        self.name.len() <= NAME_AT_MOST
            && (0.0..=WEIGHT_AT_MOST).contains(&self.weight)
            && [low, high, self.early, self.late].into_iter().all(plausible::number)
            && low <= high
            && [self.count, self.moves.0, self.moves.1].into_iter().all(plausible::small_count)
    }

    /// What the series is called and where it stands.
    pub fn named(&self) -> Named<'_> {
        let SeriesMemory { name, split, signature, direction, weight, .. } = self;
        Named { place: 0, name, split: *split, signature: *signature, direction: *direction, weight: *weight }
    }
}

impl From<&Series> for SeriesMemory {
    fn from(series: &Series) -> Self {
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        SeriesMemory {
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

/// A series as the line analysis found it.
pub struct Named<'a> {
    pub place: u8,
    pub name: &'a str,
    pub split: Split,
    pub signature: u16,
    pub direction: Option<Direction>,
    pub weight: f32,
}

/// How much it says that a series was printed so often.
pub fn recurrence(count: u32) -> f64 {
    1.0 + f64::from(count.max(1)).ln()
}

/// Whether a name says little about which way it improves.
fn is_soft(name: &str, weight: f32) -> bool {
    let name = name.to_lowercase();
    let soft = ["score", "objective", "objf", "obj", "fitness", "energy", "metric"];
    weight < 0.5 || !name.contains("loss") && soft.iter().any(|soft| name.contains(soft))
}

impl Series {
    /// The line until which the series is worth its slot: what was often seen under a good name is kept for longer.
    pub fn kept_until(&self) -> u64 {
        let worth = f64::from(self.weight) * f64::from(self.count.min(100)) * 100.0;
        self.last_line + worth as u64
    }

    pub fn new(named: &Named<'_>, generation: u16, line: u64) -> Series {
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
            whole: true,
            soft: is_soft(named.name, named.weight),
            quantity: quantity(named.name),
            improved: false,
        }
    }

    /// Goes on where an earlier reader stopped.
    pub fn resume(&mut self, memory: &SeriesMemory) {
        (self.count, self.whole, self.improved) = (memory.count, memory.whole, memory.improved);
        (self.rises, self.falls) = memory.moves;
        (self.early, self.late) = (memory.early, memory.late);
        (self.low, self.high) = memory.range.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
    }

    /// Whether it is what is named so.
    pub fn is(&self, named: &Named<'_>) -> bool {
        self.signature == named.signature && self.is_called(named)
    }

    /// Whether its one value is that from before the training of a series that counts.
    pub fn begins(&self, named: &Named<'_>) -> bool {
        self.signature == 0 && self.count == 1 && !self.whole && self.is_called(named)
    }

    fn is_called(&self, named: &Named<'_>) -> bool {
        self.place == named.place && self.split == named.split && self.name == named.name
    }

    /// Takes one value.
    pub fn take(&mut self, value: f64, line: u64) {
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
        self.improved |= self.count >= VALIDATED && self.promised() * self.moved() > IMPROVED;
    }

    /// How sure it is that this is the evaluation function, as far as it can tell alone.
    pub fn confidence(&self, direction_known: bool) -> f64 {
        let named = f64::from(self.weight).clamp(0.0, 1.0);
        let name = if named >= 0.55 { 0.6 + 0.38 * named } else { 0.3 + 0.5 * named };
        let seen = match self.count {
            0 => 0.0,
            1 => 0.45,
            2 => 0.75,
            3..=4 => 0.9,
            _ => 1.0,
        };
        let direction = if direction_known { 1.0 } else { 0.7 };
        let moves = if self.contradicts() { 0.75 } else { 1.0 };
        // Settings and tallies have such names too; what trains counts, and its values are no whole numbers.
        let is_constant = self.low >= self.high && (self.whole || self.count >= 3);
        let settles = if self.whole && self.count < 3 || is_constant { 0.5 } else { 1.0 };
        let counts = match (self.is_told_with_progress(), self.count) {
            (true, _) => 1.0,
            (_, 8..) if (self.late - self.early_mean()).abs() < 0.2 * (self.high - self.low) => 0.5, // told of each sample
            (_, 50..) => 1.0,
            _ => 0.75,
        };
        let broken = if self.whole && self.low < self.high { 0.75 } else { 1.0 };
        (name * seen * direction * moves * settles * counts * broken).clamp(0.0, 0.99)
    }

    fn early_mean(&self) -> f64 {
        self.early / f64::from(self.count.clamp(1, EARLY))
    }

    /// How far it went from its beginning to its end, as a share of its range, -1 ..= 1.
    pub fn moved(&self) -> f64 {
        let range = self.high - self.low;
        // Most of the way is often gone in the first steps.
        let to = if self.count < SHORT { self.last } else { self.late };
        if range > 0.0 && self.first.is_finite() { (to - self.first) / range } else { 0.0 }
    }

    /// Printed on lines that count, or once whenever an outer counter advances, as reports are.
    fn is_told_with_progress(&self) -> bool {
        self.signature != 0
            || self.paces.is_some_and(|(first, latest)| {
                (latest - first + 1).abs_diff(self.count) * 5 <= self.count && latest > first
            })
    }

    pub fn is_softly_named(&self) -> bool {
        // So do names that only place a value: CatBoost's `learn`, a graph network's `Train: 0.81`.
        self.soft
    }

    /// Which way it moves where its name says so, 0 where it does not.
    fn promised(&self) -> f64 {
        match self.named_direction {
            Some(Direction::Down) => -1.0,
            Some(Direction::Up) => 1.0,
            None => 0.0,
        }
    }

    /// Moves steadily against what its name promises.
    pub fn contradicts(&self) -> bool {
        let range = self.high - self.low;
        let worse = -self.promised() * (self.late - self.early_mean());
        if self.is_softly_named() && self.named_direction.is_some() {
            return self.count >= 5 && self.moved() * self.promised() < -0.6;
        }
        let (towards, away) = match self.named_direction {
            Some(Direction::Up) => (self.rises, self.falls),
            _ => (self.falls, self.rises),
        };
        // Values that waver between two levels are now and then far from where they began.
        self.count >= 10 && range > 0.0 && worse > range * 0.25 && f64::from(away) > STEADILY * f64::from(towards)
    }

    pub fn score(&self, most: f64, nameless: usize, counted: bool) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let constant = self.count >= 3 && self.low >= self.high && self.high.is_finite();
        let mut score = f64::from(self.weight) * (recurrence(self.count) / most).sqrt();
        if self.weight == 0.0 {
            // A name that says nothing: only if it is nearly alone, printed often, and moves one way.
            let moved = self.moved().abs();
            let told = self.is_told_with_progress();
            score = if nameless <= NAMELESS && self.count >= 5 && !self.whole && moved > 0.5 && told {
                0.2 * moved
            } else {
                0.0
            };
        }
        if counted && self.signature == 0 {
            // Reports of progress count something; a line that does not is about something else.
            score *= 0.6;
        }
        if constant {
            score *= if self.whole { 0.05 } else { 0.3 };
        }
        if self.whole && self.low >= self.high && self.signature == 0 {
            score = 0.0; // a setting
        }
        let counts = self.falls == 0 && self.high - self.low == f64::from(self.rises) && self.rises + 1 == self.count;
        if self.whole && self.count >= 3 && counts && self.weight < 0.55 {
            score = 0.0; // `Train 3`, `Train 4`: a heading with its number
        }
        if self.whole && self.count >= 3 {
            score *= 0.8;
        }
        if self.contradicts() {
            score *= 0.7;
        }
        if self.count == 1 {
            // Once is a setting, an average at the end, or the first of many: only a strong name counts.
            score *= if self.whole || self.weight < 0.7 { 0.0 } else { 0.3 };
        }
        score
    }
}

/// A number for the words of a name that do not speak of a part of the data.
fn quantity(name: &str) -> u64 {
    let words = lexicon::words(name);
    let mut hasher = DefaultHasher::new();
    let tells = |word: &&_| lexicon::split_of(std::slice::from_ref(*word)) == Split::Unsaid;
    words.iter().filter(tells).for_each(|word| word.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(values: impl IntoIterator<Item = f64>) -> Series {
        let named = Named {
            place: 0,
            name: "loss",
            split: Split::Unsaid,
            signature: 1,
            direction: Some(Direction::Down),
            weight: 1.0,
        };
        let mut series = Series::new(&named, 1, 1);
        values.into_iter().zip(1..).for_each(|(value, line)| series.take(value, line));
        series
    }

    #[test]
    fn only_a_loss_that_grows_steadily_contradicts_its_name() {
        assert!(loss((0..20).map(f64::from)).contradicts());
        // Two kinds of batches, a third of them hard ones, in no order.
        let mut random = 1u32;
        let mut batch = || {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
            if (random >> 16) % 10 < 3 { 0.92 } else { 0.53 }
        };
        let wavers: Vec<f64> = (0..300).map(|_| batch()).collect();
        for count in 1..=wavers.len() {
            assert!(!loss(wavers[..count].iter().copied()).contradicts(), "after {count} values");
        }
    }
}
