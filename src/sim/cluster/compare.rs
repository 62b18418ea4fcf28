//! Comparison of cluster policies on the same schedules, averaged over seeds.
//!
//! The baseline is plain Swarm: spread placement, plain sharing on the nodes. It is always run, since the largest loss is measured against
//! it.

use super::scenario::ClusterScenario;
use super::submission::Submission;
use super::variant::ClusterVariant;
use super::world::{ClusterOutcome, Costs, simulate};
use crate::compare::each_seed;
use model::PolicySettings;
use serde::{Serialize, Serializer};

/// Name of the baseline.
const BASE: &str = "swarm";

/// Result of one policy: means over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClusterSummary {
    /// Mean seconds from a job's submission to its end.
    pub mean_completion_s: f64,
    /// Mean seconds from a job's submission to 95 % of its true final improvement.
    pub mean_t95_s: f64,
    /// Seconds from the first submission to the last end.
    pub makespan_s: f64,
    /// Largest ratio of a job's completion time to that under the baseline, minus 1.
    pub worst_vs_base: f64,
    /// Number of moves.
    pub moves: f64,
}

/// Results of one comparison; as JSON, the output of `flowsim cluster --json`.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterComparison {
    /// The scenario's name.
    pub scenario: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of schedules drawn.
    pub seeds: u64,
    /// In the requested order.
    #[serde(serialize_with = "as_map")]
    pub policies: Vec<(String, ClusterSummary)>,
    /// Result under the baseline, even if it was not requested.
    #[serde(skip)]
    pub base: ClusterSummary,
}

fn as_map<S: Serializer>(policies: &[(String, ClusterSummary)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(policies.iter().map(|(name, summary)| (name, summary)))
}

/// Runs every variant on `seeds` schedules from `first_seed` on.
///
/// # Errors
/// A plan that breaks a rule, or jobs that can never start.
pub fn compare(
    scenario: &ClusterScenario,
    variants: &[ClusterVariant],
    first_seed: u64,
    seeds: u64,
    move_s: f64,
) -> Result<ClusterComparison, String> {
    let base = ClusterVariant::named(BASE, &PolicySettings::default())?;
    let by_seed = each_seed(seeds, |seed| {
        let seed = first_seed + seed;
        let submissions = scenario.draw(seed);
        let run = |variant: &ClusterVariant| run(scenario, variant, &submissions, move_s, seed);
        let of_base = run(&base)?;
        let each =
            variants.iter().map(|variant| if variant.name == base.name { Ok(of_base.clone()) } else { run(variant) });
        let each: Result<Vec<ClusterOutcome>, String> = each.collect();
        let each = each?.iter().map(|outcome| ClusterSummary::of(outcome, &of_base)).collect();
        Ok::<(ClusterSummary, Vec<ClusterSummary>), String>((ClusterSummary::of(&of_base, &of_base), each))
    });
    let mut comparison = ClusterComparison {
        scenario: scenario.name.clone(),
        nodes: scenario.nodes,
        seeds,
        policies: variants.iter().map(|variant| (variant.name.clone(), ClusterSummary::default())).collect(),
        base: ClusterSummary::default(),
    };
    for of_seed in by_seed {
        let (base, each) = of_seed?;
        comparison.base.add(&base, 1.0 / seeds as f64);
        for ((_, sum), summary) in comparison.policies.iter_mut().zip(each) {
            sum.add(&summary, 1.0 / seeds as f64);
        }
    }
    Ok(comparison)
}

/// Runs one schedule under one policy.
///
/// # Errors
/// As for [`compare`].
pub fn run(
    scenario: &ClusterScenario,
    variant: &ClusterVariant,
    submissions: &[Submission],
    move_s: f64,
    seed: u64,
) -> Result<ClusterOutcome, String> {
    let costs = Costs { move_s, plan_every_s: scenario.plan_every_s, ..Costs::default() };
    simulate(scenario.nodes, scenario.node, submissions, variant, costs, seed)
        .map_err(|error| format!("{}, policy {}, seed {seed}: {error}", scenario.name, variant.name))
}

impl ClusterSummary {
    /// Computes the results of one schedule, relative to the baseline on the same schedule.
    pub fn of(outcome: &ClusterOutcome, base: &ClusterOutcome) -> ClusterSummary {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let ratios = outcome.completions_s.iter().zip(&base.completions_s).map(|(one, base)| one / base);
        ClusterSummary {
            mean_completion_s: mean(&outcome.completions_s),
            mean_t95_s: mean(&outcome.qualities_s),
            makespan_s: outcome.makespan_s,
            worst_vs_base: ratios.fold(f64::NEG_INFINITY, f64::max) - 1.0,
            moves: outcome.moves as f64,
        }
    }

    fn add(&mut self, other: &ClusterSummary, part: f64) {
        self.mean_completion_s += part * other.mean_completion_s;
        self.mean_t95_s += part * other.mean_t95_s;
        self.makespan_s += part * other.makespan_s;
        self.worst_vs_base += part * other.worst_vs_base;
        self.moves += part * other.moves;
    }
}
