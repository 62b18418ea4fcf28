//! Draws the screen as a function of the state. Pure.

mod ascii;
mod columns;
pub(crate) mod curve;
mod detail;
mod header;
mod list;
mod overlay;
mod theme;

pub(super) use theme::Theme;

use super::app::App;
use super::input::{Now, Overlay, PromptKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use term::screen::Tone;
use theme::{put, split};

/// Draws the screen; scrolls first, so that the row under the cursor is visible.
pub(super) fn draw(buffer: &mut Buffer, app: &mut App, now: Now, theme: Theme) {
    let (page, bottom) = split(buffer.area, buffer.area.height.saturating_sub(1));
    if app.detail.is_some() {
        detail::draw(buffer, page, app, now, theme);
    } else {
        list::draw(buffer, page, app, now, theme);
    }
    bottom_line(buffer, bottom, app, now, theme);
    match &app.overlay {
        Some(Overlay::Help(line)) => overlay::help(buffer, page, *line, theme),
        Some(Overlay::Sort(at)) => overlay::sort(buffer, page, *at, theme),
        Some(Overlay::Messages(line)) => overlay::messages(buffer, page, app, *line, theme),
        Some(Overlay::Prompt(_)) | None => {}
    }
    if theme.ascii {
        ascii::translate(buffer);
    }
}

/// Draws only the list.
pub(super) fn list_only(buffer: &mut Buffer, app: &mut App, now: Now, theme: Theme) {
    list::draw(buffer, buffer.area, app, now, theme);
    if theme.ascii {
        ascii::translate(buffer);
    }
}

/// The content of the buffer as lines of text without trailing blanks.
pub(super) fn lines(buffer: &Buffer) -> String {
    let area = buffer.area;
    let mut page = String::new();
    for y in area.top()..area.bottom() {
        let start = page.len();
        let mut x = area.left();
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            page.push_str(symbol);
            // A wide character takes two cells.
            x += u16::try_from(term::text::width(symbol).max(1)).unwrap_or(1);
        }
        page.truncate(start + page[start..].trim_end().len());
        page.push('\n');
    }
    page
}

/// Draws the prompt, the current message, or the keys.
fn bottom_line(buffer: &mut Buffer, area: Rect, app: &App, now: Now, theme: Theme) {
    if let Some(Overlay::Prompt(prompt)) = &app.overlay {
        let question = match &prompt.kind {
            PromptKind::Filter { .. } => "filter: ".to_owned(),
            PromptKind::Pin { name, .. } => format!("pin {name} to (such as 40%; empty: current share): "),
            PromptKind::Delay => "seconds between updates: ".to_owned(),
        };
        // The typed text stays visible even if the question is long.
        let room = usize::from(area.width).saturating_sub(2);
        let typed = prompt.text.chars().rev().take(room).collect::<Vec<_>>().into_iter().rev().collect::<String>();
        let question = term::text::fit(&term::text::clean(&question), room.saturating_sub(typed.len()));
        let cursor = Span::styled(" ", theme.inverse());
        let line = Line::from(vec![theme.span(Tone::Bold, &question), theme.span(Tone::Plain, &typed), cursor]);
        return put(buffer, area, &line);
    }
    if let Some(message) = app.message(now) {
        let (tone, sign) = if message.is_error { (Tone::Bad, "! ") } else { (Tone::Good, "") };
        return put(buffer, area, &Line::from(theme.span(tone, &format!("{sign}{}", message.text))));
    }
    put(buffer, area, &keys(app, area.width, theme));
}

const LIST_KEYS: [(&str, &str); 12] = [
    ("q", "Quit"),
    ("?", "Help"),
    ("Enter", "Detail"),
    ("/", "Filter"),
    ("s", "Sort"),
    ("p", "Release"),
    ("x", "Pin"),
    ("r", "Govern"),
    ("R", "Reverse"),
    ("space", "Freeze"),
    ("m", "Messages"),
    ("d", "Delay"),
];

const DETAIL_KEYS: [(&str, &str); 8] = [
    ("Esc", "Back"),
    ("?", "Help"),
    ("↑↓", "Other job"),
    ("PgUp PgDn", "Scroll"),
    ("p", "Release"),
    ("x", "Pin"),
    ("r", "Govern"),
    ("space", "Freeze"),
];

/// The keys that fit as a whole.
fn keys(app: &App, width: u16, theme: Theme) -> Line<'static> {
    let all: &[(&str, &str)] = match (&app.overlay, &app.detail) {
        (Some(Overlay::Sort(_)), _) => &[("↑↓", "Choose"), ("Enter", "Sort"), ("Esc", "Back")],
        (Some(Overlay::Help(_) | Overlay::Messages(_)), _) => &[("↑↓", "Scroll"), ("any other key", "Back")],
        (_, Some(_)) => &DETAIL_KEYS,
        _ => &LIST_KEYS,
    };
    let mut left = usize::from(width);
    let mut spans = Vec::new();
    for (key, does) in all {
        let needs = term::text::width(key) + 1 + does.len() + 2;
        if needs > left + 2 {
            break;
        }
        left = left.saturating_sub(needs);
        spans.push(Span::styled((*key).to_owned(), theme.inverse()));
        spans.push(theme.span(Tone::Plain, &format!(" {does}  ")));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests;
