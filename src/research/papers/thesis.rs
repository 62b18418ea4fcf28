//! The thesis on deadlines and the cost of rented GPU nodes, with instances drawn as its evaluation describes them.

use super::{Evaluation, Row, mean_and_range};
use deadlines::{Drawn, GAP_S, Instance, LOOSE, PUBLISHED, Solver, TIGHT, simulate};
use sim::compare::{Change, each_seed};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Sizes of the instances in nodes, with ten jobs each; the largest takes longest, so it is first.
const NODES: [usize; 10] = [100, 90, 80, 70, 60, 50, 40, 30, 20, 10];

/// The sizes nearest to those of which a mean of the randomised policy is published: 55 to 75 nodes.
const MIDDLE: [usize; 2] = [60, 70];

/// Seconds between two submissions to a node where these vary, and the nodes of those instances.
const GAPS_S: [f64; 5] = [1_000.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0];
const GAPS_NODES: usize = 10;

/// Other ranges of deadlines, as multiples of a job's shortest run time.
const OTHER_SLACKS: [f64; 4] = [TIGHT, PUBLISHED, 6.0, 8.0];

/// Randomised constructions per step on ten nodes and on as many as have the fewest; published are 1000.
const CONSTRUCTIONS: u64 = 100;
const FEWEST_CONSTRUCTIONS: u64 = 4;

/// Local controllers of the hierarchical method; their number is not published.
const CONTROLLERS: usize = 4;

/// Seconds without progress when a job is moved, stopped or resized, in the runs in which this is not free.
const RESTART_S: f64 = 60.0;

/// Maximum number of schedules of each size, as published.
const SCHEDULES_AT_MOST: u64 = 3;

/// A policy, its baseline, and the cost of a restart.
type Question = (&'static str, &'static str, f64);

/// A quantity, and what it compares in each column.
#[derive(Clone, Copy)]
struct Figure {
    what: &'static str,
    columns: [Question; 3],
}

impl Figure {
    /// Compares a policy with the thesis's rule, and with ours in the last column, with the baseline of each column. Restarts are free in the
    /// first.
    const fn of(what: &'static str, [thesis, ours]: [&'static str; 2], bases: [&'static str; 3]) -> Figure {
        let [free, restarted, default] = bases;
        Figure { what, columns: [(thesis, free, 0.0), (thesis, restarted, RESTART_S), (ours, default, RESTART_S)] }
    }
}

/// Policies with the thesis's rule and with ours, and baselines by column.
const GREEDY: [&str; 2] = ["greedy-thesis", "greedy"];
const RANDOM: [&str; 2] = ["random-thesis", "random"];
const HIERARCHICAL: [&str; 2] = ["hierarchical-thesis", "hierarchical"];
const EDF: [&str; 3] = ["edf", "edf-packed", "edf-packed"];
const BY_GREEDY: [&str; 3] = ["greedy-thesis", "greedy-thesis", "greedy"];

const GREEDY_EDF: Figure = Figure::of("greedy against EDF", GREEDY, EDF);
const GREEDY_FIFO: Figure = Figure::of("greedy against FIFO", GREEDY, ["fifo"; 3]);
const GREEDY_PS: Figure = Figure::of("greedy against PS", GREEDY, ["priority"; 3]);
const RANDOM_EDF: Figure = Figure::of("randomised against EDF", RANDOM, EDF);
const RANDOM_GREEDY: Figure = Figure::of("randomised against greedy", RANDOM, BY_GREEDY);
const HIERARCHICAL_GREEDY: Figure = Figure::of("hierarchical against greedy", HIERARCHICAL, BY_GREEDY);

/// The means of which the thesis gives the numbers, over schedules of different density.
const VARYING: [(Figure, &str); 3] = [(GREEDY_EDF, "-95.05 %"), (RANDOM_EDF, "-95.99 %"), (RANDOM_GREEDY, "-9.56 %")];
/// For each size; the thesis shows these in figures without numbers.
const OF_SIZE: [Figure; 5] = [GREEDY_FIFO, GREEDY_EDF, GREEDY_PS, RANDOM_GREEDY, HIERARCHICAL_GREEDY];
/// With other deadlines and with the in-house servers.
const OTHER: [Figure; 2] = [GREEDY_EDF, RANDOM_GREEDY];
const OTHER_CONSTRUCTIONS: u64 = 25;
/// Means over sizes.
const RANDOM_AT_MIDDLE: &str = "-3 %";
const HIERARCHICAL_AT_ALL: &str = "+15 %";

/// Sources of the means.
const DIFFERENT_GAPS: &str = "10 nodes, 1,000 … 40,000 s";
const MIDDLE_SIZES: &str = "60 and 70 nodes, 30,000 s";
const ALL_SIZES: &str = "10 … 100 nodes, 30,000 s";

/// The paper, schedules, quantities and published figures of all rows that have one.
#[cfg(test)]
pub(super) fn published() -> [[String; 4]; 5] {
    let [greedy, random, both] =
        VARYING.map(|(figure, published)| (DIFFERENT_GAPS, figure, published, &[GAPS_NODES][..]));
    let middle = (MIDDLE_SIZES, RANDOM_GREEDY, RANDOM_AT_MIDDLE, &MIDDLE[..]);
    let all = (ALL_SIZES, HIERARCHICAL_GREEDY, HIERARCHICAL_AT_ALL, &NODES[..]);
    [greedy, random, both, middle, all].map(|(schedule, figure, published, nodes)| {
        let schedule = named(schedule, &figure, nodes.iter().map(|nodes| constructions(*nodes)));
        ["Deadlines and cost".to_owned(), schedule, figure.what.to_owned(), published.to_owned()]
    })
}

/// Evaluates `seeds` instances of each size, three at most.
pub fn evaluate(seeds: u64) -> Result<Evaluation, String> {
    let seeds = seeds.min(SCHEDULES_AT_MOST);
    let mut rows = Vec::new();
    let with_gaps = |slack: f64, constructions: u64, figures: &[Figure]| {
        let drawn = |gap_s| Drawn { nodes: GAPS_NODES, gap_s, slack, in_house: false };
        let case = |gap_s| Case { drawn: drawn(gap_s), constructions, figures: figures.to_vec() };
        costs(&GAPS_S.map(case), seeds)
    };
    let all = with_gaps(LOOSE, CONSTRUCTIONS, &VARYING.map(|(figure, _)| figure))?;
    rows.extend(VARYING.iter().map(|(figure, change)| row(DIFFERENT_GAPS, figure, change, &all)));
    let (shortest, others): (Vec<Costs>, Vec<Costs>) = all.into_iter().partition(|one| one.drawn.gap_s == GAPS_S[0]);
    rows.push(row("10 nodes, 1,000 s", &RANDOM_GREEDY, "", &shortest));
    rows.push(row("10 nodes, 10,000 … 40,000 s", &RANDOM_GREEDY, "", &others));
    for slack in OTHER_SLACKS {
        let all = with_gaps(slack, OTHER_CONSTRUCTIONS, &OTHER)?;
        let source = format!("{DIFFERENT_GAPS}, deadlines up to {slack} times");
        rows.extend(OTHER.iter().map(|figure| row(&source, figure, "", &all)));
    }
    let size = |nodes: usize, in_house: bool, figures: &[Figure]| {
        let drawn = Drawn { nodes, gap_s: GAP_S, slack: LOOSE, in_house };
        Case { drawn, constructions: constructions(nodes), figures: figures.to_vec() }
    };
    let all = costs(&NODES.map(|nodes| size(nodes, false, &OF_SIZE)), seeds)?;
    let of = |nodes: &[usize]| all.iter().filter(|one| nodes.contains(&one.drawn.nodes)).cloned().collect::<Vec<_>>();
    rows.push(row(MIDDLE_SIZES, &RANDOM_GREEDY, RANDOM_AT_MIDDLE, &of(&MIDDLE)));
    rows.push(row(ALL_SIZES, &HIERARCHICAL_GREEDY, HIERARCHICAL_AT_ALL, &all));
    for nodes in NODES.iter().rev() {
        let own = of(&[*nodes]);
        rows.extend(OF_SIZE.iter().map(|figure| row(&format!("{nodes} nodes, 30,000 s"), figure, "", &own)));
    }
    let in_house = costs(&[size(GAPS_NODES, true, &OTHER)], seeds)?;
    rows.extend(OTHER.iter().map(|figure| row("10 nodes, 30,000 s, in-house servers too", figure, "", &in_house)));
    Ok(described(seeds, rows))
}

/// The section with these rows, of that many schedules.
pub(super) fn described(schedules: u64, rows: Vec<Row>) -> Evaluation {
    Evaluation {
        title: "Deadlines and cost: rented GPU nodes",
        base: "the policy named in the row: cost of nodes and of lateness",
        assumed: "the thesis's rule; its FIFO, EDF and PS give each job a node of its own; restarts are free",
        honest: "the same; EDF shares nodes; a restart costs 60 s",
        default: "flowcon's greedy rule, which prices scarce GPUs, also for the randomised one; otherwise as honest",
        schedules,
        rows,
        notes: NOTES,
    }
}

/// Instances of one kind, and what is compared on them.
struct Case {
    drawn: Drawn,
    constructions: u64,
    figures: Vec<Figure>,
}

/// The cost of an instance under each policy, by the policy and whether restarts cost time.
#[derive(Clone)]
struct Costs {
    drawn: Drawn,
    constructions: u64,
    of: BTreeMap<(&'static str, bool), f64>,
}

impl Costs {
    /// Runs every policy that the figures compare once.
    fn simulated(case: &Case, seed: u64) -> Result<Costs, String> {
        let Case { drawn, constructions, ref figures } = *case;
        let instance = Instance::drawn(drawn, seed);
        let mut of = BTreeMap::new();
        for (policy, base, restart_s) in figures.iter().flat_map(|figure| figure.columns) {
            for name in [policy, base] {
                if let Entry::Vacant(entry) = of.entry((name, restart_s > 0.0)) {
                    let solver =
                        Solver { policy: name.parse()?, constructions, controllers: CONTROLLERS, seed, threads: 1 };
                    let outcome = simulate(&instance, &solver, restart_s)?;
                    entry.insert(outcome.vm_cost + outcome.tardiness_cost);
                }
            }
        }
        Ok(Costs { drawn, constructions, of })
    }

    fn change(&self, (policy, base, restart_s): Question) -> f64 {
        let cost = |name| self.of[&(name, restart_s > 0.0)];
        Change::between(cost(base), cost(policy)).0
    }
}

/// The costs of `seeds` instances of each case, under the policies of its figures.
fn costs(cases: &[Case], seeds: u64) -> Result<Vec<Costs>, String> {
    let one = |number: u64| Costs::simulated(&cases[(number / seeds) as usize], number % seeds);
    each_seed(cases.len() as u64 * seeds, one).into_iter().collect()
}

fn row(source: &str, figure: &Figure, published: &str, costs: &[Costs]) -> Row {
    let column = |question| mean_and_range(costs.iter().map(|one| one.change(question)).collect());
    let [assumed, honest, default] = figure.columns.map(column);
    let source = named(source, figure, costs.iter().map(|one| one.constructions));
    Row { source, what: figure.what, published: published.to_owned(), assumed, honest, default }
}

/// The name of the instances of a row, with the constructions per step if it is on a method that has some.
fn named(source: &str, figure: &Figure, constructions: impl Iterator<Item = u64>) -> String {
    let is_random = figure.columns.iter().any(|(policy, ..)| !BY_GREEDY.contains(policy));
    let range = constructions.fold((u64::MAX, 0), |(least, most), one| (one.min(least), one.max(most)));
    match range {
        _ if !is_random => source.to_owned(),
        (least, most) if least == most => format!("{source}, {most} constructions"),
        (least, most) => format!("{source}, {least} … {most} constructions"),
    }
}

fn constructions(nodes: usize) -> u64 {
    let nodes = nodes as u64;
    (CONSTRUCTIONS * 100 / (nodes * nodes)).clamp(FEWEST_CONSTRUCTIONS, CONSTRUCTIONS)
}

const NOTES: &[&str] = &[
    "Deadlines are not published. The factor 5 (up to 5 times a job's shortest run time after its submission) was chosen because greedy against \
     EDF then fits the published figure: that row is fitted, not predicted. The rows with 2.5, 3, 6 and 8 times show what depends on it; up to 3 \
     times is what the instances have that the thesis's group published with its simulator.",
    "Randomised against greedy misses the published -9.56 %. It depends on how many jobs are late, and so on the factor: the published figure \
     lies between those with 3 and with 5 times, and with 6 and 8 times hardly anything is gained where restarts are free. With 5 times nearly \
     all of it comes from the shortest time between submissions, 1,000 s, and there from one of the three instances; at 10,000 s and more \
     greedy's plan is hardly ever improved. So the published -3 % of 55 to 75 nodes is not reproduced either, with 4 constructions.",
    "A price on scarce GPUs (default) gains most where deadlines are tight: with 2.5 times the thesis's rule costs more than EDF on shared nodes \
     (honest). With 5 times and 30,000 s the price gains more up to 50 nodes, and somewhat less from 60 on. The coordinator tries both \
     rules, and takes what costs less to the end of all jobs, or by its estimate if there are many jobs.",
    "Part of each gain over EDF comes from sharing nodes at all: FIFO, EDF and PS give each job a node of its own, as section 4.2 says. EDF on \
     shared nodes is in the columns honest and default.",
    "Hierarchical: the thesis does not say how many controllers it had; here there are four. It says both that costs are the same \
     (figure 4.5) and that the gain is -15 % (figure 4.6), in a sentence that names the randomised method, below a figure that names greedy. Here \
     costs are about the same where restarts are free.",
    "Instances: the node types of table 4.1 and the two largest of the text, with the in-house servers in the rows that name them. The thesis has \
     no run times, on any node. Those here are drawn: on one K80 and on several GPUs in the ranges of the table that its group published with \
     its simulator, with differences between the four networks as section 4.1 describes them. That table has AlexNet alone, and on in-house \
     servers all networks are drawn like it.",
    "What was run: three instances of each kind, as published, with one seed where the thesis has 10 seeds, and as many constructions per step as \
     the row says, where the thesis has 1,000 constructions.",
    "Times: 14 minutes for the monolithic model, 40 s for the hierarchical one, and 0.0038 s, 3.04 s and 3.15 s for greedy, randomised and local \
     search are times of other programs on another machine. `cargo bench --bench deadlines` measures such steps here.",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean change of the cost on three small instances.
    fn gain(question: Question, slack: f64) -> f64 {
        gain_on(4, question, slack)
    }

    fn gain_on(nodes: usize, question: Question, slack: f64) -> f64 {
        let drawn = Drawn { nodes, gap_s: GAP_S, slack, in_house: false };
        let case =
            Case { drawn, constructions: CONSTRUCTIONS, figures: vec![Figure { what: "", columns: [question; 3] }] };
        let costs = costs(&[case], 3).unwrap();
        super::super::mean(&costs.iter().map(|one| one.change(question)).collect::<Vec<_>>())
    }

    #[test]
    fn the_thesis_rule_gains_as_published_with_loose_deadlines_only() {
        assert!((-1.0..-0.93).contains(&gain(("greedy-thesis", "edf", 0.0), LOOSE)));
        assert!((-0.07..0.01).contains(&gain(("random-thesis", "greedy-thesis", 0.0), LOOSE)));
        assert!(gain(("greedy-thesis", "edf", 0.0), TIGHT) > -0.6);
    }

    #[test]
    fn the_randomised_method_gains_with_tight_deadlines_and_the_hierarchical_one_costs_as_much_with_loose_ones() {
        assert!(gain(("random-thesis", "greedy-thesis", 0.0), TIGHT) < -0.15);
        assert!(gain_on(10, ("hierarchical-thesis", "greedy-thesis", 0.0), LOOSE).abs() < 0.05);
    }

    #[test]
    fn with_tight_deadlines_pricing_scarce_gpus_beats_the_listed_rule_and_both_baselines() {
        assert!(gain(("greedy", "edf", 0.0), TIGHT) < -0.8);
        assert!(gain(("greedy", "edf-packed", RESTART_S), TIGHT) < -0.2);
        assert!(gain(("greedy", "greedy-thesis", 0.0), TIGHT) < -0.5);
    }
}
