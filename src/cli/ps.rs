//! `flowctl ps`: the governed containers in a table like that of `docker ps`. Pure.

use super::{history, status};
use api::wire::{Container, JobRecord};
use term::screen::{Look, Tone};
use term::table::{Cell, Column, table};
use term::text;

/// Formats the page.
pub(crate) fn page(containers: &[Container], ended: &[JobRecord], look: &Look) -> String {
    if containers.is_empty() && ended.is_empty() {
        return "No job is governed yet: docker run --label flowcon.enable=true IMAGE COMMAND\n".to_owned();
    }
    let wide = look.columns.is_none();
    let mut columns = vec![
        if wide { Column::left("CONTAINER ID") } else { Column::elastic("CONTAINER ID", 12) },
        Column::elastic("NAME", 8),
        Column::left("STATE"),
        Column::left("LIST"),
        Column::right("CPU"),
        Column::right("MEMORY"),
        Column::right("WEIGHT"),
        Column::right("UP"),
    ];
    if wide {
        columns.extend(["RUNTIME", "USER"].map(Column::left));
        columns.extend(["SHARE", "LIMIT", "GROWTH"].map(Column::right));
        columns.push(Column::left("HELD"));
    }
    let running = containers.iter().map(|container| row(container, wide));
    let rows: Vec<Vec<Cell>> = running.chain(ended.iter().map(|job| ended_row(job, wide))).collect();
    table(&columns, &rows, look)
}

fn row(container: &Container, wide: bool) -> Vec<Cell> {
    let mut row = vec![
        Cell::plain(if wide { &container.id } else { &container.short_id }),
        status::name(container),
        Cell::plain(&container.state),
        status::list(container),
        Cell::or_dash(container.cpu_used.map(text::percent)),
        Cell::or_dash(container.memory_bytes.map(text::bytes)),
        Cell::or_dash(container.cpu_weight.map(|weight| weight.to_string())),
        Cell::plain(&text::duration(container.uptime_s)),
    ];
    if wide {
        row.extend([
            Cell::plain(&container.runtime),
            Cell::or_dash(container.user.clone()),
            Cell::or_dash(container.share.map(text::percent)),
            Cell::or_dash(container.limit.map(text::percent)),
            Cell::or_dash(container.growth.map(text::number_text)),
            Cell::or_dash(container.hold.as_ref().map(|hold| hold.kind.clone())),
        ]);
    }
    row
}

/// The row of a job that ended: name, exit and duration; the rest is not recorded.
fn ended_row(job: &JobRecord, wide: bool) -> Vec<Cell> {
    let lasted = job.ended_unix_ms.unwrap_or(job.last_unix_ms).saturating_sub(job.started_unix_ms);
    let dash = || Cell::or_dash(None::<String>);
    let mut row = vec![
        Cell::new(Tone::Dim, if wide { &job.id } else { &job.short_id }),
        Cell::new(Tone::Dim, &job.name),
        Cell::new(Tone::Dim, &history::end(job)),
    ];
    row.extend([dash(), dash(), dash(), dash()]);
    row.push(Cell::new(Tone::Dim, &text::duration(lasted as f64 / 1000.0)));
    if wide {
        row.push(Cell::new(Tone::Dim, &job.runtime));
        row.extend([dash(), dash(), dash(), dash(), dash()]);
    }
    row
}
