//! What lies over the page: help, sort keys, messages. Pure. Imports: the state, ratatui.

use super::header;
use super::theme::{Theme, put_all};
use crate::cli::top::app::App;
use crate::cli::top::jobs::SortKey;
use crate::term::screen::Tone;
use crate::term::text;
use crate::term::when;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

/// No line is wider than a terminal of 80 columns has room for.
const HELP: &str = "\
↑ ↓ PgUp PgDn, j k g G   move; Enter opens a job, Esc or q goes back
/                        show only jobs with these words in name, list,
                         metric or reason; Esc shows all
s  < >  R                choose what sorts; the key before, after; reverse
P M T                    sort by CPU, memory, time left
p                        pause: original limits, left alone; again: resume
r                        resume, also after somebody else changed a limit
x                        hold its share where it is told; again: let go
space                    freeze the screen; again: go on
m                        all warnings
d                        seconds between two looks
F5, Ctrl-L               look now; draw anew
q, Ctrl-C, Ctrl-Z        quit; suspend

At the left: P paused by an operator, ! held or warned about (Enter tells),
= pinned, ~ found running and observed first, z frozen by its engine.

Share of the node: █ floor, ▓ what it has above it, ░ up to its bound,
· beyond, ▒ a floor that it does not reach.

Value: ↓ ↑ improving, → on a plateau, × getting worse or no number.
Time left: the likeliest, and the span that holds four times of five.";

/// The keys and signs.
pub fn help(buffer: &mut Buffer, page: Rect, from: usize, theme: Theme) {
    let lines: Vec<String> = HELP.lines().map(str::to_owned).collect();
    boxed(buffer, page, "Help", &lines, from, theme);
}

/// The sort keys.
pub fn sort(buffer: &mut Buffer, page: Rect, at: usize, theme: Theme) {
    let lines: Vec<String> = SortKey::ALL
        .iter()
        .enumerate()
        .map(|(place, key)| format!("{} {:<10}", if place == at { ">" } else { " " }, key.word()))
        .collect();
    let inner = boxed(
        buffer,
        page,
        "Sort by",
        &lines,
        (at + 1).saturating_sub(usize::from(page.height).saturating_sub(2)),
        theme,
    );
    let first = (at + 1).saturating_sub(usize::from(inner.height));
    if let Ok(row) = u16::try_from(at - first.min(at)) {
        let line = Rect { y: inner.y + row, height: 1, ..inner };
        buffer.set_style(line.intersection(inner), theme.inverse());
    }
}

/// All warnings, newest first.
pub fn messages(buffer: &mut Buffer, page: Rect, app: &App, from: usize, theme: Theme) {
    let warnings = app.status.as_ref().map_or_else(Vec::new, |status| header::warnings(status));
    let room = usize::from(page.width).saturating_sub(4).max(1);
    let mut lines: Vec<String> = warnings
        .iter()
        .flat_map(|(unix_ms, words)| text::wrap(&format!("{} {words}", when::clock(*unix_ms)), room))
        .collect();
    if lines.is_empty() {
        lines.push("No warnings.".to_owned());
    }
    boxed(buffer, page, "Messages", &lines, from, theme);
}

/// A framed box in the middle of the page; what is inside the frame.
fn boxed(buffer: &mut Buffer, page: Rect, title: &str, lines: &[String], from: usize, theme: Theme) -> Rect {
    let widest = lines.iter().map(|line| text::width(line)).max().unwrap_or(0);
    let size = |wanted: usize, most: u16| u16::try_from(wanted).unwrap_or(u16::MAX).min(most);
    let (width, height) = (size(widest + 4, page.width), size(lines.len() + 2, page.height));
    let area = Rect { x: page.x + (page.width - width) / 2, y: page.y + (page.height - height) / 2, width, height };
    Clear.render(area, buffer);
    let block = Block::bordered().title(Span::styled(format!(" {title} "), theme.style(Tone::Bold)));
    let framed = block.inner(area);
    block.render(area, buffer);
    let inner = Rect { x: framed.x + framed.width.min(1), width: framed.width.saturating_sub(2), ..framed };
    let from = from.min(lines.len().saturating_sub(usize::from(inner.height)));
    let shown: Vec<Line<'_>> = lines.iter().skip(from).map(|line| Line::styled(line.as_str(), Style::new())).collect();
    put_all(buffer, inner, &shown);
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_the_help_is_cut_off_in_eighty_columns() {
        assert!(HELP.lines().all(|line| text::width(line) <= 76), "{HELP}");
    }
}
