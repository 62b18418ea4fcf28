//! The command `flowsim cluster`.

mod report;

use crate::options::{ComparisonOptions, seconds_up_to};
use crate::{output, overrides};
use clap::Args;
use model::PolicySettings;
use sim::cluster::{ClusterComparison, ClusterScenario, ClusterSummary, ClusterVariant, compare};
use sim::compare::Change;

/// `flowsim cluster`.
#[derive(Args)]
pub(crate) struct ClusterArguments {
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
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub first_seed: u64,
    /// Seconds from a job's stop on one node to its start on another.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds_up_to(1e6))]
    pub move_cost: f64,
    /// Options of every comparison.
    #[command(flatten)]
    pub options: ComparisonOptions,
}

/// Runs `flowsim cluster` and returns its output.
///
/// # Errors
/// An unknown scenario, suffix or policy; an error in the file; jobs that fit no node.
pub(crate) fn run(arguments: &ClusterArguments) -> Result<String, String> {
    let nodes = arguments.nodes.map(|nodes| nodes as usize);
    let mut scenario = ClusterScenario::open(&arguments.scenario, nodes)?;
    let mut settings = PolicySettings::default();
    let options = &arguments.options;
    for assignment in &options.set {
        overrides::apply(assignment, &mut settings, &mut scenario.node)?;
    }
    let variants: Result<Vec<_>, _> =
        arguments.policy.iter().map(|name| ClusterVariant::named(name, &settings)).collect();
    let variants = variants?;
    let ClusterArguments { first_seed, move_cost, .. } = *arguments;
    let comparison = compare(&scenario, &variants, first_seed, options.seeds, move_cost)?;
    if let Some(path) = &options.report {
        let page = report::html(&comparison, &scenario, &variants, move_cost, options.report_seed)?;
        output::write_whole(path, page.as_bytes())?;
    }
    if options.json { output::json(&comparison) } else { Ok(table(&comparison)) }
}

fn table(comparison: &ClusterComparison) -> String {
    let titles = ["policy", "completion", "to 95 % quality", "makespan", "worst vs swarm", "moves"];
    let rows = comparison.policies.iter().map(|(name, summary)| {
        let seconds = |of: fn(&ClusterSummary) -> f64| {
            let (base, after) = (of(&comparison.base), of(summary));
            if base == after { format!("{after:.1}") } else { format!("{after:.1} ({})", Change::between(base, after)) }
        };
        vec![
            name.clone(),
            seconds(|summary| summary.mean_completion_s),
            seconds(|summary| summary.mean_t95_s),
            seconds(|summary| summary.makespan_s),
            Change(summary.worst_vs_base).to_string(),
            format!("{:.1}", summary.moves),
        ]
    });
    let table = output::table(&titles, 1, rows);
    let ClusterComparison { scenario, nodes, seeds, .. } = comparison;
    format!("{scenario}, {nodes} nodes, means over {seeds} seeds, seconds; in brackets: change against swarm\n{table}")
}
