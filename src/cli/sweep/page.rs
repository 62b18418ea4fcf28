//! The page of `flowctl sweep`. Pure.

use super::parameters::{differing, shown};
use super::{Sweep, expected};
use crate::status;
use api::wire::{Container, Estimate, Parameter};
use std::fmt::Write as _;
use term::screen::{Look, Tone};
use term::table::{Cell, Column, table};
use term::text::{self, clean};

pub(super) fn page(sweeps: &[Sweep<'_>], look: &Look) -> String {
    if sweeps.is_empty() {
        return "No sweep runs: jobs with the same image and command but for numbers, or with one flowcon.group, are one.\n".to_owned();
    }
    let pages: Vec<String> = sweeps.iter().map(|sweep| one(sweep, look)).collect();
    pages.join("\n")
}

fn one(sweep: &Sweep<'_>, look: &Look) -> String {
    let mut page = format!("{}\n", look.paint(Tone::Bold, &look.fit(&title(sweep))));
    for line in [favourite(sweep), cost(sweep)].into_iter().flatten() {
        let _ = writeln!(page, "{}", look.wrapped(&line, 0));
    }
    let all: Vec<&[Parameter]> = sweep.trials.iter().map(|trial| parameters_of(trial)).collect();
    let differing = differing(&all);
    let is_wide = look.columns.is_none();
    let mut columns = vec![Column::elastic("TRIAL", 8), Column::right("VALUE"), Column::right("EXPECTED")];
    if is_wide {
        columns.push(Column::right("80% RANGE"));
    }
    columns.extend([Column::left("PROGRESS"), Column::right("LEFT"), Column::right("SHARE")]);
    if is_wide {
        columns.push(Column::right("CPU TIME"));
    }
    columns.push(Column::elastic("PARAMETERS", 10));
    columns.push(Column::elastic("WHY", 9));
    let rows: Vec<Vec<Cell>> = sweep.trials.iter().map(|trial| row(trial, &differing, is_wide)).collect();
    page.push_str(&table(&columns, &rows, look));
    page
}

/// `sweep lr: 16 trials (10 run, 6 ended) · val_loss, smaller is better`.
fn title(sweep: &Sweep<'_>) -> String {
    let ended = sweep.trials.iter().filter(|trial| trial.ended.is_some()).count();
    let running = sweep.trials.len() - ended;
    let counts = if ended == 0 { format!("{running} run") } else { format!("{running} run, {ended} ended") };
    let metric = sweep.trials.iter().find_map(|trial| trial.metric.as_ref());
    let metric = metric.map_or_else(String::new, |metric| {
        let better = match metric.direction.as_deref() {
            Some("up") => ", larger is better",
            Some("down") => ", smaller is better",
            _ => "",
        };
        format!(" · {}{better}", clean(metric.name.as_deref().unwrap_or("value")))
    });
    format!("sweep {}: {} ({counts}){metric}", sweep.name, text::count(sweep.trials.len(), "trial"))
}

/// The trial of which the best result is expected, and when it will be complete.
fn favourite(sweep: &Sweep<'_>) -> Option<String> {
    let best = sweep.trials.first().filter(|best| best.metric.is_some())?;
    let (name, latest) = (clean(&best.name), text::value(best.metric.as_ref()?.value));
    if best.ended.is_some() {
        return Some(format!("best: {name} with {latest}; it has ended"));
    }
    let value = expected(best).map_or(latest, likely);
    let when = status::remaining(best).map_or_else(String::new, |left| format!(", complete in {left}"));
    Some(format!("likely best: {name} with {value}{when}"))
}

fn cost(sweep: &Sweep<'_>) -> Option<String> {
    let used: Vec<f64> = sweep.trials.iter().filter_map(|trial| trial.cpu_time_s).collect();
    (!used.is_empty()).then(|| format!("CPU time so far: {}", text::duration(used.iter().sum())))
}

fn likely(expected: &Estimate) -> String {
    text::number_text(expected.likely)
}

fn row(trial: &Container, differing: &[usize], is_wide: bool) -> Vec<Cell> {
    let metric = trial.metric.as_ref();
    let value = match metric.filter(|_| trial.ended.is_some()) {
        Some(last) => Cell::new(Tone::Dim, &text::value(last.value)),
        None => status::metric_value(metric),
    };
    let expected = expected(trial);
    let mut row = vec![status::name(trial), value, Cell::or_dash(expected.map(likely))];
    if is_wide {
        let range = |expected: &Estimate| {
            let high = expected.high.map_or_else(|| "?".to_owned(), text::number_text);
            format!("{} to {high}", text::number_text(expected.low))
        };
        row.push(Cell::or_dash(expected.map(range)));
    }
    row.extend([status::progress(trial), Cell::or_dash(status::remaining(trial)), status::share(trial)]);
    if is_wide {
        row.push(Cell::or_dash(trial.cpu_time_s.map(text::duration)));
    }
    row.extend([
        Cell::plain(&shown(parameters_of(trial), differing)),
        Cell::plain(&trial.ended.as_ref().map_or_else(|| trial.why.clone(), |end| end.text.clone())),
    ]);
    row
}

fn parameters_of(trial: &Container) -> &[Parameter] {
    trial.trial.as_ref().map_or(&[], |trial| &trial.parameters)
}
