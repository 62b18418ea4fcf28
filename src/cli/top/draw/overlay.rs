//! Overlays on top of the page: help, sort keys, messages. Pure.

use super::header;
use super::theme::{Theme, put_all};
use crate::top::app::App;
use crate::top::jobs::SortKey;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};
use term::screen::Tone;
use term::text;
use term::when;

/// The help; each line fits a terminal of 80 columns, and is wrapped on a narrower one.
const HELP: &str = "\
↑ ↓ PgUp PgDn, j k g G   move; Enter opens a job, Esc or q goes back
/                        show only jobs with these words in name,
                         health, metric or reason; Esc clears the filter
s  < >  R                choose the sort key; previous, next key; reverse
P M T V                  sort by CPU, memory, time left, value
p                        release: original limits, left alone; again: govern
r                        govern, also after another program changed a limit
x                        pin its share; again: unpin
space                    freeze the screen; again: resume
m                        all warnings
d                        seconds between updates
F5, Ctrl-L               update now; redraw
q, Ctrl-C, Ctrl-Z        quit; suspend

Flags: R released by an operator, ! on hold or with a warning (see Enter),
= pinned, ~ found running and still observed, z paused in its engine.

Share of the node: █ floor, ▓ share above the floor, ░ up to the bound,
· beyond the bound, ▒ part of the floor that is not reached.

Value: ↗ better, ↘ worse, → flat. Health: the worst that applies; see Enter.
Time left: the most likely value and its 80% range.";

/// Draws the help.
pub(super) fn help(buffer: &mut Buffer, page: Rect, from: usize, theme: Theme) {
    let room = usize::from(page.width).saturating_sub(4).max(1);
    let wrapped = |line: &str| if text::width(line) <= room { vec![line.to_owned()] } else { text::wrap(line, room) };
    let lines: Vec<String> = HELP.lines().flat_map(wrapped).collect();
    boxed(buffer, page, "Help", &lines, from, theme);
}

/// Draws the sort keys.
pub(super) fn sort(buffer: &mut Buffer, page: Rect, at: usize, theme: Theme) {
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

/// Draws all warnings, newest first.
pub(super) fn messages(buffer: &mut Buffer, page: Rect, app: &App, from: usize, theme: Theme) {
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

/// Draws a framed box in the middle of the page; returns its inner area.
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
    fn the_help_fits_eighty_columns() {
        assert!(HELP.lines().all(|line| text::width(line) <= 76), "{HELP}");
    }
}
