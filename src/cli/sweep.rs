//! `flowctl sweep`: the trials of a sweep in one table, the best first.

mod page;
pub(crate) mod parameters;
pub(crate) mod past;

use super::repeat::{Repeat, repeat};
use api::client::Client;
use api::wire::{Container, Estimate, Progress, Status};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use term::exit::{Exit, Failure};
use term::screen::Screen;
use term::text::{self, clean};

/// Show the trials of a sweep, the best first: jobs with the same image and command but for numbers, or with one flowcon.group
#[derive(Args, Debug)]
pub(crate) struct SweepArgs {
    /// Name of the sweep, or of one of its jobs [default: all sweeps]
    #[arg(value_hint = super::completion::JOB)]
    name: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

/// One sweep; as JSON, an element of the output of `flowctl sweep -o json`.
#[derive(Serialize)]
struct Sweep<'a> {
    /// Its name: that of `flowcon.group`, or what the names of its jobs have in common.
    name: String,
    /// Its trials, the best first; those that ended lately are included.
    trials: Vec<&'a Container>,
}

/// Runs `flowctl sweep`.
///
/// # Errors
/// There is no such sweep; the daemon does not answer.
pub(crate) async fn sweep(client: &Client, args: &SweepArgs, screen: &Screen) -> Result<(), Failure> {
    repeat(args.repeat.watch, screen, async || {
        let status: Status = client.get("/v1/status").await?;
        let mut sweeps = sweeps(&status.containers, &status.ended);
        if let Some(name) = &args.name {
            sweeps.retain(|sweep| sweep.is_called(name));
            if sweeps.is_empty() {
                return Err(no_such(name));
            }
        }
        screen.rendered(&sweeps, &sweeps, |look| page::page(&sweeps, look))
    })
    .await
}

fn no_such(name: &str) -> Failure {
    Failure::new(
        Exit::NotFound,
        format!("no sweep is called {name}, and no job of that name runs beside others of the same training"),
        "`flowctl sweep` lists all sweeps; jobs are grouped by image and command, or by the label flowcon.group"
            .to_owned(),
    )
}

/// The sweeps of the node, in the order of their first trials.
fn sweeps<'a>(running: &'a [Container], ended: &'a [Container]) -> Vec<Sweep<'a>> {
    let mut groups: Vec<(&str, Vec<&Container>)> = Vec::new();
    for container in running.iter().chain(ended) {
        let Some(trial) = &container.trial else { continue };
        match groups.iter_mut().find(|(group, _)| *group == trial.group) {
            Some((_, trials)) => trials.push(container),
            None => groups.push((&trial.group, vec![container])),
        }
    }
    groups.into_iter().map(|(_, trials)| Sweep::of(trials)).collect()
}

impl<'a> Sweep<'a> {
    fn of(mut trials: Vec<&'a Container>) -> Sweep<'a> {
        let given = trials.iter().find_map(|trial| trial.trial.as_ref()?.group_name.as_deref());
        let name = name_of(given, &trials.iter().map(|trial| trial.name.as_str()).collect::<Vec<_>>());
        trials.sort_by(|a, b| goal(a).total_cmp(&goal(b)));
        Sweep { name, trials }
    }

    /// The sweep as if it were one job: what its trials have together, and the metric of the best one.
    fn as_row(&self) -> Container {
        let sum =
            |of: fn(&Container) -> Option<f64>| self.trials.iter().filter_map(|trial| of(trial)).reduce(|a, b| a + b);
        let parts = || self.trials.iter().filter_map(|trial| trial.progress.as_ref()?.fraction);
        let count = parts().count() as f64;
        let left = self.trials.iter().filter_map(|trial| trial.progress.as_ref()?.remaining_s);
        let last = left.reduce(|a, b| if b.likely > a.likely { b } else { a });
        let best = self.trials[0];
        Container {
            name: format!("{} ({})", self.name, text::count(self.trials.len(), "trial")),
            metric: best.metric.clone(),
            progress: best.progress.as_ref().map(|progress| Progress {
                fraction: (count > 0.0).then(|| parts().sum::<f64>() / count),
                remaining_s: last,
                ..progress.clone()
            }),
            share: sum(|trial| trial.share),
            limit: sum(|trial| trial.limit),
            cpu_used: sum(|trial| trial.cpu_used),
            cpu_time_s: sum(|trial| trial.cpu_time_s),
            rule: Some("sweep".to_owned()),
            why: format!("best is {}: `flowctl sweep {}`", clean(&best.name), self.name),
            ..Container::default()
        }
    }

    fn is_called(&self, name: &str) -> bool {
        let is_trial = |trial: &&Container| trial.name == name || trial.id == name || trial.short_id == name;
        self.name == name || self.trials.iter().any(is_trial)
    }
}

/// The jobs with one row for each sweep instead of its trials, at the place of the first of them.
pub(crate) fn collapsed(running: &[Container]) -> Vec<Container> {
    let mut sweeps = sweeps(running, &[]).into_iter();
    let mut shown = BTreeSet::new();
    let row = |container: &Container| match &container.trial {
        Some(trial) if shown.insert(trial.group.clone()) => sweeps.next().map(|sweep| sweep.as_row()),
        Some(_) => None,
        None => Some(container.clone()),
    };
    running.iter().filter_map(row).collect()
}

/// Sorts trials by what is expected of them at their end, the best first; those of which nothing is known come last.
pub(crate) fn goal(trial: &Container) -> f64 {
    let Some(metric) = &trial.metric else { return f64::INFINITY };
    let value = expected(trial).map(|expected| expected.likely).or(metric.value).unwrap_or(f64::INFINITY);
    if metric.direction.as_deref() == Some("up") && value.is_finite() { -value } else { value }
}

/// The value that is expected at its end, while it runs.
fn expected(trial: &Container) -> Option<&Estimate> {
    trial.trial.as_ref()?.expected.as_ref().filter(|_| trial.ended.is_none())
}

/// The name given by a label; or the beginning that the names of all trials have in common; or the first of them.
fn name_of(given: Option<&str>, names: &[&str]) -> String {
    let first = names.first().copied().unwrap_or_default();
    let common = names.iter().fold(first, |common, name| {
        let equal = common.chars().zip(name.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        &common[..equal]
    });
    let common = common.trim_end_matches(|c: char| c.is_ascii_digit() || "-_.".contains(c));
    clean(given.unwrap_or(if common.is_empty() { first } else { common }))
}

#[cfg(test)]
mod tests;
