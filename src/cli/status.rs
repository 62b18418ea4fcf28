//! `flowctl status`: the node in two lines, and one line per job.
//!
//! Pure.

use super::{cost, ended, health, time_left};
use api::wire::{Container, GpuUse, Metric, Node, Notice, Status};
use std::fmt::Write as _;
use term::screen::{Look, Tone};
use term::table::{Cell, Column, fits, table};
use term::text::{self, clean};
use term::when;

/// An older snapshot is reported as outdated.
const FRESH_FOR_MS: u64 = 30_000;

/// Maximum number of messages below the table.
const NOTICES_AT_MOST: usize = 5;

/// Formats the page; `now_unix_ms` is the local clock.
pub(crate) fn page(status: &Status, look: &Look, now_unix_ms: u64) -> String {
    let mut page = header(&status.node, look, now_unix_ms);
    if let Some(words) = time_left::all_done(&status.containers) {
        let _ = writeln!(page, "{words}");
    }
    page.push('\n');
    if status.containers.is_empty() {
        page.push_str(&no_jobs_hint(&status.node));
    } else {
        page.push_str(&jobs(&status.containers, look));
    }
    page.push_str(&ended::table_of(&status.ended, look));
    page.push_str(&adopted(&status.containers, look));
    page.push_str(&messages(status, look));
    page
}

fn header(node: &Node, look: &Look, now_unix_ms: u64) -> String {
    let policy = clean(&node.policy.policy);
    let backing_off = if node.interval_s > node.policy.interval_s { ", backing off" } else { "" };
    let decisions = format!(
        " · next decision in {} (every {}{backing_off})",
        text::duration(node.next_decision_in_s),
        text::duration(node.interval_s)
    );
    let taken = text::width(" · policy ") + text::width(&policy) + text::width(&decisions);
    let host =
        text::fit(&clean(&node.hostname), look.columns.map_or(usize::MAX, |columns| columns.saturating_sub(taken)));
    let first = format!("{} · policy {}{decisions}", look.paint(Tone::Bold, &host), look.paint(Tone::Accent, &policy));
    let second = look.fit(&format!(
        "{} cores · pressure {} · {}",
        text::number_text(node.cores),
        pressures(node),
        clean(&node.runtimes.join(", ")),
    ));
    let mut header = format!("{first}\n{second}\n");
    if node.released {
        let words = "RELEASED by an operator: original limits; `flowctl govern --all` governs again";
        let _ = writeln!(header, "{}", look.paint(Tone::Warn, words));
    } else if let Some(words) = control_period_notice(node) {
        let _ = writeln!(header, "{}", look.paint(Tone::Warn, &look.fit(&words)));
    }
    let age_ms = now_unix_ms.saturating_sub(node.unix_ms);
    if age_ms > FRESH_FOR_MS {
        let words = format!(
            "the daemon last updated this {} ago; run `flowctl doctor` to find the cause",
            text::duration(age_ms as f64 / 1000.0)
        );
        let _ = writeln!(header, "{}", look.paint(Tone::Bad, &words));
    }
    header
}

/// The notice of a control period, if one is in progress.
pub(super) fn control_period_notice(node: &Node) -> Option<String> {
    let until = when::clock(node.plain_until_unix_ms?);
    let of_day = until.get(11..19)?;
    Some(format!("CONTROL PERIOD until {of_day}: original limits, to measure the gain"))
}

fn pressures(node: &Node) -> String {
    let pressure = &node.pressure;
    let known: Vec<String> = [("cpu", pressure.cpu), ("memory", pressure.memory), ("io", pressure.io)]
        .into_iter()
        .filter_map(|(name, part)| Some(format!("{name} {}", text::percent(part?))))
        .collect();
    if known.is_empty() { "unknown (no PSI)".to_owned() } else { known.join(" ") }
}

fn no_jobs_hint(node: &Node) -> String {
    let mut page = String::from("No job is governed yet. Start one:\n\n");
    page.push_str("  docker run --label flowcon.enable=true IMAGE COMMAND\n");
    page.push_str("  flowctl run -- COMMAND              without a container engine\n");
    if node.runtimes.is_empty() {
        page.push_str("\nNo container engine is connected: `flowctl doctor` shows why.\n");
    }
    page
}

/// Level of detail of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// The reason in one or two words.
    Short,
    /// The reason as the daemon states it.
    Usual,
    /// Every column.
    Wide {
        /// Whether to include the GPU columns: a job uses a GPU.
        gpus: bool,
    },
}

fn jobs(containers: &[Container], look: &Look) -> String {
    let rows = |detail| -> Vec<Vec<Cell>> { containers.iter().map(|container| row(container, detail)).collect() };
    if look.columns.is_none() {
        let wide = Detail::Wide { gpus: containers.iter().any(|container| !container.gpus.is_empty()) };
        return table(&columns(wide), &rows(wide), look);
    }
    let columns = columns(Detail::Usual);
    let usual = rows(Detail::Usual);
    if fits(&columns, &usual, look) {
        table(&columns, &usual, look)
    } else {
        table(&columns, &rows(Detail::Short), look)
    }
}

fn columns(detail: Detail) -> Vec<Column> {
    let mut columns = vec![
        Column::elastic("NAME", 8),
        Column::left("HEALTH"),
        Column::elastic("METRIC", 6),
        Column::right("VALUE"),
        Column::left("PROGRESS"),
        Column::right("LEFT"),
        Column::right("SHARE"),
    ];
    if let Detail::Wide { gpus } = detail {
        columns.extend(["LIMIT", "CPU", "MEMORY"].map(Column::right));
        if gpus {
            columns.extend(["GPU", "GPU-MEM"].map(Column::right));
        }
        columns.extend(["WEIGHT", "GROWTH", "CONFIDENCE"].map(Column::right));
        columns.extend(["LIST", "ID"].map(Column::left));
    }
    columns.push(Column::elastic("WHY", 9));
    columns
}

fn row(container: &Container, detail: Detail) -> Vec<Cell> {
    let metric = container.metric.as_ref();
    let mut row = vec![
        name(container),
        health_word(container),
        metric_name(metric),
        metric_value(metric),
        progress(container),
        Cell::or_dash(remaining(container)),
        share(container),
    ];
    if let Detail::Wide { gpus } = detail {
        row.extend([
            Cell::or_dash(container.limit.map(text::percent)),
            Cell::or_dash(container.cpu_used.map(text::percent)),
            Cell::or_dash(container.memory_bytes.map(text::bytes)),
        ]);
        if gpus {
            row.extend([Cell::or_dash(gpu_shares(&container.gpus)), Cell::or_dash(gpu_memory(&container.gpus))]);
        }
        row.extend([
            Cell::or_dash(container.cpu_weight.map(|weight| weight.to_string())),
            Cell::or_dash(container.growth.map(text::number_text)),
            Cell::or_dash(metric.map(|metric| text::percent(metric.confidence))),
            list(container),
            Cell::plain(&container.short_id),
        ]);
    }
    row.push(why(container, detail));
    row
}

/// The name, or the id if the name has no printable character.
pub(super) fn name(container: &Container) -> Cell {
    let name = clean(&container.name);
    Cell::plain(if name.trim().is_empty() { &container.short_id } else { &name })
}

fn health_word(container: &Container) -> Cell {
    health::word(container.health.as_ref()).map_or_else(|| Cell::or_dash(None), |(tone, word)| Cell::new(tone, &word))
}

/// The list, coloured: growing jobs are highlighted, converged ones dimmed.
pub(super) fn list(container: &Container) -> Cell {
    match container.list.as_deref() {
        Some("new") => Cell::new(Tone::Good, "new"),
        Some("watching") => Cell::new(Tone::Warn, "watching"),
        Some("completing") => Cell::new(Tone::Dim, "completing"),
        other => Cell::or_dash(other.map(str::to_owned)),
    }
}

fn metric_name(metric: Option<&Metric>) -> Cell {
    Cell::or_dash(metric.map(|metric| text::fit(&clean(metric.name.as_deref().unwrap_or("value")), 24)))
}

pub(super) fn metric_value(metric: Option<&Metric>) -> Cell {
    let Some(metric) = metric else { return Cell::or_dash(None) };
    let (tone, mark) = health::trend(metric);
    Cell::new(tone, &format!("{} {mark}", text::value(metric.value)))
}

pub(super) fn progress(container: &Container) -> Cell {
    let Some(progress) = &container.progress else { return Cell::or_dash(None) };
    match (progress.fraction, progress.current) {
        (Some(fraction), _) => Cell::plain(&format!("{} {:>4}", text::bar(fraction, 6), floored_percent(fraction))),
        (None, Some(current)) => {
            let of = progress.claimed_total.map_or_else(String::new, |total| format!("/~{}", text::number_text(total)));
            Cell::plain(&format!("{} {}{of}", clean(&progress.unit), text::number_text(current)))
        }
        (None, None) => Cell::or_dash(None),
    }
}

/// Rounds down, since 99.6 % is not complete.
fn floored_percent(fraction: f64) -> String {
    format!("{:.0}%", (fraction * 100.0).floor())
}

pub(super) fn remaining(container: &Container) -> Option<String> {
    let remaining = container.progress.as_ref()?.remaining_s?;
    Some(format!("~{}", text::duration(remaining.likely)))
}

/// `0 45%, 1 30%`; for more than three GPUs, the mean and the number: `50% of 8`.
fn gpu_shares(parts: &[GpuUse]) -> Option<String> {
    let shown = |share: Option<f64>| share.map_or_else(|| "?".to_owned(), text::percent);
    match parts {
        [] => None,
        [_] | [_, _] | [_, _, _] => {
            let each: Vec<String> =
                parts.iter().map(|part| format!("{} {}", part.place(), shown(part.share))).collect();
            Some(each.join(", "))
        }
        many => {
            let known: Vec<f64> = many.iter().filter_map(|part| part.share).collect();
            let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
            Some(format!("{} of {}", shown(mean), many.len()))
        }
    }
}

fn gpu_memory(parts: &[GpuUse]) -> Option<String> {
    let known: Vec<u64> = parts.iter().filter_map(|part| part.memory_bytes).collect();
    (!known.is_empty()).then(|| text::bytes(known.iter().sum()))
}

pub(super) fn share(container: &Container) -> Cell {
    Cell::or_dash(container.share.map(text::percent))
}

fn why(container: &Container, detail: Detail) -> Cell {
    if let Some(hold) = &container.hold {
        let tone = if hold.kind == "settling" { Tone::Dim } else { Tone::Warn };
        return Cell::new(tone, if matches!(detail, Detail::Wide { .. }) { &hold.why } else { hold_words(&hold.kind) });
    }
    let frozen = container.frozen_share.map(|share| format!("frozen {}", text::percent(share)));
    let words = match &frozen {
        Some(words) if detail == Detail::Short => words,
        None if detail == Detail::Short => rule_words(container),
        _ => &container.why,
    };
    let words = format!("{words}{}", if cost::waste(container).is_some() { ", wasteful" } else { "" });
    if container.notices.iter().any(Notice::is_warning) {
        Cell::new(Tone::Warn, &format!("! {words}"))
    } else {
        Cell::plain(&words)
    }
}

fn hold_words(kind: &str) -> &str {
    match kind {
        "foreign" => "external",
        other => other,
    }
}

/// The rule in one or two words; unknown rules show the beginning of the reason.
fn rule_words(container: &Container) -> &str {
    match container.rule.as_deref() {
        _ if container.pinned_share.is_some() => "pinned",
        None => "undecided",
        Some("observe-only") => "observing",
        Some("plain-block") => "control",
        // The text before the colon describes the job.
        Some(_) => container.why.split(':').next().unwrap_or(&container.why),
    }
}

/// The containers that are governed without the label.
fn adopted(containers: &[Container], look: &Look) -> String {
    let adopted = containers.iter().filter(|container| container.adopted.is_some());
    let names: Vec<String> = adopted.map(|container| clean(&container.name)).collect();
    if names.is_empty() {
        return String::new();
    }
    let words = format!("adopted without the label: {} (`flowctl disown NAME` undoes that)", names.join(", "));
    format!("\n{}\n", look.paint(Tone::Dim, &look.wrapped(&words, 0)))
}

fn messages(status: &Status, look: &Look) -> String {
    let about_jobs = status.containers.iter().flat_map(|container| {
        container.notices.iter().map(|notice| (notice, format!("{}: {}", clean(&container.name), clean(&notice.text))))
    });
    let about_node = status.notices.iter().map(|notice| (notice, clean(&notice.text)));
    let all: Vec<(&Notice, String)> = about_node.chain(about_jobs).filter(|(notice, _)| notice.is_warning()).collect();
    let mut page = String::new();
    for (_, words) in all.iter().rev().take(NOTICES_AT_MOST) {
        let separator = if page.is_empty() { "\n" } else { "" };
        let _ = writeln!(page, "{separator}{}", look.paint(Tone::Warn, &format!("! {}", look.wrapped(words, 2))));
    }
    let more = all.len().saturating_sub(NOTICES_AT_MOST);
    if more > 0 {
        let _ = writeln!(page, "! {more} more: `flowctl explain JOB` shows those of a job");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Millis, NodeStatus, Pressure};

    #[test]
    fn a_long_host_name_does_not_break_the_first_line() {
        let node = NodeStatus {
            unix_ms: 1_700_000_000_000,
            cores: 128.0,
            pressure: Pressure { cpu: Some(1.0), memory: Some(1.0), io: Some(1.0) },
            interval: Millis::from_secs(320),
            next_tick: Millis::from_secs(320),
            released: true,
            runtimes: vec!["docker: connected (28.2.2)".to_owned(), "scope: ready".to_owned()],
            ..NodeStatus::default()
        };
        let status = Status::of(&node, "ip-10-20-30-40.eu-central-1.compute.internal.example.org");
        assert!(
            !page(&status, &Look { columns: None, color: false }, 1_700_000_600_000).contains("CONTROL"),
            "a released node shows no control period"
        );
        let shown = page(&status, &Look { columns: Some(80), color: false }, 1_700_000_600_000);
        let widest = shown.lines().map(text::width).max();
        assert!(widest.is_some_and(|widest| widest <= 80), "{shown}");
        assert!(shown.starts_with("ip-10-20-"), "{shown}");
        let in_a_block = Node { released: false, plain_until_unix_ms: Some(1_700_000_300_000), ..status.node.clone() };
        let words = control_period_notice(&in_a_block).unwrap_or_default();
        assert_eq!(words, "CONTROL PERIOD until 22:18:20: original limits, to measure the gain");
        assert!(text::width(&words) <= 80);
        assert!(header(&in_a_block, &Look { columns: Some(80), color: false }, 1_700_000_000_000).contains(&words));
        assert!(shown.contains("RELEASED") && shown.contains("10m ago"), "{shown}");
    }

    #[test]
    fn a_job_that_wastes_cpu_is_called_so() {
        let words = |waste| {
            let job = Container {
                waste,
                rule: Some("ranked".to_owned()),
                why: "learning: 3".to_owned(),
                ..Container::default()
            };
            let rows = [Detail::Short, Detail::Usual].map(|detail| vec![why(&job, detail)]);
            table(&[Column::elastic("WHY", 8)], &rows, &Look { columns: None, color: false })
        };
        assert_eq!(
            words(Some(2.0)).split_whitespace().collect::<Vec<_>>(),
            ["WHY", "learning,", "wasteful", "learning:", "3,", "wasteful"]
        );
        assert_eq!(words(Some(1.2)).split_whitespace().collect::<Vec<_>>(), ["WHY", "learning", "learning:", "3"]);
    }

    #[test]
    fn many_gpus_are_summarized_by_mean_and_number() {
        let part = |gpu, share| GpuUse { gpu, share, memory_bytes: Some(1 << 30), ..GpuUse::default() };
        let shares = |parts: &[GpuUse]| gpu_shares(parts).unwrap_or_default();
        assert_eq!(gpu_shares(&[]), None);
        assert_eq!(shares(&[part(1, Some(0.45))]), "1 45%");
        assert_eq!(shares(&[part(0, Some(0.45)), part(3, None)]), "0 45%, 3 ?");
        assert_eq!(shares(&(0..8).map(|gpu| part(gpu, Some(0.5))).collect::<Vec<_>>()), "50% of 8");
        assert_eq!(gpu_memory(&[part(0, None), part(1, None)]).as_deref(), Some("2.0G"));
    }
}
