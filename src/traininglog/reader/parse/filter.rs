//! Decides which findings of a line are kept, given its other findings.

use super::fields::{Found, LineReader, What};
use super::meaning::{Count, Counted};

/// Maximum bytes of a message that is only a count.
const ALONE_MAX: usize = 32;

/// Maximum bytes before a number with an unknown name that begins a line.
const LEAD_MAX: usize = 12;

/// Maximum findings of a line whose unknown names are kept because earlier lines count epochs.
const PACED_MAX: usize = 6;

/// Weight factor for a value that summarises a whole fold.
const OF_A_FOLD: f32 = 0.55;

impl LineReader<'_> {
    /// Returns the findings to keep. Values with unknown names are kept only beside a counter, or if earlier lines count epochs
    /// (`counting`); elsewhere they are settings or noise.
    pub(crate) fn finish(self, counting: bool) -> Vec<Found> {
        let counts = |found: &Found| match found.what {
            What::Counter(counted) => counted.count != Count::Tally,
            What::Declared(_) => true,
            What::Series { .. } => false,
        };
        let means = |found: &Found| matches!(found.what, What::Series { weight, .. } if weight > 0.0);
        let meant = self.found.iter().any(means);
        // `s:12 trl:9.7924`: a whole number at the beginning of a line may count what follows.
        let leads = self.found.first().is_some_and(|found| {
            let is_first = (0..found.number).all(|number| self.start(number) < self.from);
            let is_counter = matches!(found.what, What::Counter(_)) && self.start(found.number) - self.from <= LEAD_MAX;
            is_first && is_counter && self.found.len() <= PACED_MAX
        });
        let counted = leads || self.found.iter().any(counts);
        // `score of fold 3: 0.6` summarises a training.
        let mut counters = self.found.iter().filter_map(|found| match found.what {
            What::Counter(counted) => Some(counted.count),
            What::Declared(_) | What::Series { .. } => None,
        });
        let sums_up = counters.next() == Some(Count::Fold) && counters.all(|count| count == Count::Fold);
        let (line, numbers) = (self.line, self.numbers);
        let alone = self.found.len() <= 2 && line.len().saturating_sub(self.from) <= ALONE_MAX;
        let mut found = self.found;
        for found in &mut found {
            match &mut found.what {
                What::Series { weight, .. } if sums_up => *weight *= OF_A_FOLD,
                // `[941] -- loss: 268` and `[1] 3 5 8` do not count the same.
                What::Counter(Counted { count: Count::Lead, label }) => *label ^= u16::from(meant),
                _ => {}
            }
        }
        let paced = counting && found.len() <= PACED_MAX;
        found.retain(|found| match &found.what {
            What::Series { weight, .. } => {
                counted || *weight > 0.0 || paced && numbers[found.number].of(line).contains(&b'.')
            }
            // Kept beside a metric, with a total, or on a line of its own: `phase 3`.
            What::Counter(known) => known.count != Count::Tally || meant || leads || found.total.is_some() || alone,
            What::Declared(_) => true,
        });
        found
    }
}
