//! The list page with one line per job. Pure.

use super::columns::{self, Column, MARGIN};
use super::header;
use super::theme::{Theme, padded, put, put_all, split};
use crate::time_left;
use crate::top::app::App;
use crate::top::input::Now;
use api::wire::{Container, Status};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use term::screen::Tone;
use term::text;

/// Draws the header, the rows, and the reason of the selected job.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, app: &mut App, now: Now, theme: Theme) {
    let head = header::lines(app, now, area.height, theme);
    let (top, rest) = split(area, u16::try_from(head.len()).unwrap_or(u16::MAX));
    put_all(buffer, top, &head);
    let footer = match area.height {
        0..9 => 0,
        9..14 => 1,
        _ => 2,
    };
    let (table, bottom) = split(rest, rest.height.saturating_sub(footer));
    let (titles, rows) = split(table, 1);
    app.set_page(usize::from(rows.height));
    let Some(status) = &app.status else { return };
    if status.containers.is_empty() && status.ended.is_empty() {
        return put_all(buffer, table, &no_jobs(theme));
    }
    let columns_shown = columns::fitting(usize::from(area.width));
    buffer.set_style(titles, theme.inverse());
    put(buffer, titles, &title_line(app, &columns_shown, theme));
    for (row, at) in (0..rows.height).zip(app.offset..app.rows.len()) {
        let Some(job) = app.rows.get(at).and_then(|index| app.job(*index)) else { break };
        let line = Rect { y: rows.y + row, height: 1, ..rows };
        let selected = at == app.cursor();
        put(buffer, line, &job_line(job, status, &columns_shown, selected, theme));
        if selected {
            buffer.set_style(line, theme.inverse());
            if job.ended.is_none() {
                upright_pictures(buffer, line, &columns_shown, theme);
            }
        }
    }
    if let Some(job) = app.selection() {
        put_all(buffer, bottom, &about(job, usize::from(area.width), theme));
    } else if app.rows.is_empty() {
        let words = format!("no job matches \"{}\"; Esc clears the filter", app.filter);
        put(buffer, rows, &Line::from(theme.span(Tone::Warn, &words)));
    }
}

/// Keeps the bars and the curve of the inverted row as in the other rows.
fn upright_pictures(buffer: &mut Buffer, line: Rect, columns_shown: &[(Column, usize)], theme: Theme) {
    let cells = |columns: usize| u16::try_from(columns).unwrap_or(u16::MAX);
    let mut left = MARGIN;
    for (column, width) in columns_shown {
        if column.is_picture(*width) {
            let picture = Rect { x: line.x.saturating_add(cells(left)), width: cells(*width), ..line };
            buffer.set_style(picture.intersection(line), theme.upright());
        }
        left += width + 1;
    }
}

fn no_jobs(theme: Theme) -> Vec<Line<'static>> {
    let lines = [
        "",
        "No job is governed yet. Start one with a label:",
        "",
        "  docker run --label flowcon.enable=true IMAGE COMMAND",
        "  flowctl run -- COMMAND              without a container engine",
    ];
    lines.into_iter().map(|line| Line::from(theme.span(Tone::Plain, line))).collect()
}

fn title_line(app: &App, columns_shown: &[(Column, usize)], theme: Theme) -> Line<'static> {
    let mut words = " ".repeat(MARGIN);
    for (column, width) in columns_shown {
        let mut title = column.title(*width);
        // The sort column has the arrow, if there is a blank for it.
        if column.sort_key() == Some(app.order.key) {
            if title.starts_with(' ') {
                title.replace_range(..1, app.order.arrow());
            } else if title.ends_with(' ') {
                title.replace_range(title.len() - 1.., app.order.arrow());
            }
        }
        words.push_str(&title);
        words.push(' ');
    }
    Line::from(theme.span(Tone::Bold, &words))
}

fn job_line(
    job: &Container,
    status: &Status,
    columns_shown: &[(Column, usize)],
    selected: bool,
    theme: Theme,
) -> Line<'static> {
    let cursor = Span::raw(if selected { ">" } else { " " });
    if let Some(end) = &job.ended {
        let width = columns_shown.iter().find(|(column, _)| *column == Column::Name).map_or(0, |(_, width)| *width);
        let name = padded(&columns::name(job), width, false);
        let ago = format!(", {} ago", text::duration(end.ago_s));
        let tone = if end.is_failure() { Tone::Bad } else { Tone::Dim };
        let (name, end, ago) = (theme.span(Tone::Dim, &name), theme.span(tone, &end.text), theme.span(Tone::Dim, &ago));
        return Line::from(vec![cursor, Span::raw("  "), name, Span::raw(" "), end, ago]);
    }
    let (tone, flag) = columns::flag(job);
    let mut spans = Vec::with_capacity(2 * columns_shown.len() + 3);
    spans.push(cursor);
    spans.push(Span::styled(String::from(flag), theme.style(tone)));
    for (column, width) in columns_shown {
        spans.push(Span::raw(" "));
        let (tone, words) = column.cell(job, &status.node, status.containers.len(), *width);
        spans.push(Span::styled(words, theme.style(tone)));
    }
    Line::from(spans)
}

/// Describes the selected job: its reason and the values without a column.
fn about(job: &Container, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let (tone, why) = columns::why(job);
    let name = text::fit(&columns::name(job), 24);
    let first = Line::from(vec![
        theme.span(Tone::Bold, &name),
        theme.span(tone, &format!(": {}", text::fit(&text::clean(&why), width.saturating_sub(text::width(&name) + 2)))),
    ]);
    let mut numbers = Vec::new();
    if let Some(pin) = job.pinned_share {
        numbers.push(format!("pinned to {}", text::percent(pin)));
    }
    if let Some((likely, range)) = columns::left(job) {
        numbers.push(format!("left ~{likely}{}", time_left::bracketed(&range)));
    }
    if let Some(growth) = job.growth {
        numbers.push(format!("growth {} per node-CPU-second", text::number_text(growth)));
    }
    if let Some(metric) = &job.metric {
        numbers.push(format!(
            "{}, {} sure",
            metric.name.as_deref().unwrap_or("value"),
            text::percent(metric.confidence)
        ));
    }
    if let Some(hold) = &job.hold {
        numbers.insert(0, format!("ends: {}", hold.ends));
    }
    let second = Line::from(theme.span(Tone::Dim, &padded(&text::clean(&numbers.join(" · ")), width, false)));
    vec![first, second]
}
