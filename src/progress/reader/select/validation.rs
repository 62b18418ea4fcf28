//! Validation before training: of one quantity measured on both, what was held out says how good the model is.
//!
//! A validation that comes rarely would leave the curve with few points, and one that never improved may be anything: there the
//! training stays. Imports: `series`, `parse`.

use super::series::Series;
use crate::progress::reader::parse::meaning::Split;

/// It must not come more rarely by this factor.
const AS_OFTEN: u32 = 2;

/// By so much.
const OVER_TRAINING: f64 = 1.1;

/// Lifts validations above the trainings of the same quantities.
pub fn lift(all: &[Series], ranked: &mut [(u16, f64)]) {
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
