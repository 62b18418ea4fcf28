//! The header above the list: the node, its pressure, its decisions and problems. Pure.

use super::theme::Theme;
use crate::health;
use crate::top::app::App;
use crate::top::input::Now;
use api::wire::{Gpu, Node, Notice, Status};
use ratatui::text::{Line, Span};
use std::collections::BTreeMap;
use term::screen::Tone;
use term::text;

/// Age from which a snapshot is reported as stale.
const STALE_AFTER_MS: u64 = 30_000;

/// The lines for a screen of this height; only the most important ones if it is low.
pub(super) fn lines(app: &App, now: Now, height: u16, theme: Theme) -> Vec<Line<'static>> {
    let problem = problem(app, now, theme);
    let Some(status) = &app.status else {
        let waiting = Line::from(theme.span(Tone::Dim, "waiting for the daemon …"));
        return vec![problem.unwrap_or(waiting)];
    };
    let node = &status.node;
    let (title, counts) = (title(app, node, theme), counts(app, status, theme));
    let mut lines = match height {
        0..8 => return vec![problem.unwrap_or(title)],
        8..14 => vec![title, decisions(app, node, now, theme), counts],
        _ => {
            let mut lines = vec![title, load(status, theme)];
            lines.extend(gpus(&node.gpus, usize::from(height - 14) / 2 + 1, theme));
            lines.extend([decisions(app, node, now, theme), counts]);
            lines
        }
    };
    lines.extend(problem.or_else(|| notice(status, theme).filter(|_| height >= 12)));
    lines
}

fn title(app: &App, node: &Node, theme: Theme) -> Line<'static> {
    let policy = &node.policy;
    let objective =
        if policy.policy == "balanced" { format!(" (objective {})", policy.objective) } else { String::new() };
    let mut spans = vec![theme.span(Tone::Bold, &text::fit(&text::clean(&node.hostname), 40))];
    if app.frozen {
        spans.push(Span::styled(" FROZEN (space resumes) ", theme.inverse()));
    }
    spans.push(theme.span(Tone::Plain, " · policy "));
    spans.push(theme.span(Tone::Accent, &policy.policy));
    let rest = format!(
        "{objective} · {} cores · up {} · every {}",
        text::number_text(node.cores),
        text::duration(node.uptime_s),
        seconds(app.delay.as_secs_f64())
    );
    spans.push(theme.span(Tone::Plain, &rest));
    Line::from(spans)
}

/// Formats a delay, which may be less than a second.
fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{}s", text::number_text(seconds)) } else { text::duration(seconds) }
}

fn load(status: &Status, theme: Theme) -> Line<'static> {
    let node = &status.node;
    let pressures = [("cpu", node.pressure.cpu), ("memory", node.pressure.memory), ("io", node.pressure.io)];
    let mut spans = vec![theme.span(Tone::Plain, "pressure")];
    for (name, part) in pressures {
        let words = part.map_or_else(|| format!(" {name} ?"), |part| format!(" {name} {}", text::percent(part)));
        // High pressure is marked without colour, too.
        let high = part.is_some_and(|part| part >= 0.2);
        spans.push(theme.span(if high { Tone::Warn } else { Tone::Plain }, &words));
        spans.push(theme.span(Tone::Warn, if high { "!" } else { "" }));
    }
    // Not `sum`: the sum of an empty iterator is −0.
    let used = status.containers.iter().filter_map(|job| job.cpu_used).fold(0.0, |sum, used| sum + used);
    let memory: u64 = status.containers.iter().filter_map(|job| job.memory_bytes).sum();
    let rest = format!(
        " · jobs use {} of the CPU, {} · {}",
        text::percent(used.clamp(0.0, 1.0)),
        text::bytes(memory),
        node.runtimes.join(", ")
    );
    spans.push(theme.span(Tone::Plain, &rest));
    Line::from(spans)
}

/// A row for each GPU, at most `at_most` rows.
fn gpus(gpus: &[Gpu], at_most: usize, theme: Theme) -> Vec<Line<'static>> {
    let shown = if gpus.len() > at_most { at_most.saturating_sub(1) } else { gpus.len() };
    let mut lines: Vec<Line<'static>> = gpus[..shown].iter().map(|gpu| gpu_line(gpu, theme)).collect();
    if shown < gpus.len() {
        let left = &gpus[shown..];
        let most = left.iter().filter_map(|gpu| gpu.busy).reduce(f64::max);
        let most = most.map_or_else(String::new, |busy| format!(", the busiest {}", text::percent(busy)));
        let more = if shown == 0 { String::new() } else { " more".to_owned() };
        let words = format!("{}{more}{most}", text::count(left.len(), "GPU"));
        lines.push(Line::from(theme.span(Tone::Dim, &words)));
    }
    lines
}

/// `GPU 0 ██████▍░░░  63% · 31.0G of 40.0G · 61 C · 212 of 400 W · 1410 MHz · NVIDIA A100-SXM4-40GB`.
fn gpu_line(gpu: &Gpu, theme: Theme) -> Line<'static> {
    let busy = gpu.busy.map_or_else(
        || format!("{:10}    ?", ""),
        |busy| format!("{} {:>4}", text::bar(busy, 10), text::percent(busy)),
    );
    let mut words = format!(" {busy}");
    let of = |used: Option<String>, all: Option<String>| match (used, all) {
        (Some(used), Some(all)) => Some(format!("{used} of {all}")),
        (used, _) => used,
    };
    let whole = |number: f64| format!("{number:.0}");
    let power = of(gpu.power_watts.map(whole), gpu.power_limit_watts.map(whole));
    let parts = [
        of(gpu.memory_used_bytes.map(text::bytes), gpu.memory_total_bytes.map(text::bytes)),
        gpu.temperature_celsius.map(|degrees| format!("{degrees:.0} C")),
        power.map(|power| format!("{power} W")),
        gpu.sm_clock_mhz.map(|clock| format!("{clock:.0} MHz")),
        (!gpu.instances.is_empty()).then(|| text::count(gpu.instances.len(), "MIG instance")),
        Some(text::fit(&text::clean(&gpu.name), 40)),
    ];
    for part in parts.into_iter().flatten() {
        words.push_str(" · ");
        words.push_str(&part);
    }
    let name = theme.span(Tone::Bold, &format!("GPU {}", gpu.index));
    Line::from(vec![name, theme.span(Tone::Plain, &words)])
}

fn decisions(app: &App, node: &Node, now: Now, theme: Theme) -> Line<'static> {
    if node.released {
        let words = "RELEASED by an operator: original limits; `flowctl govern --all` governs them again";
        return Line::from(theme.span(Tone::Warn, words));
    }
    if let Some(words) = crate::status::control_period_notice(node) {
        return Line::from(theme.span(Tone::Warn, &words));
    }
    let left_ms = node.next_decision_unix_ms.saturating_sub(if app.frozen { node.unix_ms } else { now.unix_ms });
    let next = format!(
        "next decision in {} · interval {}",
        text::duration(left_ms as f64 / 1000.0),
        text::duration(node.interval_s)
    );
    let configured = node.policy.interval_s;
    let back_off = if node.interval_s > configured * 1.01 {
        theme.span(Tone::Warn, &format!(", backing off from {}", text::duration(configured)))
    } else if node.interval_s < configured * 0.99 {
        theme.span(Tone::Plain, &format!(", shortened from {}", text::duration(configured)))
    } else {
        theme.span(Tone::Plain, ", as configured")
    };
    Line::from(vec![
        theme.span(Tone::Plain, &next),
        back_off,
        theme.span(Tone::Plain, &format!(" · {} taken", text::count(node.decisions as usize, "decision"))),
    ])
}

fn counts(app: &App, status: &Status, theme: Theme) -> Line<'static> {
    let mut words = text::count(status.containers.len(), "job");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, condition) in status.containers.iter().filter_map(|job| health::word(job.health.as_ref())) {
        *counts.entry(condition).or_default() += 1;
    }
    if !counts.is_empty() {
        let counts: Vec<String> = counts.iter().map(|(condition, count)| format!("{count} {condition}")).collect();
        words.push_str(&format!(": {}", counts.join(", ")));
    }
    words.extend(crate::time_left::all_done(&status.containers).map(|done| format!(" · {done}")));
    words.push_str(&format!(" · by {} {}", app.order.key.word(), app.order.arrow()));
    let mut spans = vec![theme.span(Tone::Plain, &words)];
    if !app.filter.is_empty() {
        let filter = format!(" · filter \"{}\": {} shown", app.filter, app.rows.len());
        spans.push(theme.span(Tone::Accent, &filter));
    }
    Line::from(spans)
}

/// Reports that the daemon is silent or its data is stale.
fn problem(app: &App, now: Now, theme: Theme) -> Option<Line<'static>> {
    if let Some(silent) = app.silence(now) {
        let why = app.problem.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        let words = format!("no reply for {} s{why}", silent.as_secs());
        return Some(Line::from(theme.span(Tone::Bad, &words)));
    }
    let age_ms = now.unix_ms.saturating_sub(app.status.as_ref()?.node.unix_ms);
    (age_ms > STALE_AFTER_MS && !app.frozen).then(|| {
        let age = text::duration(age_ms as f64 / 1000.0);
        let words = format!("the daemon's data is {age} old; run `flowctl doctor` to find the cause");
        Line::from(theme.span(Tone::Bad, &words))
    })
}

/// The newest warning, and the number of others.
fn notice(status: &Status, theme: Theme) -> Option<Line<'static>> {
    let all = warnings(status);
    let (_, newest) = all.first()?;
    let more = if all.len() > 1 { format!(" (m: {} more)", all.len() - 1) } else { String::new() };
    Some(Line::from(theme.span(Tone::Warn, &format!("!{more} {newest}"))))
}

/// All warnings about the node and its jobs, newest first.
pub(super) fn warnings(status: &Status) -> Vec<(u64, String)> {
    let of_jobs = status.containers.iter().flat_map(|job| {
        let words = |notice: &Notice| format!("{}: {}", text::clean(&job.name), text::clean(&notice.text));
        job.notices.iter().filter(|notice| notice.is_warning()).map(move |notice| (notice.unix_ms, words(notice)))
    });
    let of_node = status.notices.iter().filter(|notice| notice.is_warning());
    let of_node = of_node.map(|notice| (notice.unix_ms, text::clean(&notice.text)));
    let mut all: Vec<(u64, String)> = of_node.chain(of_jobs).collect();
    all.sort_by_key(|(unix_ms, _)| std::cmp::Reverse(*unix_ms));
    all
}
