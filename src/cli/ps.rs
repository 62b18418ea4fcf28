//! `flowctl ps`: the governed containers in the manner of `docker ps`. Pure. Imports: wire types, text, table.

use super::status;
use crate::api::wire::{Container, ContainerList};
use crate::term::screen::Look;
use crate::term::table::{Cell, Column, table};
use crate::term::text;

/// The page.
pub fn page(list: &ContainerList, look: &Look) -> String {
    if list.containers.is_empty() {
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
        columns.push(Column::left("RUNTIME"));
        columns.extend(["SHARE", "LIMIT", "GROWTH"].map(Column::right));
        columns.push(Column::left("HELD"));
    }
    let rows: Vec<Vec<Cell>> = list.containers.iter().map(|container| row(container, wide)).collect();
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
            Cell::or_dash(container.share.map(text::percent)),
            Cell::or_dash(container.limit.map(text::percent)),
            Cell::or_dash(container.growth.map(text::number_text)),
            Cell::or_dash(container.hold.as_ref().map(|hold| hold.kind.clone())),
        ]);
    }
    row
}
