//! `flowsim paper`: published figures beside simulated ones.
//!
//! Each figure is simulated three times: the published policy under its paper's assumptions (`assumed`), the same policy under neutral
//! assumptions (`honest`), and the default policy under those (`default`). Figures that cannot be reproduced stay in the table, with the
//! reason below it.

mod cluster;
mod flowcon;
mod page;
mod pollux;
mod testbed;
mod thesis;

use crate::compare::Change;
use crate::output::{self, write_whole};
use clap::{Args, ValueEnum};
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

/// One schedule under one policy.
struct Run {
    /// Each job's seconds from start to end.
    completions_s: Vec<f64>,
    makespan_s: f64,
}

/// One schedule under the baseline and under another policy. All figures are relative changes.
struct Pair {
    base: Run,
    after: Run,
}

impl Pair {
    fn mean(&self) -> f64 {
        let sum = |run: &Run| run.completions_s.iter().sum::<f64>();
        Change::between(sum(&self.base), sum(&self.after)).0
    }

    fn makespan(&self) -> f64 {
        Change::between(self.base.makespan_s, self.after.makespan_s).0
    }

    /// Change of each job's completion time.
    fn changes(&self) -> Vec<f64> {
        let each = self.base.completions_s.iter().zip(&self.after.completions_s);
        each.map(|(base, after)| Change::between(*base, *after).0).collect()
    }

    /// Change of the job that gained most.
    fn best(&self) -> f64 {
        self.changes().into_iter().fold(0.0, f64::min)
    }

    /// Change of the job that lost most.
    fn worst(&self) -> f64 {
        self.changes().into_iter().fold(0.0, f64::max)
    }
}

/// Schedules under the three assumptions.
struct Experiment {
    assumed: Vec<Pair>,
    honest: Vec<Pair>,
    default: Vec<Pair>,
}

impl Experiment {
    fn row(&self, source: String, what: &'static str, published: &str, of: impl Fn(&[Pair]) -> String) -> Row {
        let published = published.to_owned();
        let [assumed, honest, default] = [&self.assumed, &self.honest, &self.default].map(|pairs| of(pairs));
        Row { source, what, published, assumed, honest, default }
    }
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

/// Mean of a figure over schedules, and the range of 80 % of them.
fn spread(pairs: &[Pair], of: impl Fn(&Pair) -> f64) -> String {
    mean_and_range(pairs.iter().map(of).collect())
}

/// Mean of changes over schedules, and the range of 80 % of them.
fn mean_and_range(mut changes: Vec<f64>) -> String {
    changes.sort_by(f64::total_cmp);
    let at = |part: f64| Change(changes[((changes.len() - 1) as f64 * part).round() as usize]);
    let mean = Change(changes.iter().sum::<f64>() / changes.len() as f64);
    format!("{mean} ({} … {})", at(0.1), at(0.9))
}
