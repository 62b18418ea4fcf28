//! The evaluations of SpeCon and ProCon: moving and placing jobs on several nodes.
//!
//! As in the papers, jobs on a node slow each other down ([`CONTENTION`]), and a move costs [`QUICK_MOVE_S`]. The sizes of jobs are not
//! published: those of each schedule are such that its baseline takes about as long as published ([`Published::speed`]).

use super::{CONTENTION, Evaluation, Experiment, Pair, Row, Run, faster, spread};
use model::{Millis, PolicySettings};
use sim::cluster::{ClusterOutcome, ClusterScenario, ClusterVariant, Costs, Stay, Submission, simulate};
use sim::compare::each_seed;
use sim::random::Stream;

/// Seconds of a move, as measured by SpeCon.
const QUICK_MOVE_S: f64 = 5.0;

/// Random stream of the nodes on which jobs start.
const FIRST_NODES: u64 = 1 << 40;

/// A quantity, and its value over schedules as text.
pub(super) type Measure = (&'static str, fn(&[Pair]) -> String);

/// A quantity, and its published value.
pub(super) type Figure = (Measure, &'static str);

/// A published schedule.
pub(super) struct Published {
    pub scenario: &'static str,
    /// Its description in the paper.
    pub source: String,
    /// Speed of the cores at which the assumed baseline takes about as long as published.
    pub speed: f64,
    pub figures: Vec<Figure>,
}

/// The node on which a job starts.
#[derive(Clone, Copy)]
pub(super) enum FirstNode {
    /// As the policy decides.
    Chosen,
    /// The nodes in turn.
    InTurn,
    /// At random.
    Drawn,
}

/// One side of a comparison.
#[derive(Clone)]
pub(super) struct Side {
    pub variant: ClusterVariant,
    pub first_node: FirstNode,
    /// Whether the number of a job's workers may change.
    pub is_elastic: bool,
}

impl Side {
    pub(super) fn named(name: &str) -> Result<Side, String> {
        let variant = ClusterVariant::named(name, &PolicySettings::default())?;
        Ok(Side { variant, first_node: FirstNode::Chosen, is_elastic: true })
    }

    fn starting(self, first_node: FirstNode) -> Side {
        Side { first_node, ..self }
    }

    /// Draws the jobs of one seed.
    fn submissions(&self, scenario: &ClusterScenario, seed: u64) -> Vec<Submission> {
        let mut nodes = Stream::new(seed, FIRST_NODES);
        let mut submissions = scenario.draw(seed);
        for (number, Submission { first_node, workers, .. }) in submissions.iter_mut().enumerate() {
            *first_node = match self.first_node {
                FirstNode::Chosen => None,
                FirstNode::InTurn => Some(number % scenario.nodes),
                FirstNode::Drawn => Some(nodes.below(scenario.nodes)),
            };
            if !self.is_elastic {
                (workers.min, workers.max) = (workers.initial, workers.initial);
            }
        }
        submissions
    }

    fn simulate(&self, scenario: &ClusterScenario, move_s: f64, seed: u64) -> Result<ClusterOutcome, String> {
        let costs = Costs { move_s, plan_every_s: scenario.plan_every_s, ..Costs::default() };
        simulate(scenario.nodes, scenario.node, &self.submissions(scenario, seed), &self.variant, costs, seed)
    }

    fn run(&self, scenario: &ClusterScenario, move_s: f64, seed: u64) -> Result<Run, String> {
        let outcome = self.simulate(scenario, move_s, seed)?;
        let contention_s = (0..scenario.nodes).map(|node| contention_s(&outcome.stays, node)).collect();
        Ok(Run { completions_s: outcome.completions_s, makespan_s: outcome.makespan_s, contention_s })
    }
}

/// ProCon's contention rate of a node over a whole run: ∫ (running jobs − 1) dt while any runs.
fn contention_s(stays: &[Stay], node: usize) -> f64 {
    let mut spans: Vec<(f64, f64)> = stays.iter().filter(|stay| stay.node == node).map(|stay| stay.span_s).collect();
    spans.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut busy_s, mut busy_to, mut sum_s) = (0.0, f64::NEG_INFINITY, 0.0);
    for (from, to) in spans {
        sum_s += to - from;
        busy_s += (to - from.max(busy_to)).max(0.0);
        busy_to = busy_to.max(to);
    }
    sum_s - busy_s
}

/// The sides of a column, and its assumptions.
pub(super) struct Column<'s> {
    pub base: &'s Side,
    pub after: &'s Side,
    pub contention: f64,
    pub move_s: f64,
}

impl<'s> Column<'s> {
    pub(super) fn assumed(base: &'s Side, after: &'s Side) -> Column<'s> {
        Column { base, after, contention: CONTENTION, move_s: QUICK_MOVE_S }
    }

    /// Competitors cost each other nothing, and a move takes as long as the simulator assumes.
    pub(super) fn neutral(base: &'s Side, after: &'s Side) -> Column<'s> {
        Column { base, after, contention: 0.0, move_s: Costs::default().move_s }
    }

    fn pairs(&self, published: &Published, seeds: u64) -> Result<Vec<Pair>, String> {
        let mut scenario = ClusterScenario::open(published.scenario, None)?;
        (scenario.node.contention, scenario.node.speed) = (self.contention, published.speed);
        let pair = |seed| {
            let run = |side: &Side| side.run(&scenario, self.move_s, seed);
            Ok(Pair { base: run(self.base)?, after: run(self.after)? })
        };
        each_seed(seeds, pair).into_iter().collect()
    }
}

/// Simulates a schedule in the columns `assumed`, `honest` and `default`.
pub(super) fn rows(published: &Published, columns: &[Column<'_>; 3], seeds: u64) -> Result<Vec<Row>, String> {
    let [assumed, honest, default] = columns.each_ref().map(|column| column.pairs(published, seeds));
    let experiment = Experiment { assumed: assumed?, honest: honest?, default: default? };
    let row = |&((what, of), figure): &Figure| experiment.row(published.source.clone(), what, figure, of);
    Ok(published.figures.iter().map(row).collect())
}

pub(super) const MEAN: Measure = ("mean completion", |pairs| spread(pairs, Pair::mean));
pub(super) const MAKESPAN: Measure = ("makespan", |pairs| spread(pairs, Pair::makespan));
const BEST: Measure = ("best job", |pairs| spread(pairs, Pair::best));
const WORST: Measure = ("worst job", |pairs| spread(pairs, Pair::worst));
const FASTER: Measure = ("jobs faster", faster);
const PART: Measure = ("part of jobs faster", |pairs| {
    let parts: Vec<f64> = pairs.iter().map(Pair::faster).collect();
    format!("{:.1} %", 100.0 * super::mean(&parts))
});
const GAIN: Measure = ("mean of faster jobs", |pairs| spread(pairs, Pair::mean_of_faster));
const LOSS: Measure = ("mean of other jobs", |pairs| spread(pairs, Pair::mean_of_others));
const CONTENTION_SPREAD: Measure = ("spread of contention", |pairs| spread(pairs, Pair::contention_spread));

pub(super) fn published(scenario: &'static str, source: &str, speed: f64, figures: &[Figure]) -> Published {
    Published { scenario, source: source.to_owned(), speed, figures: figures.to_vec() }
}

/// Evaluates SpeCon over `seeds` schedules.
pub fn specon(seeds: u64) -> Result<Evaluation, String> {
    let (spread, default) = (Side::named("swarm")?, Side::named("default")?);
    let (in_turn, specon) = (spread.clone().starting(FirstNode::InTurn), Side::named("specon-plain")?);
    let simulate = |published: &Published, specon: Side| {
        let moving = specon.clone().starting(FirstNode::InTurn);
        let columns =
            [Column::assumed(&in_turn, &moving), Column::neutral(&spread, &specon), Column::neutral(&spread, &default)];
        rows(published, &columns, seeds)
    };
    let mut all = Vec::new();
    for published in specon_schedules() {
        all.extend(simulate(&published, specon.clone())?);
    }
    for (threshold, interval_s, part, mean, best, makespan) in TABLE_III {
        let figures = [(PART, part), (MEAN, mean), (BEST, best), (MAKESPAN, makespan)];
        let source = format!("20 VAE in 300 s, α {threshold:.2}, {interval_s} s");
        let mut specon = specon.clone();
        specon.variant.cluster.specon_threshold = threshold;
        specon.variant.cluster.specon_interval = Millis::from_secs(interval_s);
        specon.variant.interval = Millis::from_secs(interval_s);
        all.extend(simulate(&published("specon-vae", &source, 1.0, &figures), specon)?);
    }
    Ok(Evaluation {
        title: "SpeCon: moving converged jobs",
        base: "plain sharing on the nodes without moves",
        assumed: "SpeCon; new jobs go to the nodes in turn, each further competitor costs 3 % of the speed, and a move takes 5 s",
        honest: "SpeCon; new jobs go where the fewest are, competitors cost each other nothing, and a move takes 10 s",
        default: "least added completion, moves that shorten the mean completion, governed nodes; otherwise as honest",
        schedules: seeds,
        rows: all,
        notes: SPECON_NOTES,
    })
}

fn specon_schedules() -> [Published; 4] {
    [
        published(
            "specon-fixed",
            "20 jobs every 50 s, 4 nodes",
            1.0,
            &[
                (FASTER, "11 of 20"),
                (MEAN, "-14.7 %"),
                (BEST, "-37.6 %"),
                (GAIN, "-26.7 %"),
                (LOSS, "+8.1 %"),
                (MAKESPAN, "-5.6 %"),
            ],
        ),
        published(
            "specon-20x4",
            "20 jobs in 300 s, 4 nodes",
            0.56,
            &[(FASTER, "15 of 20"), (MEAN, "-13.6 %"), (BEST, "-31.6 %"), (MAKESPAN, "-24.7 %")],
        ),
        published(
            "specon-30x4",
            "30 jobs in 600 s, 4 nodes",
            0.75,
            &[
                (FASTER, "18 of 30"),
                (MEAN, "-7.6 %"),
                (BEST, "-28.8 %"),
                (GAIN, "-15.1 %"),
                (LOSS, "+10.6 %"),
                (MAKESPAN, "-14.8 %"),
            ],
        ),
        published(
            "specon-50x8",
            "50 jobs in 1200 s, 8 nodes",
            0.53,
            &[(FASTER, "30 of 50"), (MEAN, "-7.2 %"), (BEST, "-41.5 %"), (MAKESPAN, "-11.1 %")],
        ),
    ]
}

/// Table III: α, seconds between two categorisations, part of jobs faster, and changes of mean completion, best job and makespan.
const TABLE_III: [(f64, u64, &str, &str, &str, &str); 5] = [
    (0.05, 20, "60.0 %", "-5.7 %", "-29.1 %", "-6.1 %"),
    (0.05, 25, "60.0 %", "-6.8 %", "-27.8 %", "-7.5 %"),
    (0.05, 30, "55.0 %", "-3.2 %", "-21.3 %", "-4.0 %"),
    (0.01, 30, "65.0 %", "-9.6 %", "-31.0 %", "-8.2 %"),
    (0.10, 30, "60.0 %", "-6.4 %", "-23.9 %", "-3.1 %"),
];

const SPECON_NOTES: &[&str] = &[
    "Sizes of jobs are not published. Those here are such that the baseline's makespan is the published one. Its mean completion time is then \
     within about a tenth of the published one, where that is given (30 jobs: 865.7 s; 50 jobs: 596.3 s).",
    "Thirty and fifty jobs: with new jobs on the nodes in turn, however full these are, as section VI-A has it, SpeCon gains more than half of \
     the published mean completion time with thirty jobs, and about as much as published with fifty. With Swarm's placement, which counts the \
     jobs that still run, 2 to 3 % are left.",
    "Twenty jobs within 300 s gain a part of what is published. They are submitted close together, so that nodes are uneven only at the end.",
    "Equal jobs (the fixed schedule and table III): nodes stay nearly even, and a move helps little; in the fixed schedule it costs completion \
     time. SpeCon's curves are not published; those here converge early, like the one in figure 1 of FlowCon. Table III does not say how many \
     jobs there were: its parts of jobs are multiples of 5 %, as with twenty.",
];

/// Evaluates ProCon over `seeds` schedules.
pub fn procon(seeds: u64) -> Result<Evaluation, String> {
    let (spread, default, procon) = (Side::named("swarm")?, Side::named("default")?, Side::named("procon-plain")?);
    let drawn = spread.clone().starting(FirstNode::Drawn);
    let mut all = Vec::new();
    for published in procon_schedules() {
        // In the fixed schedule the published baseline was nearly even: 4 to 6 jobs on each node.
        let is_even = published.scenario == "procon-fixed";
        let assumed = Column::assumed(if is_even { &spread } else { &drawn }, &procon);
        let columns = [assumed, Column::neutral(&spread, &procon), Column::neutral(&spread, &default)];
        all.extend(rows(&published, &columns, seeds)?);
    }
    Ok(Evaluation {
        title: "ProCon: placing new jobs",
        base: "plain sharing on the nodes",
        assumed: "ProCon against nodes drawn at random; each further competitor costs 3 % of the speed",
        honest: "ProCon against the node with the fewest jobs; competitors cost each other nothing",
        default: "least added completion, moves that shorten the mean completion, governed nodes; otherwise as honest",
        schedules: seeds,
        rows: all,
        notes: PROCON_NOTES,
    })
}

fn procon_schedules() -> [Published; 6] {
    [
        published(
            "procon-fixed",
            "20 jobs every 30 s, 4 nodes",
            1.0,
            &[
                (FASTER, "13 of 20"),
                (GAIN, "-7.4 %"),
                (LOSS, "+2.2 %"),
                (CONTENTION_SPREAD, "-93.5 %"),
                (MAKESPAN, "-1.1 %"),
            ],
        ),
        published(
            "procon-20x4",
            "20 jobs in 600 s, 4 nodes",
            0.7,
            &[
                (FASTER, "15 of 20"),
                (MEAN, "-23.0 %"),
                (BEST, "-53.3 %"),
                (WORST, "+227.5 %"),
                (GAIN, "-26.1 %"),
                (CONTENTION_SPREAD, "-82.5 %"),
                (MAKESPAN, "-15.3 %"),
            ],
        ),
        published(
            "procon-30x4",
            "30 jobs in 600 s, 4 nodes",
            0.55,
            &[(FASTER, "18 of 30"), (MEAN, "-11.3 %"), (GAIN, "-34.8 %"), (MAKESPAN, "-36.6 %")],
        ),
        published(
            "procon-40x4",
            "40 jobs in 600 s, 4 nodes",
            0.85,
            &[(FASTER, "26 of 40"), (MEAN, "-10.2 %"), (GAIN, "-22.4 %"), (MAKESPAN, "-28.2 %")],
        ),
        published(
            "procon-30x7",
            "30 jobs in 900 s, 7 nodes",
            0.67,
            &[(FASTER, "19 of 30"), (MEAN, "-14.7 %"), (GAIN, "-31.5 %"), (MAKESPAN, "-21.7 %")],
        ),
        published(
            "procon-60x7",
            "60 jobs in 1200 s, 7 nodes",
            0.45,
            &[(FASTER, "36 of 60"), (MEAN, "-12.9 %"), (GAIN, "-35.9 %"), (MAKESPAN, "-37.4 %")],
        ),
    ]
}

const PROCON_NOTES: &[&str] = &[
    "Random schedules: the published baseline left nodes unused (section VI-D: Worker-2 is idle until 359 s, while Worker-1 has a contention of \
     6323). Nodes drawn at random are as uneven: ProCon reduces the spread of contention by about as much as published. Against them \
     the mean completion time falls by as much as published or more, and the makespan by about as much or more, \
     except with 30 jobs on 4 nodes, where it is half. \
     Against the node with the fewest jobs the mean completion time falls by about 1 % at most, because nodes are nearly even already.",
    "Fixed schedule: the published baseline placed four to six jobs on each node, so the one here is the node with the fewest jobs. Fewer jobs \
     are faster than published, and they gain more; the others lose more, and the makespan gains more.",
    "Sizes of jobs are not published. Those here are such that the baseline's makespan is about the published one.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_baseline_takes_about_as_long_as_published() {
        let specon = [1260.0, 1421.0, 1760.0, 2070.0].map(|makespan_s| (FirstNode::InTurn, makespan_s));
        let procon = [1611.2, 2828.1, 2656.2, 1626.1, 4493.5].map(|makespan_s| (FirstNode::Drawn, makespan_s));
        let fixed = [(FirstNode::Chosen, 1017.1)];
        let schedules = specon_schedules().into_iter().chain(procon_schedules());
        for (schedule, (first_node, published_s)) in schedules.zip(specon.into_iter().chain(fixed).chain(procon)) {
            let base = Side::named("swarm").unwrap().starting(first_node);
            let pairs = Column::assumed(&base, &base).pairs(&schedule, 12).unwrap();
            let makespans: Vec<f64> = pairs.iter().map(|pair| pair.base.makespan_s).collect();
            let makespan_s = super::super::mean(&makespans);
            assert!((makespan_s / published_s - 1.0).abs() < 0.1, "{}: {makespan_s} s", schedule.source);
        }
    }

    #[test]
    fn new_jobs_start_on_the_nodes_in_turn_and_may_move_later() {
        let scenario = ClusterScenario::open("specon-fixed", None).unwrap();
        let side = Side::named("specon-plain").unwrap().starting(FirstNode::InTurn);
        let stays = side.simulate(&scenario, QUICK_MOVE_S, 0).unwrap().stays;
        let first_node = |job| stays.iter().find(|stay| stay.job == job).unwrap().node;
        assert!((0..20).all(|job| first_node(job) == job % 4), "{stays:?}");
        assert!(stays.iter().any(|stay| stay.node != stay.job % 4), "{stays:?}");
    }

    #[test]
    fn contention_counts_the_jobs_beyond_the_first_while_they_run() {
        let stay = |node, from, to| Stay { job: 0, worker: 0, node, span_s: (from, to) };
        let stays = [stay(0, 0.0, 10.0), stay(0, 4.0, 6.0), stay(1, 0.0, 9.0), stay(0, 5.0, 12.0), stay(0, 20.0, 30.0)];
        // Two run for one second, three for one, two for four.
        assert_eq!(contention_s(&stays, 0), 1.0 + 2.0 + 4.0);
        assert_eq!(contention_s(&stays, 1), 0.0);
    }
}
