//! Which of a line's findings count, seen beside each other.
//!
//! Imports: its siblings.

use super::fields::{Found, LineReader, What};
use super::meaning::Count;

/// Longest message that only tells a count, in bytes.
const ALONE_MAX: usize = 32;

/// A report of one epoch under names that say nothing has few of them.
const PACED_MAX: usize = 6;

/// How typical a summary of a whole fold is beside what its training prints.
const OF_A_FOLD: f32 = 0.55;

impl LineReader<'_> {
    /// Names that say nothing count only beside a counter, or where a counter stood on a line before: elsewhere they are settings
    /// and chatter.
    pub fn finish(self, counting: bool) -> Vec<Found> {
        let counts = |found: &Found| match found.what {
            What::Counter(counted) => counted.count != Count::Tally,
            What::Declared(_) => true,
            What::Series { .. } => false,
        };
        let means = |found: &Found| matches!(found.what, What::Series { weight, .. } if weight > 0.0);
        let (counted, meant) = (self.found.iter().any(counts), self.found.iter().any(means));
        // `score of fold 3: 0.6` sums up a training and is none of its steps.
        let mut counters = self.found.iter().filter_map(|found| match found.what {
            What::Counter(counted) => Some(counted.count),
            What::Declared(_) | What::Series { .. } => None,
        });
        let sums_up = counters.next() == Some(Count::Fold) && counters.all(|count| count == Count::Fold);
        let (line, numbers) = (self.line, self.numbers);
        let alone = self.found.len() <= 2 && line.len().saturating_sub(self.from) <= ALONE_MAX;
        let mut found = self.found;
        for found in found.iter_mut().filter(|_| sums_up) {
            if let What::Series { weight, .. } = &mut found.what {
                *weight *= OF_A_FOLD;
            }
        }
        let paced = counting && found.len() <= PACED_MAX;
        found.retain(|found| match &found.what {
            What::Series { weight, .. } => {
                counted || *weight > 0.0 || paced && numbers[found.number].of(line).contains(&b'.')
            }
            // Beside a metric, or with an end, or a line of its own: `phase 3`.
            What::Counter(known) => known.count != Count::Tally || meant || found.total.is_some() || alone,
            What::Declared(_) => true,
        });
        found
    }
}
