//! The score of a series as the evaluation function, and the confidence.
//!
//! Problem: a log prints dozens of quantities; one of them measures learning. Approach: score a series by its name, its frequency and its
//! trend. A constant is a setting, and a "loss" that only grows is probably a sum.

use super::series::{Series, recurrence};

/// Maximum number of unknown names among which one may be the evaluation.
const UNKNOWN_MAX: usize = 4;

/// Weight of names that are nothing but a loss. An error is also what has gone wrong, with its number: `Error 1`.
const SURELY_A_LOSS: f32 = 0.95;

impl Series {
    /// Returns the confidence that this is the evaluation function, regardless of other series.
    pub(crate) fn confidence(&self, direction_known: bool) -> f64 {
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
        // Settings and counts have such names too; an evaluation has a counter, its values are not whole, and only they can all be NaN.
        let is_constant = self.low >= self.high && (self.whole || self.count >= 3);
        let varies = if self.low <= self.high && (self.whole && self.count < 3 || is_constant) { 0.5 } else { 1.0 };
        let counts = match (self.is_printed_with_progress(), self.count) {
            (true, _) => 1.0,
            (_, 8..) if (self.late - self.early_mean()).abs() < 0.2 * (self.high - self.low) => 0.5, // printed for each sample
            (_, 50..) => 1.0,
            _ => 0.75,
        };
        let broken = if self.whole && self.low < self.high { 0.75 } else { 1.0 };
        (name * seen * direction * moves * varies * counts * broken).clamp(0.0, 0.99)
    }

    /// Whether it is printed on lines with a counter, or once per advance of an outer counter.
    fn is_printed_with_progress(&self) -> bool {
        self.signature != 0
            || self.weight == 0.0 && self.beside != 0
            || self.paces.is_some_and(|(first, latest)| {
                (latest - first + 1).abs_diff(self.count) * 5 <= self.count && latest > first
            })
    }

    pub(crate) fn score(&self, most: f64, nameless: usize, counted: bool) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let constant = self.count >= 3 && self.low >= self.high && self.high.is_finite();
        let mut score = f64::from(self.weight) * (recurrence(self.count) / most).sqrt();
        if self.weight == 0.0 {
            // An unknown name counts only if it is nearly alone, frequent, and moves in one direction.
            let moved = self.moved().abs();
            let with_progress = self.is_printed_with_progress();
            score = if nameless <= UNKNOWN_MAX && self.count >= 5 && !self.whole && moved > 0.5 && with_progress {
                0.2 * moved
            } else {
                0.0
            };
        }
        if counted && self.signature == 0 {
            // Progress reports have a counter; a line without one is about something else.
            score *= 0.6;
        }
        if constant {
            score *= if self.whole { 0.05 } else { 0.3 };
        }
        let is_number_of_an_error =
            self.expected_sign() < 0.0 && self.weight < SURELY_A_LOSS && !self.is_printed_with_progress();
        if self.whole && self.signature == 0 && (self.low >= self.high || is_number_of_an_error) {
            score = 0.0; // or a setting
        }
        if self.contradicts() {
            score *= 0.7;
        }
        if self.listed * 2 >= self.count {
            score *= 0.75;
        }
        if self.count == 1 {
            // A single value is a setting, a final average, or the first of many: only a typical name counts.
            score *= if self.whole || self.weight < 0.7 { 0.0 } else { 0.3 };
        }
        score
    }
}
