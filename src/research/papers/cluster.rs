//! The evaluations of SpeCon, ProCon and weighted DRAGON: moving, placing and scaling jobs on several nodes.
//!
//! As in the papers, jobs on a node slow each other down ([`CONTENTION`]), and a move costs [`QUICK_MOVE_S`].

use super::{CONTENTION, Evaluation, Experiment, Pair, Row, Run, spread};
use model::PolicySettings;
use model::cluster::QueueRule;
use sim::cluster::{ClusterScenario, ClusterVariant, Costs, simulate};
use sim::compare::each_seed;

/// Seconds of a move, as measured by SpeCon.
const QUICK_MOVE_S: f64 = 5.0;

/// A quantity with its function, and the published figure.
type Figure = (&'static str, fn(&Pair) -> f64, &'static str);

/// A scenario, its description in the paper, and its figures.
type Published = (&'static str, &'static str, Vec<Figure>);

/// Simulates the published policy on contended nodes and on fluid ones, and the default on fluid ones, each against `base`.
fn rows(
    published: &[Published],
    base: &ClusterVariant,
    policy: &ClusterVariant,
    seeds: u64,
) -> Result<Vec<Row>, String> {
    let default = ClusterVariant::named("default", &PolicySettings::default())?;
    let mut rows = Vec::new();
    for (name, source, figures) in published {
        let run = |policy: &ClusterVariant, contention: f64, move_s: f64| {
            pairs(name, base, policy, contention, move_s, seeds)
        };
        let usual = Costs::default().move_s;
        let experiment = Experiment {
            assumed: run(policy, CONTENTION, QUICK_MOVE_S)?,
            honest: run(policy, 0.0, usual)?,
            default: run(&default, 0.0, usual)?,
        };
        rows.extend(figures.iter().map(|&(what, of, published)| {
            experiment.row((*source).to_owned(), what, published, |pairs| spread(pairs, of))
        }));
    }
    Ok(rows)
}

fn pairs(
    name: &str,
    base: &ClusterVariant,
    policy: &ClusterVariant,
    contention: f64,
    move_s: f64,
    seeds: u64,
) -> Result<Vec<Pair>, String> {
    let mut scenario = ClusterScenario::open(name, None)?;
    scenario.node.contention = contention;
    let costs = Costs { move_s, plan_every_s: scenario.plan_every_s, ..Costs::default() };
    let runs = each_seed(seeds, |seed| {
        let submissions = scenario.draw(seed);
        let run = |policy: &ClusterVariant| {
            let outcome = simulate(scenario.nodes, scenario.node, &submissions, policy, costs, seed)?;
            Ok::<Run, String>(Run { completions_s: outcome.completions_s, makespan_s: outcome.makespan_s })
        };
        Ok(Pair { base: run(base)?, after: run(policy)? })
    });
    runs.into_iter().collect()
}

const MEAN: &str = "mean completion";
const MAKESPAN: &str = "makespan";
const BEST: &str = "best job";

fn variant(name: &str) -> Result<ClusterVariant, String> {
    ClusterVariant::named(name, &PolicySettings::default())
}

/// Evaluates SpeCon over `seeds` schedules.
pub fn specon(seeds: u64) -> Result<Evaluation, String> {
    let figures = |mean, best, makespan| -> Vec<Figure> {
        vec![(MEAN, Pair::mean, mean), (BEST, Pair::best, best), (MAKESPAN, Pair::makespan, makespan)]
    };
    let published = [
        ("specon-fixed", "20 jobs every 50 s, 4 nodes", figures("-14.7 %", "-37.6 %", "-5.6 %")),
        ("specon-20x4", "20 jobs in 300 s, 4 nodes", figures("-13.6 %", "-31.6 %", "-24.7 %")),
        ("specon-30x4", "30 jobs in 600 s, 4 nodes", figures("-7.6 %", "-28.8 %", "-14.8 %")),
        ("specon-50x8", "50 jobs in 1200 s, 8 nodes", figures("-7.2 %", "-41.5 %", "-11.1 %")),
    ];
    Ok(Evaluation {
        title: "SpeCon: moving converged jobs",
        base: "Swarm's spread placement with plain sharing on the nodes",
        assumed: "SpeCon on plainly shared nodes; each further competitor costs 3 % of the speed, and a move takes 5 s",
        honest: "SpeCon on plainly shared nodes; competitors cost each other nothing, and a move takes 10 s",
        default: "least added completion, moves that shorten the mean completion, governed nodes; as honest",
        schedules: seeds,
        rows: rows(&published, &variant("swarm")?, &variant("specon-plain")?, seeds)?,
        notes: &[
            "Mean completion: where every node shares its processors evenly, a move helps the jobs that stay only while the target has \
             processors to spare. With spread placement all nodes are about equally full until the last jobs run, so only a few per cent \
             are gained at the end. The published means would need nodes that differ far more than spread placement leaves them.",
            "Makespan: moves even out what is left at the end. The gain depends on the one schedule that was run; the range \
             here covers the smaller of the published figures.",
        ],
    })
}

/// Evaluates ProCon over `seeds` schedules.
pub fn procon(seeds: u64) -> Result<Evaluation, String> {
    let two =
        |mean, makespan| vec![(MEAN, Pair::mean as fn(&Pair) -> f64, mean), (MAKESPAN, Pair::makespan as _, makespan)];
    let mut first = two("-23.0 %", "-15.3 %");
    first.insert(1, (BEST, Pair::best as _, "-53.3 %"));
    let published = [
        ("procon-20x4", "20 jobs in 600 s, 4 nodes", first),
        ("procon-30x4", "30 jobs in 600 s, 4 nodes", two("-11.3 %", "-36.6 %")),
        ("procon-40x4", "40 jobs in 600 s, 4 nodes", two("-10.2 %", "-28.2 %")),
        ("procon-30x7", "30 jobs in 900 s, 7 nodes", two("-14.7 %", "-21.7 %")),
        ("procon-60x7", "60 jobs in 1200 s, 7 nodes", two("-12.9 %", "-37.4 %")),
    ];
    Ok(Evaluation {
        title: "ProCon: placing new jobs",
        base: "Swarm's spread placement with plain sharing on the nodes",
        assumed: "ProCon on plainly shared nodes; each further competitor costs 3 % of the speed",
        honest: "ProCon on plainly shared nodes; competitors cost each other nothing",
        default: "least added completion, moves that shorten the mean completion, governed nodes; as honest",
        schedules: seeds,
        rows: rows(&published, &variant("swarm")?, &variant("procon-plain")?, seeds)?,
        notes: &[
            "Mean completion and makespan: spread placement counts jobs, ProCon estimates for how long they will contend. \
             Where jobs arrive at random and each can use a whole node, both fill the nodes nearly equally, and the only possible gain \
             is from the unevenness of the last jobs. Perfect knowledge of the work ahead gains one to three per cent more on average, so the \
             published gains cannot come from the placement alone. The baseline of the paper, one run of a scheduler based on reserved \
             resources, may have left nodes idle; it is not described in enough detail to be simulated.",
        ],
    })
}

/// Evaluates weighted DRAGON with OASIS over `seeds` schedules.
pub fn dragon(seeds: u64) -> Result<Evaluation, String> {
    let figures = |best| vec![(BEST, Pair::best as fn(&Pair) -> f64, best), (MEAN, Pair::mean as _, "")];
    let published = [
        ("dragon-1", "table II, 3 nodes", figures("-5.06 %")),
        ("dragon-2", "table III, 3 nodes", figures("-35.05 %")),
        ("dragon-3", "table IV, 3 nodes", figures("-22.38 %")),
    ];
    let dragon = variant("dragon")?;
    let mut weighted = dragon.clone();
    "dragon, weighted".clone_into(&mut weighted.name);
    weighted.cluster.queue = QueueRule::Weighted;
    Ok(Evaluation {
        title: "Weighted DRAGON: a queue with gangs and elastic jobs",
        base: "DRAGON",
        assumed: "weights and scaling at once, on plainly shared nodes; each further competitor costs 3 % of the speed",
        honest: "the same; competitors cost each other nothing",
        default: "the same with least added completion, moves that shorten the mean completion, governed nodes; as honest",
        schedules: seeds,
        rows: rows(&published, &dragon, &weighted, seeds)?,
        notes: &[
            "The published figures are the best of several jobs in one run. The mean of all four jobs, which is not published, is shown beside them: \
             the other jobs lose part of what the important job gains.",
            "The gain of weighting alone (6.74 %) is measured between two variants of one implementation that are not described separately.",
        ],
    })
}
