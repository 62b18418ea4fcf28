//! The command line of `flowsim`.
//!
//! Imports: nothing of this crate but names for the help text.

use clap::{Args, Parser, Subcommand};

/// Simulates training jobs on virtual time with the product's own policy code.
#[derive(Parser)]
#[command(name = "flowsim", version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Compares policies on a schedule of jobs on one node.
    Run(RunArguments),
    /// Lists the built-in scenarios, their endings, and the policies.
    List,
}

/// `flowsim run`.
#[derive(Args)]
pub struct RunArguments {
    /// A built-in scenario (see `flowsim list`) or a TOML file.
    pub scenario: String,
    /// Policies to compare, separated by commas.
    #[arg(long, short, value_delimiter = ',', default_value = "fair,flowcon,las,srpt,balanced")]
    pub policy: Vec<String>,
    /// How many schedules to draw; figures are means over them.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// Sets a policy setting or `node.cores`, `node.memory`, `node.contention`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    pub json: bool,
}
