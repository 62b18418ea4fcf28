//! The command `flowsim run`: policies on a schedule of jobs on one node.

use crate::options::ComparisonOptions;
use crate::output::{json, table, write_whole};
use crate::report::{self, SimulationReport};
use crate::{overrides, replay};
use clap::Args;
use model::PolicySettings;
use sim::compare::{Change, Comparison, PolicyRuns, Summary, compare};
use sim::scenario::Scenario;
use sim::variant::{Decider, VARIANTS, Variant};
use sim::{Keep, simulate};
use std::path::PathBuf;

/// The policies that are compared by default.
const BY_DEFAULT: [&str; 5] = ["fair", "flowcon", "las", "srpt", "balanced"];

/// Those that are compared where jobs waste CPU beside each other.
const WITH_WASTE: [&str; 3] = ["fair", "no-turns", "balanced"];

/// `flowsim run`.
#[derive(Args)]
pub(crate) struct RunArguments {
    /// A built-in scenario (see `flowsim list`) or a TOML file.
    pub scenario: String,
    /// Policies to compare, separated by commas; by default fair,flowcon,las,srpt,balanced, and duty-cycle where jobs use a GPU;
    /// fair,no-turns,balanced where threads wait for each other.
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

/// Runs `flowsim run` and returns its output.
///
/// # Errors
/// An unknown scenario, policy or setting; a file that cannot be read or written.
pub(crate) fn run(arguments: &RunArguments) -> Result<String, String> {
    let mut scenario = Scenario::open(&arguments.scenario)?;
    let mut settings = PolicySettings::default();
    let options = &arguments.options;
    for assignment in &options.set {
        overrides::apply(assignment, &mut settings, &mut scenario.node)?;
    }
    let variants: Result<Vec<_>, _> =
        policy_names(arguments, &scenario).into_iter().map(|name| Variant::named(name, &settings)).collect();
    let variants = variants?;
    if let Some(path) = &arguments.record {
        write_whole(path, recording(&scenario, &variants)?.as_bytes())?;
    }
    let comparison = compare(&scenario, &variants, options.seeds);
    if let Some(path) = &options.report {
        let report = SimulationReport::of_seed(&scenario, &variants, &comparison, options.report_seed);
        write_whole(path, report::html(&report).as_bytes())?;
    }
    if options.json { json(&comparison) } else { Ok(comparison_table(&comparison)) }
}

fn policy_names<'a>(arguments: &'a RunArguments, scenario: &Scenario) -> Vec<&'a str> {
    if arguments.compare {
        return VARIANTS.iter().map(|(name, _)| *name).collect();
    }
    if arguments.policy.is_empty() {
        if scenario.draw(0).iter().any(|job| job.plan.waste > 0.0) {
            return WITH_WASTE.to_vec();
        }
        let duty_cycle = scenario.uses_gpus().then_some("duty-cycle");
        return BY_DEFAULT.into_iter().chain(duty_cycle).collect();
    }
    arguments.policy.iter().map(String::as_str).collect()
}

fn recording(scenario: &Scenario, variants: &[Variant]) -> Result<String, String> {
    let governed = variants.iter().find_map(|variant| match &variant.decider {
        Decider::Governor(settings) => Some((variant, settings)),
        Decider::Rule(_) => None,
    });
    let (variant, settings) = governed
        .ok_or("--record: only product policies have ticks to record; add flowcon, balanced, completion or quality")?;
    let keep = Keep { recording: true, ..Keep::default() };
    replay::write(settings, simulate(&scenario.node, &scenario.draw(0), variant, keep).recording)
}

fn comparison_table(comparison: &Comparison) -> String {
    let mut titles = vec!["policy", "completion", "p95", "to 95 % quality", "makespan", "worst vs fair", "faster"];
    let is_sweep = comparison.fair.best_trial_s.is_some();
    if is_sweep {
        titles.extend(["best trial", "within 2 % of it"]);
    }
    let rows = comparison.policies.iter().map(|PolicyRuns { name, summary, .. }| {
        let fair = Some(&comparison.fair).filter(|_| name != "fair");
        let seconds = |of: fn(&Summary) -> f64| with_change(of(summary), fair.map(of));
        let mut row = vec![
            name.clone(),
            seconds(|summary| summary.mean_completion_s),
            seconds(|summary| summary.p95_completion_s),
            seconds(|summary| summary.mean_t95_s),
            seconds(|summary| summary.makespan_s),
            Change(summary.worst_vs_fair).to_string(),
            format!("{:.1}", summary.jobs_faster),
        ];
        if is_sweep {
            row.push(seconds(|summary| summary.best_trial_s.unwrap_or(f64::NAN)));
            row.push(seconds(|summary| summary.near_best_s.unwrap_or(f64::NAN)));
        }
        row
    });
    let table = table(&titles, 1, rows);
    let (name, seeds) = (&comparison.scenario, comparison.seeds);
    format!("{name}, means over {seeds} seeds, seconds; in brackets: change against fair\n{table}")
}

fn with_change(seconds: f64, fair: Option<f64>) -> String {
    match fair {
        Some(fair) => format!("{seconds:.1} ({})", Change::between(fair, seconds)),
        None => format!("{seconds:.1}"),
    }
}
