//! `flowsim paper`: the headline figures of published systems beside what the simulation gives.
//!
//! Each figure is simulated three times: the published policy under its paper's assumptions (`assumed`), the same under assumptions that
//! favour nobody (`honest`), and our default under those (`default`). What cannot be reproduced stays in the table, with the reason below it.
//! Imports: model, policy, chart.

mod cluster;
mod flowcon;
mod page;
mod pollux;
mod testbed;
mod thesis;

use crate::sim::output::write_whole;
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use std::path::PathBuf;

/// Part of the speed that each further competitor costs where a paper's figures need that jobs disturb each other.
const CONTENTION: f64 = 0.03;

/// `flowsim paper`.
#[derive(Args)]
pub struct PaperArguments {
    /// Which paper.
    pub paper: Paper,
    /// How many schedules to draw.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// Where the tables of Pollux's artifact lie: pollux_workloads.csv, pollux_throughput.csv and pollux_published_jct.csv.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub tables: PathBuf,
    /// Writes a page instead of printing tables.
    #[arg(long, value_name = "PATH")]
    pub html: Option<PathBuf>,
}

/// The papers whose evaluation can be repeated.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// Those below, one after another.
    All,
    /// FlowCon: three fixed, five, ten and fifteen random jobs on one node.
    Flowcon,
    /// SpeCon: converged jobs move, on four and eight nodes.
    Specon,
    /// ProCon: new jobs go where they contend least, on four and seven nodes.
    Procon,
    /// Weighted DRAGON: a queue with gangs, and jobs that grow and shrink.
    Dragon,
    /// A thesis on deadlines and the cost of rented GPU nodes.
    Thesis,
    /// Pollux: the Tiresias baseline of its artifact, from its published tables (not part of all: see --tables).
    Pollux,
}

/// One published figure, and what the simulation gives.
#[derive(Clone, Debug)]
struct Row {
    /// Where it is published, and the parameters.
    source: String,
    /// What was measured.
    what: &'static str,
    /// The published figure.
    published: String,
    /// The published policy under its paper's assumptions.
    assumed: String,
    /// The published policy under honest ones.
    honest: String,
    /// Our default under honest ones.
    default: String,
}

/// One paper's figures.
struct Evaluation {
    title: &'static str,
    /// What changes are against.
    base: &'static str,
    /// What the columns are.
    assumed: &'static str,
    honest: &'static str,
    default: &'static str,
    /// How many schedules a row is the mean of.
    schedules: u64,
    rows: Vec<Row>,
    /// What is not reproduced, and why.
    notes: &'static [&'static str],
}

/// Runs `flowsim paper` and returns what it prints.
///
/// # Errors
/// A page that cannot be written; a plan that must not be carried out.
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
        "{title}\nChanges against {base}; means over {schedules} schedules (range of four fifths).\n\
         assumed: {assumed}\nhonest: {honest}\ndefault: {default}\n{table}\n\nNot reproduced, and why\n{notes}"
    )
}
