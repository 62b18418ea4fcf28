//! A sparkline: a curve in one line of text. Pure.

/// Characters from the smallest to the largest value.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Character for a missing or non-finite value.
const GAP: char = '×';

/// Draws the latest `columns` values with one character each, scaled to their minimum and maximum; a flat curve is in the middle.
pub(super) fn spark(values: &[Option<f64>], columns: usize) -> String {
    let shown = &values[values.len().saturating_sub(columns)..];
    let known = || shown.iter().flatten().copied().filter(|value| value.is_finite());
    let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    let level = |value: f64| {
        let range = most - least;
        // The range may overflow to infinity; half of it does not.
        let part = if range > 0.0 { (value / 2.0 - least / 2.0) / (most / 2.0 - least / 2.0) } else { 0.4 };
        LEVELS[((part * 8.0) as usize).min(7)]
    };
    shown.iter().map(|value| value.filter(|value| value.is_finite()).map_or(GAP, level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], columns: usize) -> String {
        spark(&values.iter().map(|value| Some(*value)).collect::<Vec<_>>(), columns)
    }

    #[test]
    fn the_latest_values_are_scaled_to_their_minimum_and_maximum() {
        assert_eq!(of(&[99.0, 0.0, 1.0, 2.0, 7.0], 4), "▁▂▃█");
        assert_eq!(of(&[1.0, 2.0], 8), "▁█");
        assert_eq!(of(&[], 8), "");
    }

    #[test]
    fn a_flat_curve_is_in_the_middle_and_a_gap_is_visible() {
        assert_eq!(of(&[5.0, 5.0], 8), "▄▄");
        assert_eq!(spark(&[Some(1.0), None, Some(2.0)], 8), "▁×█");
        assert_eq!(of(&[f64::NAN, f64::INFINITY], 8), "××");
        assert_eq!(of(&[-f64::MAX, f64::MAX], 8), "▁█");
    }
}
