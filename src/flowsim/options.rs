//! Options that several subcommands have.

use clap::Args;
use std::path::PathBuf;

/// Options of a comparison of policies on drawn schedules.
#[derive(Args)]
pub(crate) struct ComparisonOptions {
    /// Number of schedules to draw; results are means over them.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// Sets a policy setting or `node.cores`, `node.memory`, `node.contention`, `node.speed`.
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

/// Parser of seconds from 0 to `most`.
pub(crate) fn seconds_up_to(most: f64) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number: Option<f64> = text.parse().ok().filter(|seconds: &f64| (0.0..=most).contains(seconds));
        number.ok_or_else(|| format!("expected seconds from 0 to {most}"))
    }
}
