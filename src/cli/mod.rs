//! The command line: arguments, commands, tables. Each command is a file with its arguments and a `run`.

mod train;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "flowctl", version, about)]
struct Flowctl {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one of the built-in trainings.
    #[command(hide = true)]
    Train(train::TrainArgs),
}

/// Runs `flowctl` with the process's arguments.
pub fn run() -> ExitCode {
    let outcome = match Flowctl::parse().command {
        Command::Train(args) => train::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flowctl: {error}");
            ExitCode::FAILURE
        }
    }
}
