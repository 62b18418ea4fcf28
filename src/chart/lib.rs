//! Self-contained charts and pages: SVG, and the HTML page around it.
//!
//! Colours are CSS classes, so that a chart fits light and dark pages: `s0` … `s11` are series (jobs or policies), `grid`, `axis`,
//! `good`, `bad`. [`STYLE`] defines them.

#[cfg(test)]
mod contrast_tests;
mod page;
mod svg;

pub use page::{document, legend, section};
pub use svg::{Margins, Plot, series};

/// Style sheet with the colours of the classes, for light and dark pages.
pub const STYLE: &str = include_str!("svg.css");

/// Escapes text for use between tags and in attributes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            control if control.is_control() => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_is_escaped() {
        assert_eq!(escaped("</text><script>\"&\u{7}"), "&lt;/text&gt;&lt;script&gt;&quot;&amp; ");
    }
}
