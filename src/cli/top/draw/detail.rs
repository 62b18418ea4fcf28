//! The detail page of one job: numbers, evaluation curve, shares over time, log lines and decisions. Pure.

use super::columns::{self, MARGIN};
use super::curve;
use super::header;
use super::theme::{Theme, put, put_all, split};
use crate::time_left;
use crate::top::app::{App, Detail};
use crate::top::input::Now;
use crate::top::share::ShareSpan;
use crate::top::trace::CurvePoints;
use api::wire::{Container, ContainerDetail, Status};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Widget};
use term::screen::Tone;
use term::text;
use term::when;

/// Width of the labels on the left.
const LABEL: usize = 10;

/// Minimum page width for two charts side by side.
const MIN_WIDTH_FOR_TWO: u16 = 64;

/// Maximum height of the charts.
const MAX_CHART_HEIGHT: u16 = 24;

/// Draws the page.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, app: &App, now: Now, theme: Theme) {
    let Some(detail) = &app.detail else { return };
    let job = app.detail_job();
    let latest = detail.latest.as_deref();
    let Some(container) = job.or_else(|| latest.map(|latest| &latest.container)) else {
        let line = Line::from(theme.span(Tone::Dim, "waiting for the daemon …"));
        return put(buffer, area, &line);
    };
    let mut facts = vec![title(container, job.is_none() && app.status.is_some(), theme)];
    if let Some(trouble) = app.silence(now).and_then(|_| header::lines(app, now, 0, theme).into_iter().next()) {
        facts.push(trouble);
    }
    if let Some(status) = &app.status {
        facts.extend(numbers(container, latest, status, usize::from(area.width), theme));
    }
    let facts_most = if area.height >= 16 { facts.len() } else { usize::from(area.height).min(facts.len()) };
    let (top, rest) = split(area, u16::try_from(facts_most).unwrap_or(u16::MAX));
    put_all(buffer, top, &facts);
    let chart_height = match rest.height {
        0..6 => 0,
        high => (high - text_height(app, detail).clamp(3, high / 2)).min(MAX_CHART_HEIGHT),
    };
    let (pictures, words) = split(rest, chart_height);
    charts(buffer, pictures, app, detail, now, theme);
    log_and_events(buffer, words, app, detail, theme);
}

/// Number of lines needed for the text below the charts.
fn text_height(app: &App, detail: &Detail) -> u16 {
    let count = detail.curve.lines().count().max(1) + events_and_decisions(app, detail).len().max(1) + 2;
    u16::try_from(count).unwrap_or(u16::MAX)
}

fn title(container: &Container, ended: bool, theme: Theme) -> Line<'static> {
    let state = match &container.ended {
        Some(end) => format!("{} {} ago, ran", end.text, text::duration(end.ago_s)),
        None if ended => "ended, was running".to_owned(),
        None => container.state.clone(),
    };
    let rest = format!(
        " · {} · {} · {state} for {}{}",
        text::fit(&container.short_id, 24),
        container.runtime,
        text::duration(container.uptime_s),
        container.pinned_share.map_or_else(String::new, |pin| format!(" · pinned to {}", text::percent(pin)))
    );
    Line::from(vec![theme.span(Tone::Bold, &text::fit(&columns::name(container), 40)), theme.span(Tone::Plain, &rest)])
}

fn numbers(
    job: &Container,
    latest: Option<&ContainerDetail>,
    status: &Status,
    width: usize,
    theme: Theme,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut line = |label: &str, spans: Vec<Span<'static>>| {
        let label = theme.span(Tone::Dim, &format!("{label:<LABEL$}"));
        lines.push(Line::from([vec![label], spans].concat()));
    };
    let plain = |words: String| theme.span(Tone::Plain, &words);
    let dash = || "–".to_owned();

    let span = ShareSpan::of(job, &status.node, status.containers.len());
    let share = format!(
        " {} of the node · floor {} · bound {}",
        job.share.map_or_else(dash, text::percent),
        text::percent(span.floor),
        text::percent(span.bound),
    );
    line("share", vec![theme.span(Tone::Accent, &span.bar(width / 5)), plain(share)]);
    let used = format!(
        "CPU {} of the node · memory {} · cpu.weight {}",
        job.cpu_used.map_or_else(dash, text::percent),
        job.memory_bytes.map_or_else(dash, text::bytes),
        job.cpu_weight.map_or_else(dash, |weight| weight.to_string()),
    );
    line("use", vec![plain(used)]);

    let list = job.list.clone().unwrap_or_else(dash);
    let (tone, value) = job.metric.as_ref().map_or((Tone::Plain, dash()), columns::value);
    let metric = job
        .metric
        .as_ref()
        .map_or_else(|| "no metric yet".to_owned(), |metric| format!("{} ", metric.name.as_deref().unwrap_or("value")));
    let growth = job.growth.map_or_else(|| "not measured".to_owned(), text::number_text);
    let of_curve = latest
        .and_then(|latest| latest.explanation.reading.quality)
        .map_or_else(String::new, |quality| format!(" · {} learned", text::percent(quality)));
    let rest = format!(" · growth {growth} · list {list}{of_curve}");
    line("learning", vec![plain(metric), theme.span(tone, &value), plain(rest)]);

    if let Some(progress) = &job.progress {
        let bar = progress.fraction.map_or_else(String::new, |fraction| {
            format!("{} {:.0}% · ", text::bar(fraction, width / 6), (fraction * 100.0).floor())
        });
        let of = text::of_total(progress.total, progress.claimed_total);
        let left = columns::left(job)
            .map_or_else(String::new, |(likely, range)| format!(" · ~{likely} left{}", time_left::bracketed(&range)));
        let current = progress.current.map_or_else(|| "?".to_owned(), text::number_text);
        line("progress", vec![plain(format!("{bar}{} {current}{of}{left}", progress.unit))]);
    }
    let (tone, why) = match (&job.hold, latest.and_then(|latest| latest.explanation.decision.as_ref())) {
        (Some(hold), _) => (Tone::Warn, format!("{}; ends: {}", hold.why, hold.ends)),
        (None, _) if job.ended.is_some() => (Tone::Plain, job.why.clone()),
        (None, Some(decision)) => (Tone::Plain, decision.story.clone()),
        (None, None) => (Tone::Plain, job.why.clone()),
    };
    let room = width.saturating_sub(LABEL).max(10);
    for (at, words) in text::wrap(&text::clean(&why), room).iter().take(3).enumerate() {
        line(if at == 0 { "why" } else { "" }, vec![theme.span(tone, words)]);
    }
    lines
}

fn charts(buffer: &mut Buffer, area: Rect, app: &App, detail: &Detail, now: Now, theme: Theme) {
    if area.height < 3 {
        return;
    }
    let half = if area.width >= MIN_WIDTH_FOR_TWO { area.width / 2 } else { area.width };
    evaluation_curve(buffer, Rect { width: half, ..area }, app, detail, now, theme);
    if half < area.width {
        let right = Rect { x: area.x + half + 1, width: area.width - half - 1, ..area };
        shares_over_time(buffer, right, app, detail, now, theme);
    }
}

fn evaluation_curve(buffer: &mut Buffer, area: Rect, app: &App, detail: &Detail, now: Now, theme: Theme) {
    let (title, area) = split(area, 1);
    let metric = detail.latest.as_ref().and_then(|latest| latest.container.metric.as_ref());
    let name = metric.and_then(|metric| metric.name.as_deref()).unwrap_or("value");
    let (points, by) = match detail.curve.points() {
        CurvePoints::ByNumber(points) => (points, "by evaluation"),
        CurvePoints::OverTime(timed) => {
            let end = end_of_charts(app, now);
            (timed.into_iter().map(|(unix_ms, value)| (seconds_before(end, unix_ms), value)).collect(), "over time")
        }
    };
    put(buffer, title, &Line::from(theme.span(Tone::Bold, &format!("{name} {by}"))));
    let [(first, _), .., (last, _)] = points[..] else {
        let line = Line::from(theme.span(Tone::Dim, "fewer than two evaluations yet"));
        return put(buffer, area, &line);
    };
    let ends = if by == "over time" {
        [format!("-{}", text::duration(-first)), ago(last)]
    } else {
        [text::number_text(first), text::number_text(last)]
    };
    curve::draw(buffer, area, &points, ends, theme.style(Tone::Accent));
}

/// The time at the right edge.
fn end_of_charts(app: &App, now: Now) -> u64 {
    app.status.as_ref().map_or(now.unix_ms, |status| status.node.unix_ms)
}

fn seconds_before(end: u64, unix_ms: u64) -> f64 {
    -(end.saturating_sub(unix_ms) as f64) / 1000.0
}

fn ago(seconds: f64) -> String {
    if seconds > -1.0 { "now".to_owned() } else { format!("-{}", text::duration(-seconds)) }
}

fn shares_over_time(buffer: &mut Buffer, area: Rect, app: &App, detail: &Detail, now: Now, theme: Theme) {
    let (title, area) = split(area, 1);
    let key = vec![
        theme.span(Tone::Bold, "share"),
        theme.span(Tone::Accent, " ⣀ line"),
        theme.span(Tone::Bold, " and CPU used"),
        theme.span(Tone::Good, " • dots"),
    ];
    put(buffer, title, &Line::from(key));
    let end = end_of_charts(app, now);
    let ago = |unix_ms: u64| seconds_before(end, unix_ms);
    let points: Vec<_> = app.trace_of(&detail.id).map(|trace| trace.points().collect()).unwrap_or_default();
    let mut shares: Vec<(f64, f64)> =
        points.iter().filter_map(|point| Some((ago(point.unix_ms), 100.0 * f64::from(point.share?)))).collect();
    shares.extend(app.detail_job().and_then(|job| job.share).map(|share| (0.0, 100.0 * share)));
    let used: Vec<(f64, f64)> =
        points.iter().filter_map(|point| Some((ago(point.unix_ms), 100.0 * f64::from(point.cpu?)))).collect();
    let first = points.first().map_or(0.0, |point| ago(point.unix_ms));
    if first >= 0.0 {
        let line = Line::from(theme.span(Tone::Dim, "no history yet"));
        return put(buffer, area, &line);
    }
    let share = Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(theme.style(Tone::Accent))
        .data(&shares);
    let used = Dataset::default()
        .marker(Marker::Dot)
        .graph_type(GraphType::Scatter)
        .style(theme.style(Tone::Good))
        .data(&used);
    let since = format!("-{}", text::duration(-first));
    Chart::new(vec![used, share])
        .x_axis(Axis::default().bounds([first, 0.0]).labels([Span::raw(since), Span::raw("now")]))
        .y_axis(Axis::default().bounds([0.0, 100.0]).labels([Span::raw("0%"), Span::raw("100%")]))
        .render(area, buffer);
}

/// Draws the parsed log lines and the decisions, newest first, each in a part of the area.
fn log_and_events(buffer: &mut Buffer, area: Rect, app: &App, detail: &Detail, theme: Theme) {
    let count = u16::try_from(detail.curve.lines().count().max(1)).unwrap_or(u16::MAX);
    let (top, bottom) = split(area, (area.height / 2).min(count.saturating_add(1)));
    let lines =
        detail.curve.lines().rev().map(|line| {
            Line::from(theme.span(Tone::Plain, &format!("{}{}", " ".repeat(MARGIN - 1), text::clean(line))))
        });
    section(buffer, top, "Parsed log lines, newest first", lines.skip(detail.back), theme);
    let events = events_and_decisions(app, detail).into_iter().map(|(unix_ms, kind, words)| {
        let when = format!("{}{} ", " ".repeat(MARGIN - 1), when::clock(unix_ms));
        Line::from(vec![theme.span(Tone::Dim, &when), theme.span(Tone::Plain, &format!("{kind:<8} {words}"))])
    });
    section(buffer, bottom, "Decisions and events, newest first", events.skip(detail.back), theme);
}

/// Events and decisions, newest first: time, kind and text.
fn events_and_decisions<'a>(app: &'a App, detail: &'a Detail) -> Vec<(u64, &'a str, &'a str)> {
    let events = app.events_of(&detail.id).map(|event| {
        let about = event.name.as_deref().and_then(|name| event.text.strip_prefix(name)?.strip_prefix(": "));
        (event.unix_ms, event.kind.as_str(), about.unwrap_or(&event.text))
    });
    let decided = detail.decisions.iter().map(|(unix_ms, words)| (unix_ms, "decided", words));
    let mut all: Vec<_> = events.chain(decided).collect();
    all.sort_by_key(|(unix_ms, ..)| std::cmp::Reverse(*unix_ms));
    all
}

fn section(buffer: &mut Buffer, area: Rect, title: &str, lines: impl Iterator<Item = Line<'static>>, theme: Theme) {
    let (head, body) = split(area, 1);
    put(buffer, head, &Line::from(theme.span(Tone::Bold, title)));
    let lines: Vec<Line<'_>> = lines.take(usize::from(body.height)).collect();
    if lines.is_empty() {
        put(buffer, body, &Line::from(theme.span(Tone::Dim, &format!("{}none yet", " ".repeat(MARGIN - 1)))));
    }
    put_all(buffer, body, &lines);
}
