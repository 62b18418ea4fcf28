//! Drawing primitives: a plot with axes, lines, areas, bars and labels, written as SVG text.
//!
//! Every mark may carry a title, which browsers show under the pointer.

use super::escaped;
use std::fmt::Write;

/// Number of series colours; further series reuse them with a dashed line.
pub(crate) const SERIES: usize = 12;

/// A linear mapping of values to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// Maps `from ..= to` to the pixels `start ..= end`; an empty range is widened.
    pub fn new(from: f64, to: f64, start: f64, end: f64) -> Scale {
        Scale { from, to: if to > from { to } else { from + 1.0 }, start, end }
    }

    /// The pixel of a value.
    pub fn at(&self, value: f64) -> f64 {
        self.start + (value - self.from) / (self.to - self.from) * (self.end - self.start)
    }

    /// About `count` round values within the range.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        let rough = (self.to - self.from) / count.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// Margins around the plot area in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Margins {
    /// Above.
    pub top: f64,
    /// Right.
    pub right: f64,
    /// Below.
    pub bottom: f64,
    /// Left.
    pub left: f64,
}

/// A plot under construction.
#[derive(Clone, Debug)]
pub struct Plot {
    width: f64,
    height: f64,
    margins: Margins,
    /// Horizontal scale of the plot area.
    pub x: Scale,
    /// Vertical scale of the plot area; grows upwards.
    pub y: Scale,
    body: String,
}

impl Plot {
    /// Creates an empty plot of `width` × `height` pixels with the ranges of its axes.
    pub fn new(width: f64, height: f64, margins: Margins, x: (f64, f64), y: (f64, f64)) -> Plot {
        Plot {
            width,
            height,
            margins,
            x: Scale::new(x.0, x.1, margins.left, width - margins.right),
            y: Scale::new(y.0, y.1, height - margins.bottom, margins.top),
            body: String::new(),
        }
    }

    /// Draws vertical grid lines with labels below, and the unit.
    pub fn x_axis(&mut self, unit: &str, label: impl Fn(f64) -> String) {
        let (top, bottom) = (self.margins.top, self.height - self.margins.bottom);
        for tick in self.x.ticks(6) {
            let x = self.x.at(tick);
            self.grid_line(x, top, x, bottom);
            self.text(x, bottom + 14.0, "label middle", &label(tick));
        }
        self.text(self.width - self.margins.right, bottom + 28.0, "label end", unit);
    }

    /// Draws horizontal grid lines with labels at the left.
    pub fn y_axis(&mut self, label: impl Fn(f64) -> String) {
        let (left, right) = (self.margins.left, self.width - self.margins.right);
        for tick in self.y.ticks(4) {
            let y = self.y.at(tick);
            self.grid_line(left, y, right, y);
            self.text(left - 6.0, y + 3.5, "label end", &label(tick));
        }
    }

    fn grid_line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        let _ = write!(self.body, r#"<line class="grid" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#);
    }

    /// Draws a line through values.
    pub fn line(&mut self, points: &[(f64, f64)], class: &str, title: &str) {
        let path = self.path(points);
        let _ = write!(self.body, r#"<path class="line {class}" d="{path}">{}</path>"#, titled(title));
    }

    /// Draws the area between two lines with the same horizontal positions.
    pub fn area(&mut self, lower: &[(f64, f64)], upper: &[(f64, f64)], class: &str, title: &str) {
        let around: Vec<(f64, f64)> = upper.iter().chain(lower.iter().rev()).copied().collect();
        let path = self.path(&around);
        let _ = write!(self.body, r#"<path class="area {class}" d="{path}Z">{}</path>"#, titled(title));
    }

    /// Draws a rectangle between values on both axes.
    pub fn bar(&mut self, x: (f64, f64), y: (f64, f64), class: &str, title: &str) {
        let (x0, x1) = (self.x.at(x.0).min(self.x.at(x.1)), self.x.at(x.0).max(self.x.at(x.1)));
        let (y0, y1) = (self.y.at(y.0).min(self.y.at(y.1)), self.y.at(y.0).max(self.y.at(y.1)));
        let (width, height) = ((x1 - x0).max(0.8), y1 - y0);
        let _ = write!(
            self.body,
            r#"<rect class="bar {class}" x="{x0:.1}" y="{y0:.1}" width="{width:.1}" height="{height:.1}" rx="1.5">{}</rect>"#,
            titled(title),
        );
    }

    /// Draws a short vertical mark at a value, `half` pixels up and down.
    pub fn mark(&mut self, x: f64, y: f64, half: f64, title: &str) {
        let (x, y) = (self.x.at(x), self.y.at(y));
        let (y1, y2) = (y - half, y + half);
        let _ = write!(
            self.body,
            r#"<line class="mark" x1="{x:.1}" y1="{y1:.1}" x2="{x:.1}" y2="{y2:.1}">{}</line>"#,
            titled(title),
        );
    }

    /// Draws a vertical line through the whole plot area at a value.
    pub fn rule(&mut self, x: f64) {
        let (x, top, bottom) = (self.x.at(x), self.margins.top, self.height - self.margins.bottom);
        let _ = write!(self.body, r#"<line class="axis" x1="{x:.1}" y1="{top:.1}" x2="{x:.1}" y2="{bottom:.1}"/>"#);
    }

    /// Draws text at a pixel position.
    pub fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let _ = write!(self.body, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, escaped(text));
    }

    /// The SVG for a page that includes [`STYLE`](super::STYLE).
    pub fn inline(self, title: &str) -> String {
        let Plot { width, height, body, .. } = self;
        let title = escaped(title);
        format!(r#"<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{body}</svg>"#)
    }

    /// The SVG for a page that includes [`STYLE`](super::STYLE), with a title and a description for screen readers.
    pub fn described(self, id: &str, title: &str, description: &str) -> String {
        let Plot { width, height, body, .. } = self;
        let (id, title, description) = (escaped(id), escaped(title), escaped(description));
        format!(
            r#"<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>{body}</svg>"#
        )
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::with_capacity(points.len() * 12);
        for (number, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if number == 0 { 'M' } else { 'L' }, self.x.at(*x), self.y.at(*y));
        }
        path
    }
}

/// The class of series `number`.
pub fn series(number: usize) -> String {
    let again = if number / SERIES % 2 == 1 { " again" } else { "" };
    format!("s{}{again}", number % SERIES)
}

fn titled(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert_eq!(Scale::new(0.0, 1350.0, 0.0, 1.0).ticks(6), [0.0, 500.0, 1000.0]);
        assert_eq!(Scale::new(0.0, 1.0, 0.0, 1.0).ticks(4), [0.0, 0.5, 1.0]);
        let around_zero = Scale::new(-0.3, 0.3, 0.0, 1.0).ticks(6);
        assert_eq!(around_zero.len(), 7);
        assert!(around_zero.iter().zip(-3..).all(|(tick, n)| (tick - 0.1 * f64::from(n)).abs() < 1e-12));
    }
}
