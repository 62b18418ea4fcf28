//! Limits on the numbers of a record that another machine sent. Real numbers are far smaller. Within these limits sums, squares and
//! products stay finite, and counters do not overflow.

/// Whether a log may have printed `number`. False for NaN and infinity.
pub(super) fn number(number: f64) -> bool {
    number.abs() <= 1e60
}

/// Like [`number`]; an unknown number is plausible.
pub(super) fn optional(known: Option<f64>) -> bool {
    known.is_none_or(number)
}

/// Whether `count` is a plausible number of events.
pub(super) fn count(count: u64) -> bool {
    count <= 1 << 53
}

/// Like [`count`], for `u32`.
pub(super) fn small_count(count: u32) -> bool {
    count <= 1 << 30
}
