//! Cluster scenarios: nodes and a schedule of submissions, either built in or read from a scenario file.
//!
//! `procon-JxN` and `specon-JxN` are the papers' schedules of J jobs on N nodes: random trainings as in `random-N` of `flowsim run`,
//! submitted uniformly within the paper's time. `specon-fixed` and `procon-fixed` are the papers' fixed schedules: 20 equal trainings, one
//! every 50 s and 30 s; `specon-vae` are 20 equal ones within 300 s. `dragon-1` to `dragon-4` are the job tables II to V of weighted DRAGON on
//! three nodes of 8 cores. `demo-12x3` has the trainings of `flowcoord demo`, to be run with `--set interval=2s --move-cost 5`. `scale-10000`
//! is a day of 10,000 nodes.

use super::submission::Submission;
use crate::job::JobPlan;
use crate::random::Stream;
use crate::scenario::{
    FIGURE_1_RATE, NodeShape, SCHEDULE_STREAM, Scenario, Variations, drawn, exponential, job, random_job, split,
};
use model::cluster::{Priority, Resources, WorkerRange};
use model::{Bytes, ProgressUnit};

/// A random schedule: its name, number of jobs, number of nodes, and the seconds within which the jobs are submitted.
struct Random(&'static str, usize, usize, f64);

const RANDOM: [Random; 8] = [
    Random("procon-20x4", 20, 4, 600.0),
    Random("procon-30x4", 30, 4, 600.0),
    Random("procon-40x4", 40, 4, 600.0),
    Random("procon-30x7", 30, 7, 900.0),
    Random("procon-60x7", 60, 7, 1200.0),
    Random("specon-20x4", 20, 4, 300.0),
    Random("specon-30x4", 30, 4, 600.0),
    Random("specon-50x8", 50, 8, 1200.0),
];

/// The built-in scenarios.
pub const CLUSTER_SCENARIOS: [&str; 17] = [
    "procon-20x4",
    "procon-30x4",
    "procon-40x4",
    "procon-30x7",
    "procon-60x7",
    "procon-fixed",
    "specon-fixed",
    "specon-vae",
    "specon-20x4",
    "specon-30x4",
    "specon-50x8",
    "dragon-1",
    "dragon-2",
    "dragon-3",
    "dragon-4",
    "demo-12x3",
    "scale-10000",
];

/// A day of 10,000 nodes: ten jobs per node, most of them submitted around noon. Together they are five sixths of a day's work, so that in
/// the afternoon the nodes are overloaded.
const SCALE: (usize, usize, f64) = (10_000, 10, 86_400.0);
const SCALE_SIZE_NODE_S: (f64, f64) = (600.0, 28_800.0);

/// A schedule of equal jobs on four nodes: its name, and its jobs.
struct Equal(&'static str, EqualJobs);

/// Their number, how they are submitted, and the node-CPU-seconds of each.
#[derive(Clone, Copy, Debug)]
struct EqualJobs(usize, Submitted, f64);

#[derive(Clone, Copy, Debug)]
enum Submitted {
    /// One each so many seconds.
    Every(f64),
    /// At random within so many seconds.
    Within(f64),
}

/// At these sizes plain sharing comes near the published completion times: 275 s in SpeCon's fixed schedule, whose VAE is that of the random
/// one too, and 470 s in ProCon's.
const EQUAL: [Equal; 3] = [
    Equal("specon-fixed", EqualJobs(20, Submitted::Every(50.0), 215.0)),
    Equal("specon-vae", EqualJobs(20, Submitted::Within(300.0), 215.0)),
    Equal("procon-fixed", EqualJobs(20, Submitted::Every(30.0), 170.0)),
];

/// The trainings of `flowcoord demo` for each node: kind, part of the work that a node can do in a run, number of epochs, and whether their
/// logs print it; the command claims it otherwise. They arrive evenly over three tenths of a run, in random order; the work of those of one
/// kind differs by 15 %.
const DEMO: [(&str, f64, f64, bool); 4] =
    [("vae", 0.52, 159.0, false), ("gru", 0.20, 36.0, true), ("mlp", 0.16, 27.0, true), ("softmax", 0.12, 72.0, false)];
const DEMO_CORES: f64 = 0.375;
const DEMO_LENGTH_S: f64 = 90.0;
const DEMO_LAST_ARRIVAL: f64 = 0.3;
const DEMO_SPREAD: f64 = 0.15;
/// Core-seconds of their starts.
const DEMO_START: f64 = 0.2;

/// Default number of nodes for a scenario file.
const FILE_NODES: usize = 4;

/// Seconds that a worker takes to start in DRAGON, also each time the number of workers changes.
const DRAGON_START_S: f64 = 5.0;
/// Maximum, minimum and initial workers, cores and GiB of each worker, and priority of a job in DRAGON.
type DragonJob = (u32, u32, u32, f64, u64, f64);
/// Seconds between two submissions in DRAGON.
const DRAGON_GAP_S: f64 = 10.0;
/// Core-seconds of each of its trainings, which all run the same program.
const DRAGON_WORK: f64 = 1800.0;
const DRAGON_NODE: (f64, u64) = (8.0, 30);
const DRAGON: [&[DragonJob]; 4] = [
    &[(4, 1, 2, 1.0, 2, 1.0), (6, 2, 2, 2.0, 4, 1.0), (6, 1, 2, 2.0, 4, 1.0), (6, 2, 2, 3.0, 6, 100.0)],
    &[(4, 1, 2, 1.0, 2, 1.0), (6, 2, 2, 1.0, 2, 1.0), (6, 1, 2, 1.0, 2, 1.0), (6, 2, 2, 1.0, 2, 100.0)],
    &[(4, 1, 2, 3.0, 6, 1.0), (6, 2, 2, 3.0, 6, 1.0), (6, 1, 2, 3.0, 6, 1.0), (6, 2, 2, 3.0, 6, 100.0)],
    &[
        (4, 2, 4, 2.0, 4, 1.0),
        (4, 2, 4, 2.0, 4, 1.0),
        (4, 1, 2, 2.0, 4, 1.0),
        (4, 1, 2, 3.0, 6, 1.0),
        (4, 2, 3, 2.0, 4, 1.0),
        (4, 2, 2, 2.0, 4, 1.0),
        (6, 2, 2, 2.0, 4, 1.0),
        (6, 1, 1, 2.0, 4, 1.0),
        (4, 2, 2, 2.0, 4, 1.0),
        (4, 2, 2, 4.0, 8, 1.0),
        (4, 3, 3, 2.0, 4, 1.0),
        (4, 3, 3, 2.0, 4, 1.0),
    ],
];

/// Nodes and their submissions.
#[derive(Clone, Debug)]
pub struct ClusterScenario {
    /// Name given by the user.
    pub name: String,
    /// Shape of each node.
    pub node: NodeShape,
    /// Number of nodes.
    pub nodes: usize,
    /// Least seconds between two plans.
    pub plan_every_s: f64,
    schedule: Schedule,
    variations: Variations,
}

#[derive(Clone, Debug)]
enum Schedule {
    /// Number of random trainings, and the seconds within which they are submitted.
    Random(usize, f64),
    Equal(EqualJobs),
    Dragon(usize),
    Demo,
    /// Jobs per node.
    Scale(usize),
    File(Box<Scenario>),
}

impl ClusterScenario {
    /// Opens the built-in scenario of that name, or the scenario file at that path, on `nodes` nodes or as many as the scenario has.
    ///
    /// # Errors
    /// Lists the known names, or describes the error in the file.
    pub fn open(name_or_path: &str, nodes: Option<usize>) -> Result<ClusterScenario, String> {
        let mut scenario = match ClusterScenario::built_in(name_or_path)? {
            Some(scenario) => scenario,
            None => ClusterScenario::file(name_or_path)?,
        };
        scenario.nodes = nodes.unwrap_or(scenario.nodes);
        Ok(scenario)
    }

    /// Returns `None` if the name does not start with that of a built-in scenario.
    fn built_in(name: &str) -> Result<Option<ClusterScenario>, String> {
        let Some((begin, variations)) = split(name, &CLUSTER_SCENARIOS)? else { return Ok(None) };
        let node = NodeShape::default();
        let random = RANDOM.iter().find(|random| random.0 == begin);
        let equal = EQUAL.iter().find(|equal| equal.0 == begin);
        let (nodes, node, plan_every_s, schedule) = match (random, equal) {
            (Some(Random(_, jobs, nodes, within_s)), _) => (*nodes, node, 0.0, Schedule::Random(*jobs, *within_s)),
            (_, Some(Equal(_, jobs))) => (4, node, 0.0, Schedule::Equal(*jobs)),
            _ if begin == "demo-12x3" => (3, NodeShape { cores: DEMO_CORES, ..node }, 0.0, Schedule::Demo),
            _ => match begin.strip_prefix("dragon-") {
                None => (SCALE.0, node, 60.0, Schedule::Scale(SCALE.1)),
                table => {
                    let table = table.and_then(|number| number.parse().ok()).unwrap_or(1_usize) - 1;
                    let (cores, gib) = DRAGON_NODE;
                    let node = NodeShape { cores, memory: Bytes(gib << 30), ..node };
                    (3, node, 0.0, Schedule::Dragon(table))
                }
            },
        };
        Ok(Some(ClusterScenario { name: name.to_owned(), node, nodes, plan_every_s, schedule, variations }))
    }

    fn file(path: &str) -> Result<ClusterScenario, String> {
        if !std::path::Path::new(path).exists() {
            let names = CLUSTER_SCENARIOS.join(", ");
            return Err(format!("{path}: neither a built-in scenario nor a file; expected one of {names}"));
        }
        let scenario = Scenario::open(path)?;
        Ok(ClusterScenario {
            name: scenario.name.clone(),
            node: scenario.node,
            nodes: FILE_NODES,
            plan_every_s: 0.0,
            schedule: Schedule::File(Box::new(scenario)),
            variations: Variations::default(),
        })
    }

    /// Draws the submissions of one seed, sorted by time.
    pub fn draw(&self, seed: u64) -> Vec<Submission> {
        let mut draws = Stream::new(seed, SCHEDULE_STREAM);
        let mut submissions: Vec<Submission> = match &self.schedule {
            Schedule::File(scenario) => scenario.draw(seed).into_iter().map(Submission::alone).collect(),
            Schedule::Dragon(table) => self.dragon(*table, seed, &mut draws),
            Schedule::Random(jobs, within_s) => {
                let plan = |number| random_job(number, *within_s, &self.node, &mut draws);
                let plans = (0..*jobs).map(plan).collect();
                self.alone(plans, seed)
            }
            Schedule::Equal(EqualJobs(jobs, submitted, size)) => {
                let curve = || exponential(545.0, 104.0, FIGURE_1_RATE, 0.005);
                let mut plan = |number: usize| {
                    let size = size * draws.uniform(0.97, 1.03);
                    let start_s = match submitted {
                        Submitted::Every(gap_s) => gap_s * number as f64,
                        Submitted::Within(within_s) => draws.uniform(0.0, *within_s),
                    };
                    job(&format!("{}-vae", number + 1), &self.node, start_s, size, 60, curve())
                };
                let plans = (0..*jobs).map(&mut plan).collect();
                self.alone(plans, seed)
            }
            Schedule::Demo => self.demo(seed, &mut draws),
            Schedule::Scale(per_node) => {
                let mut plan = |number: usize| {
                    let mut plan = random_job(number, 0.5 * SCALE.2, &self.node, &mut draws);
                    plan.start_s += draws.uniform(0.0, 0.5 * SCALE.2);
                    plan.work = draws.log_uniform(SCALE_SIZE_NODE_S.0, SCALE_SIZE_NODE_S.1) * self.node.cores;
                    plan.units = (plan.units / 8).clamp(10, 50);
                    plan
                };
                let plans = (0..self.nodes * per_node).map(&mut plan).collect();
                self.alone(plans, seed)
            }
        };
        submissions.sort_by(|a, b| a.job.plan.start_s.total_cmp(&b.job.plan.start_s));
        submissions
    }

    fn alone(&self, mut plans: Vec<JobPlan>, seed: u64) -> Vec<Submission> {
        self.variations.apply(&mut plans, &self.node, seed);
        drawn(plans, &self.node, seed).into_iter().map(Submission::alone).collect()
    }

    fn demo(&self, seed: u64, draws: &mut Stream) -> Vec<Submission> {
        let mut trainings: Vec<(usize, usize)> =
            (0..DEMO.len()).flat_map(|kind| (0..self.nodes).map(move |node| (kind, node))).collect();
        for last in (1..trainings.len()).rev() {
            trainings.swap(last, draws.below(last + 1));
        }
        let gap_s = DEMO_LAST_ARRIVAL * DEMO_LENGTH_S / (trainings.len() - 1).max(1) as f64;
        let plan = |(number, &(kind, node)): (usize, &(usize, usize))| {
            let (name, part, epochs, prints_total) = DEMO[kind];
            let factor = 1.0 + DEMO_SPREAD * (1.0 - 2.0 * node as f64 / (self.nodes - 1).max(1) as f64);
            let (size_s, epochs) = (part * factor * DEMO_LENGTH_S, (epochs * factor).round() as usize);
            let curve = exponential(2.3, 0.3, 8.0, 0.02);
            let name = format!("{name}-{}", node + 1);
            let mut plan = job(&name, &self.node, gap_s * number as f64, size_s, epochs, curve);
            plan.startup_work = DEMO_START;
            (plan.reports.total, plan.reports.claimed) = (prints_total, (!prints_total).then_some(1.0));
            plan
        };
        let plans: Vec<JobPlan> = trainings.iter().enumerate().map(plan).collect();
        let kinds = trainings.iter().map(|(kind, _)| Some(*kind));
        self.alone(plans, seed).into_iter().zip(kinds).map(|(one, program)| Submission { program, ..one }).collect()
    }

    fn dragon(&self, table: usize, seed: u64, draws: &mut Stream) -> Vec<Submission> {
        let rows = DRAGON[table.min(DRAGON.len() - 1)];
        let plan = |(number, row): (usize, &DragonJob)| {
            let name = format!("job-{}", number + 1);
            let size = DRAGON_WORK / self.node.cores * draws.uniform(0.97, 1.03);
            let curve = exponential(2.3, 0.28, 6.0, 0.02);
            let mut plan = job(&name, &self.node, DRAGON_GAP_S * number as f64, size, 100, curve);
            (plan.parallelism, plan.memory, plan.startup_s) = (row.3, Bytes(row.4 << 30), DRAGON_START_S);
            plan.reports.unit = ProgressUnit::Step;
            plan
        };
        let mut plans: Vec<JobPlan> = rows.iter().enumerate().map(plan).collect();
        self.variations.apply(&mut plans, &self.node, seed);
        let with_table = drawn(plans, &self.node, seed).into_iter().zip(rows.iter().copied());
        with_table
            .map(|(job, (max, min, initial, cores, gib, level))| Submission {
                priority: Priority { level, decay: 0.0 },
                request: Resources { cores, memory: Bytes(gib << 30), gpus: 0 },
                workers: WorkerRange { min, initial, max },
                ..Submission::alone(job)
            })
            .collect()
    }
}
