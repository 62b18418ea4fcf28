//! The papers' schedules by name, with variations, most of them of the logs' contents.
//!
//! - `fixed-3` is FlowCon's §5.3: VAE at 0 s, MNIST (PyTorch) at 40 s, MNIST (TensorFlow) at 80 s. The sizes follow from the published
//!   overlaps under plain Docker: three jobs together for 84.7 s, two for 240.5 s, makespan 394.0 s.
//! - `random-N` is its §5.4 and §5.5: N jobs that start within 200 s; sizes 30 ..= 220 node-CPU-seconds, exponential curves.
//! - `sweep-16`, `sweep-unseen-16`: sixteen trials of one training, with measured curves ([`super::sweep`]).
//! - `threads-4`, `threads-10`: trainings with a thread for each core, which wait for each other; `threads-mixed-10`: the same, with
//!   single-threaded ones and ones that wait for their GPU ([`super::threads`]).
//! - `gpu-4`: four trainings that start within a minute and each take 30 ..= 220 s alone on the one GPU, which is busy for 96 % of that
//!   time.

use super::{NodeShape, sweep, threads};
use crate::curve::{LearningCurve, RateStage, Shape};
use crate::fault::{Fault, FaultKind};
use crate::job::{GpuLoad, JobPlan, Waits};
use crate::random::Stream;
use model::{Bytes, ProgressUnit};

/// The schedules.
pub const BUILT_IN: [&str; 10] = [
    "fixed-3",
    "random-5",
    "random-10",
    "random-15",
    "gpu-4",
    "threads-4",
    "threads-10",
    "threads-mixed-10",
    "sweep-16",
    "sweep-unseen-16",
];

/// Suffixes of a schedule's name, with their effects.
pub const VARIATIONS: [(&str, &str); 15] = [
    ("unknown", "the logs print no total: `i`, not `i of N`"),
    (
        "claimed",
        "the logs print no total, but the commands state it; for every fourth job it is wrong by a factor of two",
    ),
    ("sockets", "the jobs are pinned alternately to two halves of the node"),
    ("half-metric", "every other job prints progress but no metric"),
    ("half-silent", "every other job prints nothing at all"),
    ("late", "log lines reach the reader 15 to 60 s late"),
    ("lying", "totals are wrong by a factor of 0.3 to 3"),
    ("gamed", "every third job prints a steadily falling loss that is made up"),
    ("mixed", "power laws and plateaus in addition to exponential curves"),
    ("early", "jobs converge about as early as the one in FlowCon's figure 1: 97 % after 15 % of the work"),
    (
        "seen",
        "the governor observed an earlier run of each training, with another seed and 0.5 to 2 times the learning rate",
    ),
    ("threads", "jobs can use one core to all cores"),
    ("io", "jobs load for some seconds and sometimes wait for I/O"),
    (
        "broken",
        "after 30 to 80 % of its work every third job is NaN, explodes, hangs for 15 min, crashes or overfits; the figures are those of the others",
    ),
    ("deadlines", "every other job has a known deadline, two to eight times the time that it takes alone"),
];

const START_WITHIN_S: f64 = 200.0;
const SIZE_NODE_S: (f64, f64) = (30.0, 220.0);
const QUALITY_AT: (f64, f64) = (0.15, 0.7);
/// −ln(1 − 0.968) / 0.145: the rate at which the training of FlowCon's figure 1 converges.
pub(crate) const FIGURE_1_RATE: f64 = 23.7;
const CLOSE_TOGETHER_S: f64 = 60.0;
/// GPU-seconds that a step queues, and core-seconds between two steps.
const KERNEL_S: f64 = 0.004;
const BETWEEN_KERNELS_S: f64 = 0.000_16;
const VARIATION_STREAM: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Schedule {
    FixedThree,
    Random(usize),
    Gpu(usize),
    Threads { count: usize, mixed: bool },
    Sweep { unseen: bool },
}

/// A built-in schedule with its variations.
#[derive(Clone, Debug)]
pub(super) struct BuiltIn {
    schedule: Schedule,
    variations: Variations,
}

impl BuiltIn {
    /// Returns `None` if `name` does not start with a schedule's name.
    pub(super) fn parse(name: &str) -> Result<Option<BuiltIn>, String> {
        let Some((schedule, variations)) = split(name, &BUILT_IN)? else { return Ok(None) };
        let count = |kind: &str| schedule.strip_prefix(kind).and_then(|count| count.parse().ok());
        let random = count("random-").map(Schedule::Random);
        let sweep = schedule.strip_prefix("sweep-").map(|kind| Schedule::Sweep { unseen: kind.starts_with("unseen") });
        let threads = |kind, mixed| count(kind).map(|count| Schedule::Threads { count, mixed });
        let threads = threads("threads-", false).or_else(|| threads("threads-mixed-", true));
        let schedule =
            random.or(sweep).or(threads).or(count("gpu-").map(Schedule::Gpu)).unwrap_or(Schedule::FixedThree);
        Ok(Some(BuiltIn { schedule, variations }))
    }

    pub(super) fn uses_gpus(&self) -> bool {
        matches!(self.schedule, Schedule::Gpu(_) | Schedule::Threads { mixed: true, .. })
    }

    pub(super) fn plans(&self, node: &NodeShape, seed: u64, draws: &mut Stream) -> Vec<JobPlan> {
        let mut plans = match self.schedule {
            Schedule::Random(count) => {
                (0..count).map(|number| random_job(number, START_WITHIN_S, node, draws)).collect()
            }
            Schedule::Gpu(count) => (0..count).map(|number| gpu_job(number, node, draws)).collect(),
            Schedule::Threads { count, mixed } => (0..count)
                .map(|number| random_job(number, CLOSE_TOGETHER_S, node, draws))
                .enumerate()
                .map(|(number, plan)| threads::training(number, plan, mixed, node))
                .collect(),
            Schedule::Sweep { unseen } => sweep::trials(unseen, node, seed, draws),
            Schedule::FixedThree => fixed_three(node),
        };
        self.variations.apply(&mut plans, node, seed);
        plans
    }
}

/// The variations named by the suffixes of a schedule's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variations(Vec<&'static str>);

impl Variations {
    pub(crate) fn apply(&self, plans: &mut [JobPlan], node: &NodeShape, seed: u64) {
        for (number, variation) in self.0.iter().enumerate() {
            let mut draws = Stream::new(seed, VARIATION_STREAM + number as u64);
            for (number, plan) in plans.iter_mut().enumerate() {
                vary(plan, variation, number, node, &mut draws);
            }
        }
    }
}

/// Splits a name into a schedule's name and its suffixes; `None` if it starts with none of the names.
///
/// # Errors
/// An unknown suffix.
pub(crate) fn split(name: &str, schedules: &[&'static str]) -> Result<Option<(&'static str, Variations)>, String> {
    let begins = |schedule: &&'static str| Some((*schedule, name.strip_prefix(schedule)?));
    let Some((schedule, mut rest)) = schedules.iter().filter_map(begins).find(|(_, rest)| at_boundary(rest)) else {
        return Ok(None);
    };
    let mut variations = Vec::new();
    while let Some(suffix) = rest.strip_prefix('-') {
        let known = VARIATIONS.iter().filter_map(|(v, _)| Some((*v, suffix.strip_prefix(v)?)));
        let Some((variation, after)) = known.into_iter().find(|(_, after)| at_boundary(after)) else {
            let suffixes = VARIATIONS.map(|(v, _)| format!("-{v}")).join(", ");
            return Err(format!("{name}: unknown suffix `-{suffix}` of {schedule}; expected one of {suffixes}"));
        };
        variations.push(variation);
        rest = after;
    }
    Ok(Some((schedule, Variations(variations))))
}

fn at_boundary(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('-')
}

/// A job that uses the whole node.
pub(crate) fn job(
    name: &str,
    node: &NodeShape,
    start_s: f64,
    size_node_s: f64,
    units: usize,
    curve: LearningCurve,
) -> JobPlan {
    JobPlan::on_all_cores(name, node.cores, (start_s, size_node_s), units, curve)
}

pub(crate) fn exponential(from: f64, to: f64, rate: f64, noise: f64) -> LearningCurve {
    LearningCurve { from, to, noise, shape: Shape::Exponential { rate } }
}

/// The paper gives one curve in numbers (§2, figure 1): 96.8 % of the final accuracy after 14.5 % of the time. At that rate VAE has
/// converged when MNIST starts at 40 s, as in the paper's figure 7.
fn fixed_three(node: &NodeShape) -> Vec<JobPlan> {
    vec![
        job("vae-pytorch", node, 0.0, 217.3, 60, exponential(545.0, 104.0, FIGURE_1_RATE, 0.005)),
        job("mnist-pytorch", node, 40.0, 148.5, 60, exponential(2.30, 0.21, FIGURE_1_RATE, 0.02)),
        job("mnist-tensorflow", node, 80.0, 28.2, 30, exponential(2.30, 0.28, FIGURE_1_RATE, 0.02)),
    ]
}

const MODELS: [&str; 5] = ["lstm-cfc", "vae-pytorch", "vae-tensorflow", "mnist", "gru"];

/// Draws a training with its size, curve and number of units.
pub(crate) fn random_job(number: usize, within_s: f64, node: &NodeShape, draws: &mut Stream) -> JobPlan {
    let start_s = draws.uniform(0.0, within_s);
    let size_node_s = draws.uniform(SIZE_NODE_S.0, SIZE_NODE_S.1);
    let (from, to) = if draws.below(3) == 0 {
        (draws.uniform(0.05, 0.3), draws.uniform(0.6, 0.98)) // an accuracy
    } else {
        let from = draws.log_uniform(1.0, 600.0);
        (from, from * draws.uniform(0.02, 0.5)) // a loss
    };
    // 1 − e^(−rate·x) reaches 95 % at x = 3 / rate: the 95 % point is uniform between these parts of the work.
    let rate = 3.0 / draws.uniform(QUALITY_AT.0, QUALITY_AT.1);
    let curve = exponential(from, to, rate, draws.log_uniform(0.003, 0.03));
    let units = draws.log_uniform(20.0, 400.0).round() as usize;
    let name = format!("{}-{}", number + 1, MODELS[number % MODELS.len()]);
    let mut plan = job(&name, node, start_s, size_node_s, units, curve);
    plan.deadline_s = Some(size_node_s * draws.uniform(2.0, 8.0));
    plan.memory = Bytes((draws.log_uniform(0.2, 4.0) * (1u64 << 30) as f64) as u64);
    plan.reports.unit = if units > 100 { ProgressUnit::Step } else { ProgressUnit::Epoch };
    plan
}

/// Draws the same kind of training for a GPU, on which it takes as long alone as on the cores.
fn gpu_job(number: usize, node: &NodeShape, draws: &mut Stream) -> JobPlan {
    let plan = random_job(number, CLOSE_TOGETHER_S, node, draws);
    let alone_s = plan.work / node.cores;
    let work = alone_s * BETWEEN_KERNELS_S / (BETWEEN_KERNELS_S + KERNEL_S);
    let gpu = Some(GpuLoad { device: 0, every: BETWEEN_KERNELS_S, kernel_s: KERNEL_S });
    JobPlan { work, parallelism: 1.0, gpu, ..plan }
}

fn vary(plan: &mut JobPlan, variation: &str, number: usize, node: &NodeShape, draws: &mut Stream) {
    let every_other = number % 2 == 1;
    match variation {
        "unknown" => plan.reports.total = false,
        "claimed" => {
            plan.reports.total = false;
            let wrong = if draws.below(2) == 0 { 0.5 } else { 2.0 };
            plan.reports.claimed = Some(if number % 4 == 3 { wrong } else { 1.0 });
        }
        "sockets" => {
            let half = (node.cores / 2.0).floor().max(1.0) as usize;
            let first = if every_other { half } else { 0 };
            plan.cpus = Some((first..first + half).collect());
            plan.parallelism = plan.parallelism.min(half as f64);
        }
        "half-metric" if every_other => plan.reports.metric = false,
        "half-silent" if every_other => {
            plan.reports.metric = false;
            plan.reports.progress = false;
        }
        "deadlines" if every_other => plan.reports.deadline = true,
        "broken" if number % 3 == 2 => {
            let kind = FaultKind::ALL[draws.below(FaultKind::ALL.len())];
            plan.fault = Some(Fault { kind, after: draws.uniform(0.3, 0.8) });
        }
        "late" => plan.reports.delay_s = draws.uniform(15.0, 60.0),
        "lying" => plan.reports.total_factor = draws.log_uniform(0.3, 3.0),
        "seen" => plan.before = Some(at_learning_rate(&plan.curve, draws.log_uniform(0.5, 2.0))),
        "gamed" if number % 3 == 2 => plan.shown = Some(made_up(&plan.curve)),
        "mixed" => plan.curve.shape = mixed_shape(plan.curve.shape.clone(), draws),
        "early" => plan.curve.shape = Shape::Exponential { rate: FIGURE_1_RATE * draws.log_uniform(0.5, 2.0) },
        "threads" => plan.parallelism = draws.log_uniform(1.0, node.cores).round().clamp(1.0, node.cores),
        "io" => {
            plan.startup_s = draws.uniform(2.0, 10.0);
            let every = plan.work / draws.uniform(5.0, 40.0);
            plan.waits = Some(Waits { every, seconds: draws.uniform(0.1, 1.5) });
        }
        _ => {}
    }
}

/// A made-up curve: falls evenly and without noise to the end, so it always grows and never converges.
fn made_up(curve: &LearningCurve) -> LearningCurve {
    LearningCurve { noise: 0.0, shape: Shape::Samples([(0.0, 0.0), (1.0, 1.0)].into()), ..curve.clone() }
}

/// The same training with another learning rate.
fn at_learning_rate(curve: &LearningCurve, times: f64) -> LearningCurve {
    let shape = match curve.shape.clone() {
        Shape::Exponential { rate } => Shape::Exponential { rate: rate * times },
        Shape::Power { exponent, knee } => Shape::Power { exponent, knee: knee / times },
        Shape::Plateaus(stages) => {
            Shape::Plateaus(stages.into_iter().map(|stage| RateStage { rate: stage.rate * times, ..stage }).collect())
        }
        samples @ Shape::Samples(_) => samples,
    };
    LearningCurve { shape, ..curve.clone() }
}

fn mixed_shape(exponential: Shape, draws: &mut Stream) -> Shape {
    match draws.below(4) {
        0 => Shape::Power { exponent: draws.uniform(0.3, 1.5), knee: draws.log_uniform(0.003, 0.05) },
        1 => {
            let drop = draws.uniform(0.4, 0.75);
            let level = draws.uniform(0.5, 0.85);
            let rate = draws.uniform(5.0, 12.0);
            Shape::Plateaus(vec![RateStage { until: drop, level, rate }, RateStage { until: 1.0, level: 1.0, rate }])
        }
        _ => exponential,
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    fn built_in(name: &str) -> Scenario {
        Scenario::built_in(name).unwrap().unwrap()
    }

    #[test]
    fn the_random_schedules_have_their_count_and_ranges() {
        for (name, count) in [("random-5", 5), ("random-10", 10), ("random-15", 15)] {
            let jobs = built_in(name).draw(3);
            assert_eq!(jobs.len(), count);
            for job in jobs {
                assert!((0.0..=200.0).contains(&job.plan.start_s));
                assert!((30.0..=220.0).contains(&(job.plan.work / 8.0)));
            }
        }
    }

    #[test]
    fn a_variation_of_the_logs_does_not_change_the_work() {
        let (plain, unknown) = (built_in("random-10").draw(5), built_in("random-10-unknown").draw(5));
        for (plain, unknown) in plain.iter().zip(&unknown) {
            assert_eq!(plain.marks, unknown.marks);
            assert!(plain.printed_total().is_some() && unknown.printed_total().is_none());
        }
    }

    #[test]
    fn suffixes_can_be_combined_and_an_unknown_one_is_named() {
        let jobs = built_in("random-5-mixed-half-silent").draw(1);
        assert_eq!(jobs.iter().filter(|job| !job.plan.reports.progress).count(), 2);
        let error = Scenario::built_in("random-5-sideways").unwrap_err();
        assert!(error.contains("`-sideways`") && error.contains("-unknown"), "{error}");
    }

    #[test]
    fn random_55_is_not_parsed_as_random_5_with_a_suffix() {
        assert!(Scenario::built_in("random-55").unwrap().is_none());
    }
}
