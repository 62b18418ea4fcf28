//! The command `flowsim cluster`.
//!
//! Imports: model.

use super::compare::{ClusterComparison, ClusterSummary, compare};
use super::report;
use super::scenario::ClusterScenario;
use super::variant::ClusterVariant;
use crate::model::PolicySettings;
use crate::sim::compare::Change;
use crate::sim::output::write_whole;
use crate::sim::overrides;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use std::path::PathBuf;

/// `flowsim cluster`.
#[derive(Args)]
pub struct ClusterArguments {
    /// A built-in scenario (see `flowsim list`), with the suffixes for schedules of one node, or a scenario file.
    pub scenario: String,
    /// Policies to compare, separated by commas (see `flowsim list`).
    #[arg(
        long,
        short,
        value_delimiter = ',',
        default_value = "swarm,procon-plain,specon-plain,spread,procon,specon,default"
    )]
    pub policy: Vec<String>,
    /// Number of nodes, instead of the scenario's (a file: 4).
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Option<u32>,
    /// Number of schedules to draw; results are means over them.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub first_seed: u64,
    /// Seconds from a job's stop on one node to its start on another.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub move_cost: f64,
    /// Sets a setting of the nodes' policy, or `node.cores`, `node.memory`, `node.contention`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Writes an HTML report with charts of one seed.
    #[arg(long, value_name = "PATH")]
    pub report: Option<PathBuf>,
    /// The seed that the report's charts show.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "report")]
    pub report_seed: u64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok().filter(|seconds: &f64| (0.0..=1e6).contains(seconds));
    number.ok_or_else(|| "expected seconds from 0 to 1000000".to_owned())
}

/// Runs `flowsim cluster` and returns its output.
///
/// # Errors
/// An unknown scenario, suffix or policy; an error in the file; jobs that fit no node.
pub fn run(arguments: &ClusterArguments) -> Result<String, String> {
    let nodes = arguments.nodes.map(|nodes| nodes as usize);
    let mut scenario = ClusterScenario::open(&arguments.scenario, nodes)?;
    let mut settings = PolicySettings::default();
    for assignment in &arguments.set {
        overrides::apply(assignment, &mut settings, &mut scenario.node)?;
    }
    let variants: Result<Vec<_>, _> =
        arguments.policy.iter().map(|name| ClusterVariant::named(name, &settings)).collect();
    let variants = variants?;
    let ClusterArguments { first_seed, seeds, move_cost, .. } = *arguments;
    let comparison = compare(&scenario, &variants, first_seed, seeds, move_cost)?;
    if let Some(path) = &arguments.report {
        let page = report::html(&comparison, &scenario, &variants, move_cost, arguments.report_seed)?;
        write_whole(path, page.as_bytes())?;
    }
    if !arguments.json {
        return Ok(table(&comparison));
    }
    let json =
        serde_json::to_string(&comparison).map_err(|error| format!("cannot write the result as JSON: {error}"))?;
    Ok(json + "\n")
}

fn table(comparison: &ClusterComparison) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["policy", "completion", "to 95 % quality", "makespan", "worst vs swarm", "moves"]);
    for (name, summary) in &comparison.policies {
        let seconds = |of: fn(&ClusterSummary) -> f64| {
            let (base, after) = (of(&comparison.base), of(summary));
            if base == after { format!("{after:.1}") } else { format!("{after:.1} ({})", Change::between(base, after)) }
        };
        table.add_row([
            name.clone(),
            seconds(|summary| summary.mean_completion_s),
            seconds(|summary| summary.mean_t95_s),
            seconds(|summary| summary.makespan_s),
            Change(summary.worst_vs_base).to_string(),
            format!("{:.1}", summary.moves),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let ClusterComparison { scenario, nodes, seeds, .. } = comparison;
    format!(
        "{scenario}, {nodes} nodes, means over {seeds} seeds, seconds; in brackets: change against swarm\n{table}\n"
    )
}
