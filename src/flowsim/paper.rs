//! The command `flowsim paper`: published figures beside simulated ones.

use crate::output::{self, write_whole};
use clap::{Args, ValueEnum};
use papers::{Evaluation, Row};
use std::path::PathBuf;

/// `flowsim paper`.
#[derive(Args)]
pub(crate) struct PaperArguments {
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
pub(crate) enum Paper {
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

/// Runs `flowsim paper` and returns its output.
///
/// # Errors
/// A page that cannot be written, tables that cannot be read, or a plan that breaks a rule.
pub(crate) fn run(arguments: &PaperArguments) -> Result<String, String> {
    let all = [Paper::Flowcon, Paper::Specon, Paper::Procon, Paper::Dragon, Paper::Thesis];
    let wanted = if arguments.paper == Paper::All { &all[..] } else { &[arguments.paper] };
    let evaluations: Result<Vec<_>, _> = wanted.iter().map(|paper| evaluate(*paper, arguments)).collect();
    let evaluations = evaluations?;
    match &arguments.html {
        Some(path) => write_whole(path, papers::html(&evaluations, arguments.seeds).as_bytes()).map(|()| String::new()),
        None => Ok(evaluations.iter().map(text).collect::<Vec<_>>().join("\n")),
    }
}

fn evaluate(paper: Paper, arguments: &PaperArguments) -> Result<Evaluation, String> {
    let seeds = arguments.seeds;
    match paper {
        Paper::Flowcon | Paper::All => Ok(papers::flowcon(seeds)),
        Paper::Specon => papers::specon(seeds),
        Paper::Procon => papers::procon(seeds),
        Paper::Dragon => papers::dragon(seeds),
        Paper::Thesis => papers::thesis(seeds),
        Paper::Pollux => papers::pollux(&arguments.tables),
    }
}

fn text(evaluation: &Evaluation) -> String {
    let Evaluation { title, base, assumed, honest, default, schedules, rows, notes } = evaluation;
    let titles = ["schedule", "figure", "published", "assumed", "honest", "default"];
    let cells = |row: &Row| {
        let Row { source, what, published, assumed, honest, default } = row.clone();
        vec![source, what.to_owned(), published, assumed, honest, default]
    };
    let table = output::table(&titles, titles.len(), rows.iter().map(cells));
    let notes: String = notes.iter().map(|note| format!("- {note}\n")).collect();
    format!(
        "{title}\nChanges against {base}; means over {schedules} schedules (range of 80 % of them).\n\
         assumed: {assumed}\nhonest: {honest}\ndefault: {default}\n{table}\nNot reproduced, and why\n{notes}"
    )
}
