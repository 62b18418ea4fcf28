//! Cluster scenarios: nodes and a schedule of submissions, either built in or read from a scenario file.
//!
//! `procon-JxN` and `specon-JxN` are the papers' schedules of J jobs on N nodes: random trainings as in `random-N` of `flowsim run`,
//! submitted uniformly within the paper's time. `specon-fixed` is SpeCon's fixed schedule: 20 equal VAEs, one every 50 s. `dragon-1` to
//! `dragon-3` are the job tables II to IV of weighted DRAGON on three nodes of 8 cores. `scale-10000` is a day of 10,000 nodes.

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
pub const CLUSTER_SCENARIOS: [&str; 13] = [
    "procon-20x4",
    "procon-30x4",
    "procon-40x4",
    "procon-30x7",
    "procon-60x7",
    "specon-fixed",
    "specon-20x4",
    "specon-30x4",
    "specon-50x8",
    "dragon-1",
    "dragon-2",
    "dragon-3",
    "scale-10000",
];

/// A day of 10,000 nodes: ten jobs per node, most of them submitted around noon. Together they are five sixths of a day's work, so that in
/// the afternoon the nodes are overloaded.
const SCALE: (usize, usize, f64) = (10_000, 10, 86_400.0);
const SCALE_SIZE_NODE_S: (f64, f64) = (600.0, 28_800.0);

/// SpeCon's fixed schedule: number of jobs, seconds between them, and the size at which plain sharing comes near the published 275 s per
/// job.
const FIXED: (usize, f64, f64) = (20, 50.0, 215.0);

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
const DRAGON: [[DragonJob; 4]; 3] = [
    [(4, 1, 2, 1.0, 2, 1.0), (6, 2, 2, 2.0, 4, 1.0), (6, 1, 2, 2.0, 4, 1.0), (6, 2, 2, 3.0, 6, 100.0)],
    [(4, 1, 2, 1.0, 2, 1.0), (6, 2, 2, 1.0, 2, 1.0), (6, 1, 2, 1.0, 2, 1.0), (6, 2, 2, 1.0, 2, 100.0)],
    [(4, 1, 2, 3.0, 6, 1.0), (6, 2, 2, 3.0, 6, 1.0), (6, 1, 2, 3.0, 6, 1.0), (6, 2, 2, 3.0, 6, 100.0)],
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
    Fixed,
    Dragon(usize),
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
        let (nodes, node, plan_every_s, schedule) = match begin {
            "specon-fixed" => (4, node, 0.0, Schedule::Fixed),
            "scale-10000" => (SCALE.0, node, 60.0, Schedule::Scale(SCALE.1)),
            _ => match (RANDOM.iter().find(|random| random.0 == begin), begin.strip_prefix("dragon-")) {
                (Some(Random(_, jobs, nodes, within_s)), _) => (*nodes, node, 0.0, Schedule::Random(*jobs, *within_s)),
                (None, table) => {
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
            Schedule::Fixed => {
                let (jobs, gap_s, size) = FIXED;
                let curve = || exponential(545.0, 104.0, FIGURE_1_RATE, 0.005);
                let mut plan = |number: usize| {
                    let size = size * draws.uniform(0.97, 1.03);
                    job(&format!("{}-vae", number + 1), &self.node, gap_s * number as f64, size, 60, curve())
                };
                let plans = (0..jobs).map(&mut plan).collect();
                self.alone(plans, seed)
            }
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

    fn dragon(&self, table: usize, seed: u64, draws: &mut Stream) -> Vec<Submission> {
        let rows = DRAGON[table.min(DRAGON.len() - 1)];
        let plan = |(number, row): (usize, &(u32, u32, u32, f64, u64, f64))| {
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
        let with_table = drawn(plans, &self.node, seed).into_iter().zip(rows);
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
