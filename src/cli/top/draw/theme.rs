//! Terminal styles of the tones, with and without colour.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use term::screen::Tone;
use term::text;

/// Capabilities of the terminal. A colour never carries information alone: a word or sign repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Whether colours may be used.
    pub color: bool,
    /// Whether only ASCII characters may be used.
    pub ascii: bool,
}

impl Theme {
    /// The terminal's style for a tone.
    pub(crate) fn style(self, tone: Tone) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if !self.color {
            return if matches!(tone, Tone::Plain | Tone::Dim | Tone::Accent) { Style::new() } else { bold };
        }
        match tone {
            Tone::Plain => Style::new(),
            Tone::Dim => Style::new().fg(Color::DarkGray),
            Tone::Bold => bold,
            Tone::Good => Style::new().fg(Color::Green),
            Tone::Warn => Style::new().fg(Color::Yellow),
            Tone::Bad => Style::new().fg(Color::Red),
            Tone::Accent => Style::new().fg(Color::Cyan),
        }
    }

    /// Style of the row under the cursor and of keys.
    pub(crate) fn inverse(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Style of a picture in the row under the cursor: its negative would mean something else.
    pub(crate) fn upright(self) -> Style {
        Style::new().remove_modifier(Modifier::REVERSED)
    }

    /// Creates a span of text that is safe to print.
    pub(crate) fn span(self, tone: Tone, words: &str) -> Span<'static> {
        Span::styled(text::clean(words), self.style(tone))
    }
}

/// Writes a line at the top of the area, cut to its width.
pub(super) fn put(buffer: &mut Buffer, area: Rect, line: &Line<'_>) {
    put_all(buffer, area, std::slice::from_ref(line));
}

/// Writes the lines that fit, from the top of the area; an ellipsis ends a line that is cut.
pub(super) fn put_all(buffer: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
    for (row, line) in (0..area.height).zip(lines) {
        buffer.set_line(area.x, area.y + row, line, area.width);
        let words: String = line.spans.iter().map(|span| &*span.content).collect();
        if area.width > 0 && text::width(words.trim_end()) > usize::from(area.width) {
            buffer[(area.right() - 1, area.y + row)].set_symbol("…");
        }
    }
}

/// Cuts or pads text to exactly `columns`.
pub(super) fn padded(words: &str, columns: usize, right: bool) -> String {
    let shown = text::fit(words, columns);
    let blank = " ".repeat(columns.saturating_sub(text::width(&shown)));
    if right { format!("{blank}{shown}") } else { format!("{shown}{blank}") }
}

/// Splits an area into its first `rows` and the rest.
pub(super) fn split(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    let top = Rect { height: rows, ..area };
    (top, Rect { y: area.y + rows, height: area.height - rows, ..area })
}
