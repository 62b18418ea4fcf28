//! The command line of `flowsim`: each subcommand reads its input, runs and returns the text to print.
//!
//! The simulator itself is [`sim`], with the same policy code as the daemon. What only repeats the work of others is in the crates below
//! `research`, and this is the only crate that may use them: [`papers`], [`traces`] and [`deadlines`](::deadlines).

mod cluster;
mod deadlines;
mod forecasts;
mod list;
mod options;
mod output;
mod overrides;
mod paper;
mod replay;
mod report;
mod run;
mod trace;

use clap::{CommandFactory, Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;
use term::exit;

/// Simulates training jobs in virtual time with the product's own policy code.
#[derive(Parser)]
#[command(name = "flowsim", version)]
struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
enum Command {
    /// Compares policies on a schedule of jobs on one node.
    Run(run::RunArguments),
    /// Compares policies for placing and moving jobs on a cluster of nodes.
    Cluster(cluster::ClusterArguments),
    /// Compares the forecasts of the time left of each job with the ends that followed.
    Forecasts(forecasts::ForecastsArguments),
    /// Runs a trace of jobs on a cluster of GPUs.
    Trace(trace::TraceArguments),
    /// Compares policies for jobs with deadlines on nodes that are rented by the hour.
    Deadlines(deadlines::DeadlinesArguments),
    /// Repeats evaluations of papers: published figures beside simulated ones.
    Paper(paper::PaperArguments),
    /// Repeats the decisions of a recording and compares them bit for bit.
    Replay(replay::ReplayArguments),
    /// Lists the built-in scenarios, their suffixes, and the policies.
    List,
}

/// Returns the command line, for the manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `flowsim` with the process's arguments. Exit codes: 0 success, 1 failure, 2 wrong usage.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(rejection) => return exit::rejected("flowsim", &rejection),
    };
    let done = match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Forecasts(arguments) => forecasts::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Deadlines(arguments) => deadlines::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::List => Ok(list::list()),
    };
    match done.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "flowsim: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A closed pipe (`| head`) is not an error.
fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}
