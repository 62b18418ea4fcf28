//! The thesis on deadlines and the cost of rented GPU nodes, with instances drawn as its evaluation describes them.

use super::{Evaluation, Row, mean_and_range};
use deadlines::{Instance, Solver, simulate};
use sim::compare::{Change, each_seed};

/// Nodes of the instances, with ten jobs each.
const NODES: [usize; 2] = [10, 30];

/// Randomised constructions per step, as published.
const CONSTRUCTIONS: u64 = 1000;

/// Seconds without progress when a job is moved, stopped or resized, in the runs in which this is not free.
const RESTART_S: f64 = 60.0;

/// Maximum number of schedules of each size, as published: one of 30 nodes takes seconds with randomised constructions.
const SCHEDULES_AT_MOST: u64 = 3;

/// A quantity, its published mean, and for each column the policy and its baseline.
type Figure = (&'static str, &'static str, [&'static str; 3], [&'static str; 3]);

const PUBLISHED: [Figure; 3] = [
    (
        "greedy against EDF",
        "-95.05 %",
        ["greedy-thesis", "greedy-thesis", "greedy"],
        ["edf", "edf-packed", "edf-packed"],
    ),
    ("randomised against EDF", "-95.99 %", ["random", "random", "local"], ["edf", "edf-packed", "edf-packed"]),
    ("randomised against greedy", "-9.56 %", ["random", "random", "local"], ["greedy-thesis"; 3]),
];

fn source(nodes: usize) -> String {
    format!("{nodes} nodes, {} jobs", 10 * nodes)
}

/// Schedules, quantities and published figures of all rows.
#[cfg(test)]
pub(super) fn published() -> Vec<[String; 3]> {
    let rows = |nodes| PUBLISHED.map(|(what, figure, ..)| [source(nodes), what.to_owned(), figure.to_owned()]);
    NODES.into_iter().flat_map(rows).collect()
}

/// A policy, its baseline, and the cost of a restart.
struct Question {
    policy: &'static str,
    base: &'static str,
    restart_s: f64,
}

/// Evaluates `seeds` instances of each size, three at most.
pub fn evaluate(seeds: u64) -> Result<Evaluation, String> {
    let seeds = seeds.min(SCHEDULES_AT_MOST);
    let mut rows = Vec::new();
    for nodes in NODES {
        for (what, figure, policies, bases) in &PUBLISHED {
            let column = |at: usize, restart_s: f64| {
                spread(nodes, seeds, &Question { policy: policies[at], base: bases[at], restart_s })
            };
            rows.push(Row {
                source: source(nodes),
                what,
                published: (*figure).to_owned(),
                assumed: column(0, 0.0)?,
                honest: column(1, RESTART_S)?,
                default: column(2, RESTART_S)?,
            });
        }
    }
    Ok(Evaluation {
        title: "Deadlines and cost: rented GPU nodes",
        base: "the policy named in the row: cost of nodes and of lateness",
        assumed: "the thesis's greedy rule, and the best of 1,000 randomised constructions; its EDF gives each job a node of its own; restarts are free",
        honest: "the same against EDF on shared nodes; a restart costs 60 s",
        default: "flowcon's greedy rule, which prices scarce GPUs, and local search; as honest",
        schedules: seeds,
        rows,
        notes: &[
            "Greedy against EDF: the rule as listed gives a job the cheapest configuration that meets its deadline, otherwise the fastest. \
             Where many jobs are late, it opens the most expensive nodes for jobs that are late anyway, which delays the others. With a \
             price on scarce GPUs the same greedy construction gains as much as published.",
            "Randomised against greedy: constructions are drawn with that price of scarce GPUs, because the thesis leaves the weights of its \
             draws open. The gain over the greedy rule as listed is therefore much larger than published.",
            "Part of each gain over EDF comes from sharing nodes at all: the thesis's EDF gives each job a node of its own. The gain over EDF \
             on shared nodes is the figure that measures the rule.",
            "Instances are drawn here: ten jobs per node, 30,000 s / nodes between two submissions, three of each size. Run times and prices \
             are in the ranges of published instances, which `flowsim deadlines FILE` reads.",
            "Times of one step depend on the machine: `cargo bench --bench deadlines` prints them beside the published ones.",
        ],
    })
}

/// Mean change of the cost over the instances, and the range of 80 % of them.
fn spread(nodes: usize, seeds: u64, question: &Question) -> Result<String, String> {
    let changes: Result<Vec<f64>, String> = each_seed(seeds, |seed| {
        let instance = Instance::drawn(nodes, seed);
        let cost = |policy: &str| {
            let solver =
                Solver { policy: policy.parse()?, constructions: CONSTRUCTIONS, controllers: 1, seed, threads: 1 };
            let outcome = simulate(&instance, &solver, question.restart_s)?;
            Ok::<f64, String>(outcome.vm_cost + outcome.tardiness_cost)
        };
        Ok(Change::between(cost(question.base)?, cost(question.policy)?).0)
    })
    .into_iter()
    .collect();
    Ok(mean_and_range(changes?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pricing_scarce_gpus_beats_the_listed_rule_and_both_baselines() {
        let gain = |policy, base, restart_s| {
            let text = spread(4, 3, &Question { policy, base, restart_s }).unwrap();
            text.split(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(gain("greedy", "edf", 0.0) < -80.0);
        assert!(gain("greedy", "edf-packed", RESTART_S) < -20.0);
        assert!(gain("greedy", "greedy-thesis", 0.0) < -50.0);
    }
}
