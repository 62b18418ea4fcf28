//! Prefers the validation of a quantity over its training value, because held-out data measures the quality of the model.
//!
//! The training value is kept if the validation is rare, which would leave the curve with few points, or if it never improved. One that is
//! printed with each training value has the benefit of the doubt for its first values, so that the metric does not change after them.

use super::series::Series;
use crate::reader::parse::meaning::Split;

/// The training series may have at most this many times the values of the validation.
const AS_OFTEN: u32 = 2;

/// A validation that has not improved by so many values does not measure the training.
const TRIED: u32 = 5;

/// Score of a preferred validation, relative to the best training series of the quantity.
const OVER_TRAINING: f64 = 1.1;

/// Raises the scores of validations above the training series of the same quantities.
pub(super) fn lift(all: &[Series], ranked: &mut [(u16, f64)]) {
    let series = |slot: u16| &all[usize::from(slot)];
    for at in 0..ranked.len() {
        let held_out = series(ranked[at].0);
        if held_out.split != Split::Valid {
            continue;
        }
        let trained = |(slot, _): &&(u16, f64)| {
            let other = series(*slot);
            let measures = held_out.improved || held_out.count <= TRIED && held_out.count == other.count;
            let trained = matches!(other.split, Split::Unsaid | Split::Train) && held_out.quantity == other.quantity;
            trained && measures && (held_out.count + 1) * AS_OFTEN >= other.count
        };
        let best = ranked.iter().filter(trained).map(|(_, score)| *score).fold(0.0, f64::max);
        ranked[at].1 = ranked[at].1.max(best * OVER_TRAINING);
    }
}
