//! What each subcommand of `flowsim` does: read, run, print.
//!
//! Imports: model.

use super::args::{Arguments, Command, RunArguments};
use super::compare::{Comparison, Summary, compare};
use super::contender::{CONTENDERS, Contender};
use super::overrides;
use super::scenario::{BUILT_IN, Scenario, VARIATIONS};
use crate::model::PolicySettings;
use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use std::io::Write;
use std::process::ExitCode;

/// Runs `flowsim` with the process's arguments. Exit codes: 0 done, 1 failed, 2 wrong usage.
pub fn run() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run_scenario(&arguments),
        Command::List => Ok(list()),
    };
    match done.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "flowsim: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A reader that went away (`| head`) is no failure.
fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

fn run_scenario(arguments: &RunArguments) -> Result<String, String> {
    let mut scenario = Scenario::open(&arguments.scenario)?;
    let mut settings = PolicySettings::default();
    for assignment in &arguments.set {
        overrides::apply(assignment, &mut settings, &mut scenario.node)?;
    }
    let contenders: Result<Vec<_>, _> = arguments.policy.iter().map(|name| Contender::named(name, &settings)).collect();
    let comparison = compare(&scenario, &contenders?, arguments.seeds);
    if !arguments.json {
        return Ok(comparison_table(&comparison));
    }
    let json =
        serde_json::to_string(&comparison).map_err(|error| format!("cannot write the result as JSON: {error}"))?;
    Ok(json + "\n")
}

fn comparison_table(comparison: &Comparison) -> String {
    let fair = comparison.policies.iter().find(|(name, _)| name == "fair").map(|(_, summary)| summary);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["policy", "completion", "p95", "to 95 % quality", "makespan", "worst vs fair", "faster"]);
    for (name, summary) in &comparison.policies {
        let seconds = |of: fn(&Summary) -> f64| with_change(of(summary), fair.filter(|_| name != "fair").map(of));
        table.add_row([
            name.clone(),
            seconds(|summary| summary.mean_completion_s),
            seconds(|summary| summary.p95_completion_s),
            seconds(|summary| summary.mean_t95_s),
            seconds(|summary| summary.makespan_s),
            format!("{:+.1} %", 100.0 * summary.worst_vs_fair),
            format!("{:.1}", summary.jobs_faster),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let (name, seeds) = (&comparison.scenario, comparison.seeds);
    format!("{name}, means over {seeds} seeds, seconds; in brackets: against fair\n{table}\n")
}

fn with_change(seconds: f64, fair: Option<f64>) -> String {
    match fair {
        Some(fair) => format!("{seconds:.1} ({:+.1} %)", 100.0 * (seconds / fair - 1.0)),
        None => format!("{seconds:.1}"),
    }
}

fn list() -> String {
    let mut text = String::from("scenarios (built in)\n");
    for name in BUILT_IN {
        text += &format!("  {name}\n");
    }
    text += "endings of a scenario's name; they combine\n";
    for (ending, meaning) in VARIATIONS {
        text += &format!("  {:<16} {meaning}\n", format!("-{ending}"));
    }
    text += "policies\n";
    for (name, meaning) in CONTENDERS {
        text += &format!("  {name:<16} {meaning}\n");
    }
    text
}
