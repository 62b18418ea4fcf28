//! Which numbers are believed of a record that came from elsewhere. Real ones are far smaller; sums, squares and products of these stay finite,
//! and counters have room to go on. Imports: nothing of this crate.

/// A number that a log may have printed. NaN and infinity are none.
pub(super) fn number(number: f64) -> bool {
    number.abs() <= 1e60
}

/// The same, where it is known.
pub(super) fn optional(known: Option<f64>) -> bool {
    known.is_none_or(number)
}

/// How often something happened.
pub(super) fn count(count: u64) -> bool {
    count <= 1 << 53
}

/// The same in a smaller type.
pub(super) fn small_count(count: u32) -> bool {
    count <= 1 << 30
}
