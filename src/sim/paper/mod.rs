//! `flowsim paper`: published figures beside simulated ones.
//!
//! Each figure is simulated three times: the published policy under its paper's assumptions (`assumed`), the same policy under neutral
//! assumptions (`honest`), and the default policy under those (`default`). Figures that cannot be reproduced stay in the table, with the
//! reason below it. Imports: model, policy, chart.

mod cluster;
mod flowcon;
mod page;
mod pollux;
mod testbed;
mod thesis;

use crate::sim::compare::Change;
use crate::sim::output::write_whole;
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use std::path::PathBuf;

/// Part of the speed that each further competing job costs, where a paper's figures require that jobs slow each other down.
const CONTENTION: f64 = 0.03;

/// `flowsim paper`.
#[derive(Args)]
pub struct PaperArguments {
    /// The paper to repeat.
    pub paper: Paper,
    /// Number of schedules to draw.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// Directory with the tables of Pollux's artifact: pollux_workloads.csv, pollux_throughput.csv and pollux_published_jct.csv.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub tables: PathBuf,
    /// Writes an HTML page instead of printing tables.
    #[arg(long, value_name = "PATH")]
    pub html: Option<PathBuf>,
}

/// The papers whose evaluation can be repeated.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// All of the following except pollux.
    All,
    /// FlowCon: three fixed, five, ten and fifteen random jobs on one node.
    Flowcon,
    /// SpeCon: moves of converged jobs, on four and eight nodes.
    Specon,
    /// ProCon: placement of new jobs where they contend least, on four and seven nodes.
    Procon,
    /// Weighted DRAGON: a queue with gangs, and jobs that scale.
    Dragon,
    /// A thesis on deadlines and the cost of rented GPU nodes.
    Thesis,
    /// Pollux: the Tiresias baseline of its artifact, from its published tables (needs --tables, so "all" leaves it out).
    Pollux,
}

/// One published figure with the simulated ones.
#[derive(Clone, Debug)]
struct Row {
    /// The schedule and its parameters.
    source: String,
    /// The measured quantity.
    what: &'static str,
    /// The published figure.
    published: String,
    /// The published policy under its paper's assumptions.
    assumed: String,
    /// The published policy under neutral assumptions.
    honest: String,
    /// The default policy under neutral assumptions.
    default: String,
}

/// One paper's figures.
struct Evaluation {
    title: &'static str,
    /// The baseline of the changes.
    base: &'static str,
    /// The meanings of the columns.
    assumed: &'static str,
    honest: &'static str,
    default: &'static str,
    /// Number of schedules in each mean.
    schedules: u64,
    rows: Vec<Row>,
    /// The figures that are not reproduced, with the reasons.
    notes: &'static [&'static str],
}

/// Runs `flowsim paper` and returns its output.
///
/// # Errors
/// A page that cannot be written, tables that cannot be read, or a plan that breaks a rule.
pub fn run(arguments: &PaperArguments) -> Result<String, String> {
    let all = [Paper::Flowcon, Paper::Specon, Paper::Procon, Paper::Dragon, Paper::Thesis];
    let wanted = if arguments.paper == Paper::All { &all[..] } else { &[arguments.paper] };
    let evaluations: Result<Vec<_>, _> = wanted.iter().map(|paper| evaluate(*paper, arguments)).collect();
    let evaluations = evaluations?;
    match &arguments.html {
        Some(path) => write_whole(path, page::html(&evaluations, arguments.seeds).as_bytes()).map(|()| String::new()),
        None => Ok(evaluations.iter().map(text).collect::<Vec<_>>().join("\n")),
    }
}

fn evaluate(paper: Paper, arguments: &PaperArguments) -> Result<Evaluation, String> {
    let seeds = arguments.seeds;
    match paper {
        Paper::Flowcon | Paper::All => Ok(flowcon::evaluate(seeds)),
        Paper::Specon => cluster::specon(seeds),
        Paper::Procon => cluster::procon(seeds),
        Paper::Dragon => cluster::dragon(seeds),
        Paper::Thesis => thesis::evaluate(seeds),
        Paper::Pollux => pollux::evaluate(&arguments.tables),
    }
}

fn text(evaluation: &Evaluation) -> String {
    let Evaluation { title, base, assumed, honest, default, schedules, rows, notes } = evaluation;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["schedule", "figure", "published", "assumed", "honest", "default"]);
    for row in rows.iter().cloned() {
        table.add_row([row.source, row.what.to_owned(), row.published, row.assumed, row.honest, row.default]);
    }
    let notes: String = notes.iter().map(|note| format!("- {note}\n")).collect();
    format!(
        "{title}\nChanges against {base}; means over {schedules} schedules (range of 80 % of them).\n\
         assumed: {assumed}\nhonest: {honest}\ndefault: {default}\n{table}\n\nNot reproduced, and why\n{notes}"
    )
}

/// Mean of changes over schedules, and the range of 80 % of them.
fn mean_and_range(mut changes: Vec<f64>) -> String {
    changes.sort_by(f64::total_cmp);
    let at = |part: f64| Change(changes[((changes.len() - 1) as f64 * part).round() as usize]);
    let mean = Change(changes.iter().sum::<f64>() / changes.len() as f64);
    format!("{mean} ({} … {})", at(0.1), at(0.9))
}
