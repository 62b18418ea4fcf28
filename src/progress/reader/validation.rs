//! Validation before training: of one quantity measured on both, what was held out says how good the model is.
//!
//! A validation that comes rarely would leave the curve with few points, and one that never improved may be anything: there the
//! training stays. Imports: its siblings.

use super::lexicon::{self, Split};
use super::series::Series;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A validation is preferred to its training once it improved by this part of its range; one that only wavers is not.
pub(super) const IMPROVED: f64 = 0.3;

/// So many values tell that.
pub(super) const VALIDATED: u32 = 3;

/// It must not come more rarely by this factor.
const AS_OFTEN: u32 = 2;

/// By so much.
const OVER_TRAINING: f64 = 1.1;

/// Lifts validations above the trainings of the same quantities.
pub(super) fn lift(all: &[Series], ranked: &mut [(u16, f64)]) {
    let series = |slot: u16| &all[usize::from(slot)];
    for at in 0..ranked.len() {
        let held_out = series(ranked[at].0);
        if held_out.split != Split::Valid || !held_out.improved {
            continue;
        }
        let trained = |(slot, _): &&(u16, f64)| {
            let other = series(*slot);
            let trained = matches!(other.split, Split::Unsaid | Split::Train);
            trained && (held_out.count + 1) * AS_OFTEN >= other.count && held_out.quantity == other.quantity
        };
        let best = ranked.iter().filter(trained).map(|(_, score)| *score).fold(0.0, f64::max);
        ranked[at].1 = ranked[at].1.max(best * OVER_TRAINING);
    }
}

/// A number for the words of a name that do not speak of a part of the data.
pub(super) fn quantity(name: &str) -> u64 {
    let words = lexicon::words(name);
    let mut hasher = DefaultHasher::new();
    let tells = |word: &&_| lexicon::split_of(std::slice::from_ref(*word)) == Split::Unsaid;
    words.iter().filter(tells).for_each(|word| word.hash(&mut hasher));
    hasher.finish()
}
