//! A curve as a chart: on the detail page, and as text for `flowctl history`. Pure.

use super::{ascii, lines};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::Span;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Widget};
use term::text;

/// Height of a chart as text, with its horizontal axis.
const HEIGHT: u16 = 12;
/// Its width at most.
const WIDTH: usize = 100;

/// Draws a line through at least two points, in the order of their positions; `ends` are the labels of the first and the last.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, points: &[(f64, f64)], ends: [String; 2], style: Style) {
    let [(first, _), .., (last, _)] = points else { return };
    let (least, most) = bounds(points.iter().map(|(_, value)| *value));
    let curve = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).style(style).data(points);
    let heights = [least, most].map(|height| Span::raw(text::number_text(height)));
    Chart::new(vec![curve])
        .x_axis(Axis::default().bounds([*first, *last]).labels(ends.map(Span::raw)))
        .y_axis(Axis::default().bounds([least, most]).labels(heights))
        .render(area, buffer);
}

/// The curve as lines of at most `columns`; empty for fewer than two points.
pub(crate) fn page(points: &[(f64, f64)], ends: [String; 2], columns: usize, is_ascii: bool) -> String {
    if points.len() < 2 {
        return String::new();
    }
    let width = u16::try_from(columns.min(WIDTH)).unwrap_or(HEIGHT);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, HEIGHT));
    let area = buffer.area;
    draw(&mut buffer, area, points, ends, Style::new());
    if is_ascii {
        ascii::translate(&mut buffer);
    }
    lines(&buffer)
}

/// The minimum and maximum, spread apart if they are equal.
fn bounds(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if most > least { (least, most) } else { (least - 0.5 * least.abs().max(1e-9), most + 0.5 * most.abs().max(1e-9)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn falling(is_ascii: bool) -> String {
        let points: Vec<(f64, f64)> = (0..50).map(|n| (f64::from(n), 2.0 * (-f64::from(n) / 10.0).exp())).collect();
        page(&points, ["12:00".to_owned(), "12:50".to_owned()], 60, is_ascii)
    }

    #[test]
    fn a_falling_curve_falls_and_has_its_values_and_times() {
        let shown = falling(true);
        let rows: Vec<&str> = shown.lines().collect();
        assert_eq!(rows.len(), usize::from(HEIGHT));
        assert!(rows.iter().all(|row| row.is_ascii() && row.len() <= 60), "{shown}");
        assert!(rows[0].trim_start().starts_with('2'), "the largest value: {shown}");
        assert!(shown.contains("12:00") && shown.contains("12:50"), "{shown}");
        let dots = |row: &str| row.rfind(['.', ':', '\'']).unwrap_or(0);
        assert!(dots(rows[0]) < dots(rows[4]) && dots(rows[4]) < dots(rows[9]), "{shown}");
        assert!(falling(false).chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)));
    }

    #[test]
    fn fewer_than_two_points_are_no_curve() {
        assert_eq!(page(&[(0.0, 1.0)], [String::new(), String::new()], 80, false), "");
    }
}
