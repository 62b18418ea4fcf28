//! The command `flowsim forecasts`: how right the times left are that users see.

use crate::output::{json, table};
use clap::Args;
use model::PolicySettings;
use sim::forecasts::accuracy;
use sim::scenario::Scenario;
use sim::variant::Variant;

/// `flowsim forecasts`.
#[derive(Args)]
pub(crate) struct ForecastsArguments {
    /// A built-in scenario (see `flowsim list`) or a TOML file.
    pub scenario: String,
    /// The product policy whose forecasts are judged.
    #[arg(long, short, default_value = "balanced")]
    pub policy: String,
    /// Number of schedules: seeds 0 to SEEDS − 1.
    #[arg(long, default_value_t = 20)]
    pub seeds: u64,
    /// Prints one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs `flowsim forecasts` and returns its output.
///
/// # Errors
/// An unknown scenario or policy, or one that forecasts nothing.
pub(crate) fn run(arguments: &ForecastsArguments) -> Result<String, String> {
    let scenario = Scenario::open(&arguments.scenario)?;
    let variant = Variant::named(&arguments.policy, &PolicySettings::default())?;
    let nothing = || format!("{}: {} forecasts no time left", arguments.scenario, arguments.policy);
    let found = accuracy(&scenario, &variant, arguments.seeds).ok_or_else(nothing)?;
    if arguments.json {
        return json(&found);
    }
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let row = vec![
        found.forecasts.to_string(),
        percent(found.inside),
        percent(found.error_at_half),
        percent(found.error_at_half_by_rate),
    ];
    let titles = ["FORECASTS", "IN 80 % RANGE", "ERROR AT HALF", "ERROR BY RATE"];
    Ok(table(&titles, 0, std::iter::once(row)))
}
