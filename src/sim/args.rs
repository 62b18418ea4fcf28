//! The command line of `flowsim`.

use super::cluster::ClusterArguments;
use super::deadlines::DeadlinesArguments;
use super::options::ComparisonOptions;
use super::paper::PaperArguments;
use super::trace::{Discipline, Gpus};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Simulates training jobs in virtual time with the product's own policy code.
#[derive(Parser)]
#[command(name = "flowsim", version)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Compares policies on a schedule of jobs on one node.
    Run(RunArguments),
    /// Compares policies for placing and moving jobs on a cluster of nodes.
    Cluster(ClusterArguments),
    /// Runs a trace of jobs on a cluster of GPUs.
    Trace(TraceArguments),
    /// Compares policies for jobs with deadlines on nodes that are rented by the hour.
    Deadlines(DeadlinesArguments),
    /// Repeats evaluations of papers: published figures beside simulated ones.
    Paper(PaperArguments),
    /// Repeats the decisions of a recording and compares them bit for bit.
    Replay(ReplayArguments),
    /// Lists the built-in scenarios, their suffixes, and the policies.
    List,
}

/// `flowsim run`.
#[derive(Args)]
pub(crate) struct RunArguments {
    /// A built-in scenario (see `flowsim list`) or a TOML file.
    pub scenario: String,
    /// Policies to compare, separated by commas; by default fair,flowcon,las,srpt,balanced, and duty-cycle where jobs use a GPU.
    #[arg(long, short, value_delimiter = ',')]
    pub policy: Vec<String>,
    /// Compares all policies.
    #[arg(long, conflicts_with = "policy")]
    pub compare: bool,
    /// Options of every comparison.
    #[command(flatten)]
    pub options: ComparisonOptions,
    /// Records the ticks of the first product policy in the list on seed 0, for `flowsim replay FILE`.
    #[arg(long, value_name = "PATH")]
    pub record: Option<PathBuf>,
}

/// `flowsim trace`.
#[derive(Args)]
pub(crate) struct TraceArguments {
    /// A CSV file with the columns job_id, submit_s, num_gpus, duration_s.
    pub file: PathBuf,
    /// GPUs of the cluster: `64` without placement, `64x8` for 64 nodes of 8, `16x4:v100,32x8:k80` for nodes of several types.
    #[arg(long)]
    pub gpus: Gpus,
    /// A CSV file with the speed of each model on each type: gpu_type, model, num_gpus, steps_per_s (or exec_time_s). The trace then has
    /// the columns model and total_steps in place of duration_s.
    #[arg(long, value_name = "FILE")]
    pub speeds: Option<PathBuf>,
    /// fifo, fjf, shortest (srpt), shortest-gpu, dlas, dlas-gpu (las).
    #[arg(long, short)]
    pub policy: Discipline,
    /// Seconds by which a preempted job runs longer.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub restart_cost: u64,
    /// Prints a CSV line job_id,start_s,end_s for each job instead of a summary.
    #[arg(long)]
    pub per_job: bool,
    /// Writes to this file instead of standard output.
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
}

/// `flowsim replay`.
#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// A recording: JSON lines, written by a daemon or by `flowsim run SCENARIO --record FILE`.
    pub file: PathBuf,
}
