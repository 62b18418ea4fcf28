//! The section "Limits" of `flowctl explain`: each limit, and the changes that were not made by flowcon.

use super::Page;
use api::wire::{Explanation, Limit, Limits};
use term::screen::Tone;
use term::table::{Cell, Column, table};
use term::text::{self, clean};
use term::when;

pub(super) fn section(page: &mut Page<'_>, explanation: &Explanation) {
    page.section("Limits");
    let Limits { cpu_weight, cpu_quota_cores, memory_low_bytes, memory_high_bytes, io_weight } = &explanation.limits;
    let rows: Vec<Vec<Cell>> = [
        ("  CPU weight", cpu_weight, text::number_text as fn(f64) -> String),
        ("  CPU quota, cores", cpu_quota_cores, text::number_text),
        ("  memory protected", memory_low_bytes, size),
        ("  memory squeezed at", memory_high_bytes, size),
        ("  block I/O weight", io_weight, text::number_text),
    ]
    .into_iter()
    .map(|(name, limit, words)| limit_row(name, limit, words))
    .collect();
    let columns = [
        Column::left("  LIMIT"),
        Column::right("ORIGINAL"),
        Column::right("CURRENT"),
        Column::right("PLANNED"),
        Column::left(""),
    ];
    page.text.push_str(&table(&columns, &rows, page.look));
}

/// Changes of limits that were not made by flowcon.
pub(super) fn drifts(page: &mut Page<'_>, explanation: &Explanation) {
    for drift in &explanation.drifts {
        let tone = if drift.by == "system" { Tone::Plain } else { Tone::Warn };
        page.toned(
            tone,
            &format!("by {}", clean(&drift.by)),
            &format!("{} {}", when::clock(drift.unix_ms), drift.text),
        );
    }
}

fn limit_row(name: &str, limit: &Limit, words: fn(f64) -> String) -> Vec<Cell> {
    let shown = |number: Option<f64>| {
        Cell::or_dash(number.map(|number| if number < 0.0 { "none".to_owned() } else { words(number) }))
    };
    let remark = match (limit.standing, limit.planned) {
        (None, _) => "not available here",
        (Some(standing), Some(planned)) if standing != planned => "differs",
        (standing, _) if standing != limit.original => "changed",
        _ => "",
    };
    vec![
        Cell::plain(name),
        shown(limit.original),
        shown(limit.standing),
        shown(limit.planned),
        Cell::new(Tone::Dim, remark),
    ]
}

fn size(number: f64) -> String {
    text::bytes(number.max(0.0) as u64)
}
