//! The jobs that ended lately, as a table below those that run. Pure.

use api::wire::Container;
use term::screen::{Look, Tone};
use term::table::{Cell, Column, table};
use term::text;

/// Formats the containers that ended lately, latest first; nothing if there are none.
pub(crate) fn table_of(ended: &[Container], look: &Look) -> String {
    let row = |container: &Container| {
        let end = container.ended.as_ref()?;
        let tone = if end.is_failure() { Tone::Bad } else { Tone::Dim };
        let often = if end.recent_ends > 1 { format!(", {} ends in 10 min", end.recent_ends) } else { String::new() };
        Some(vec![
            Cell::new(Tone::Dim, &container.name),
            Cell::new(tone, &end.text),
            Cell::new(Tone::Dim, &format!("{} ago{often}", text::duration(end.ago_s))),
            Cell::new(Tone::Dim, &end.story),
        ])
    };
    let rows: Vec<Vec<Cell>> = ended.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns =
        [Column::elastic("ENDED", 8), Column::left("HOW"), Column::left("WHEN"), Column::elastic("WHAT HAPPENED", 13)];
    format!("\n{}", table(&columns, &rows, look))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::wire::Ended;

    #[test]
    fn ended_jobs_are_listed_below_with_their_ends() {
        let end = Ended {
            kind: "failed".to_owned(),
            text: "failed 1".to_owned(),
            story: "It failed with exit code 1; `flowctl logs lroom` shows its last lines.".to_owned(),
            ago_s: 200.0,
            recent_ends: 4,
            ..Ended::default()
        };
        let gone = Container { name: "lroom".to_owned(), ended: Some(end), ..Container::default() };
        let wide = table_of(std::slice::from_ref(&gone), &Look { columns: None, color: false });
        let line = wide.lines().last().unwrap_or_default();
        assert!(line.starts_with("lroom  failed 1  3m20s ago, 4 ends in 10 min  It failed"), "{wide}");
        let narrow = table_of(&[gone], &Look { columns: Some(60), color: false });
        assert!(narrow.lines().all(|line| text::width(line) <= 60), "{narrow}");
        assert!(narrow.contains("failed 1") && narrow.contains("3m20s ago"), "{narrow}");
    }
}
