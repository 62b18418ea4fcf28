//! The simulated testbed of Pollux's artifact under its Tiresias policy: 16 nodes of four GPUs, one decision per minute.
//!
//! Rules, as shown by the artifact's output: a job keeps the number of GPUs and the batch size that it requested. There are two queues by
//! attained service, GPUs × seconds; a job with more than 16 GPU-hours moves to the second queue for good. Each minute the queues are
//! processed in order, and each job that fits runs. A job that starts takes the emptiest nodes, stays there until it is preempted, and
//! loses 30 s. A job on more nodes than it needs is slower, by the measured step times.

use std::collections::BTreeMap;

/// Number of nodes, and GPUs of each.
const NODES: usize = 16;
const GPUS: usize = 4;
/// Seconds between two decisions.
const TICK_S: f64 = 60.0;
/// Seconds that a start takes.
const RESTART_S: f64 = 30.0;
/// Attained service, in GPU-seconds, at which a job leaves the first queue.
const DEMOTED_AT: f64 = 16.0 * 3600.0;

/// Maximum number of GPUs of a job.
pub(super) const ALL_GPUS: usize = NODES * GPUS;

/// A job that keeps its GPUs and its batch size.
#[derive(Clone, Debug)]
pub(super) struct RigidJob {
    pub application: String,
    pub submit_s: f64,
    pub gpus: usize,
    pub batch: usize,
    /// Seconds of training on the fewest nodes that have that many GPUs.
    pub service_s: f64,
}

/// Measured seconds of one step, and of its synchronisation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub step_s: f64,
    pub sync_s: f64,
}

/// Measured step times, by the number of samples that one GPU takes at once.
type BySamples = BTreeMap<usize, Step>;

/// Step times of the applications.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// By application and GPUs on each node.
    placed: BTreeMap<(String, Vec<usize>), BySamples>,
    /// By application, nodes and GPUs: means over placements, and measurements on more nodes.
    spread: BTreeMap<(String, usize, usize), BySamples>,
    /// Number of placements in each mean of `spread`; none for a separate measurement.
    counted: BTreeMap<(String, usize, usize, usize), f64>,
    /// Maximum samples that one GPU takes at once.
    most: BTreeMap<String, usize>,
}

impl Steps {
    /// Adds a measurement with these GPUs on each node.
    pub(super) fn placed(&mut self, application: &str, nodes: &[usize], samples: usize, step: Step) {
        let gpus: usize = nodes.iter().sum();
        let most = self.most.entry(application.to_owned()).or_default();
        *most = (*most).max(samples);
        self.placed.entry((application.to_owned(), nodes.to_vec())).or_default().insert(samples, step);
        let count = self.counted.entry((application.to_owned(), nodes.len(), gpus, samples)).or_default();
        *count += 1.0;
        let spread = self.spread.entry((application.to_owned(), nodes.len(), gpus)).or_default();
        let mean = spread.entry(samples).or_insert(step);
        mean.step_s += (step.step_s - mean.step_s) / *count;
        mean.sync_s += (step.sync_s - mean.sync_s) / *count;
    }

    /// Adds a measurement with that many GPUs on that many nodes.
    pub(super) fn spread(&mut self, application: &str, nodes: usize, gpus: usize, samples: usize, step: Step) {
        self.spread.entry((application.to_owned(), nodes, gpus)).or_default().insert(samples, step);
    }

    /// Limits the samples that one GPU takes at once, whatever was measured.
    pub(super) fn at_most(&mut self, application: &str, samples: usize) {
        if let Some(most) = self.most.get_mut(application) {
            *most = samples.min(*most);
        }
    }

    /// Seconds of one step of a job with these GPUs on each node; `None` without a comparable measurement.
    fn seconds(&self, job: &RigidJob, nodes: &[usize]) -> Option<f64> {
        let each = job.batch.div_ceil(job.gpus);
        // A batch that does not fit is processed in several parts and synchronised once.
        let parts = each.div_ceil(*self.most.get(&job.application)?);
        let samples = each.div_ceil(parts);
        let step = match self.placed.get(&(job.application.clone(), smallest_rotation(nodes))) {
            Some(measured) => between(measured, samples)?,
            None => self.on_nodes(&job.application, nodes.len().min(NODES), job.gpus, samples)?,
        };
        Some(step.step_s + (parts - 1) as f64 * (step.step_s - step.sync_s))
    }

    /// Interpolates between the nearest numbers of nodes with measurements.
    fn on_nodes(&self, application: &str, nodes: usize, gpus: usize, samples: usize) -> Option<Step> {
        let measured = self.spread.iter().filter(|((name, _, count), _)| name == application && *count == gpus);
        let measured: BTreeMap<usize, Step> =
            measured.filter_map(|((_, nodes, _), steps)| Some((*nodes, between(steps, samples)?))).collect();
        between(&measured, nodes)
    }
}

/// Interpolates linearly between the neighbours of `at`; beyond the ends, the end values hold.
fn between(measured: &BTreeMap<usize, Step>, at: usize) -> Option<Step> {
    let below = measured.range(..=at).next_back();
    let above = measured.range(at..).next();
    let ((low, one), (high, other)) = (below.or(above)?, above.or(below)?);
    let part = if high > low { (at - low) as f64 / (high - low) as f64 } else { 0.0 };
    let mix = |one: f64, other: f64| one + part * (other - one);
    Some(Step { step_s: mix(one.step_s, other.step_s), sync_s: mix(one.sync_s, other.sync_s) })
}

/// The lexicographically smallest rotation of the nodes.
fn smallest_rotation(nodes: &[usize]) -> Vec<usize> {
    let rotations = (0..nodes.len()).map(|at| [&nodes[at..], &nodes[..at]].concat());
    rotations.min().unwrap_or_default()
}

/// GPUs on each node when the fewest nodes are used.
fn packed(gpus: usize) -> Vec<usize> {
    let full = std::iter::repeat_n(GPUS, gpus / GPUS);
    full.chain((!gpus.is_multiple_of(GPUS)).then_some(gpus % GPUS)).collect()
}

/// A submitted job.
#[derive(Clone, Debug)]
struct ActiveJob {
    left_s: f64,
    attained_s: f64,
    is_demoted: bool,
    /// Whether the last decision selected it.
    is_chosen: bool,
    /// The nodes of its GPUs; empty while it waits.
    place: Vec<usize>,
    /// As a part of its speed on the fewest nodes.
    speed: f64,
    restart_s: f64,
}

/// Computes the end of each job, in seconds.
///
/// # Errors
/// A job without GPUs, with more than there are, or of an application without measurements.
pub(super) fn ends_s(jobs: &[RigidJob], steps: &Steps) -> Result<Vec<f64>, String> {
    for job in jobs {
        if job.gpus == 0 || job.gpus > ALL_GPUS || steps.seconds(job, &packed(job.gpus)).is_none() {
            let RigidJob { application, gpus, .. } = job;
            return Err(format!("{application} on {gpus} GPUs: expected 1 to {ALL_GPUS} GPUs and measured step times"));
        }
    }
    let mut ends = vec![f64::INFINITY; jobs.len()];
    let mut active: BTreeMap<usize, ActiveJob> = BTreeMap::new();
    let (mut queues, mut begun, mut now) = ([Vec::new(), Vec::new()], vec![false; jobs.len()], 0.0);
    while begun.contains(&false) || !active.is_empty() {
        for (job, active_job) in &mut active {
            if let Some(end) = active_job.advance(now) {
                ends[*job] = end;
            }
        }
        now += TICK_S;
        active.retain(|job, _| ends[*job].is_infinite());
        queues.iter_mut().for_each(|queue: &mut Vec<usize>| queue.retain(|job| ends[*job].is_infinite()));
        for (at, job) in jobs.iter().enumerate() {
            if !begun[at] && job.submit_s <= now {
                begun[at] = true;
                active.insert(at, ActiveJob::new(job));
                queues[0].push(at);
            }
        }
        demote(jobs, &mut active, &mut queues);
        choose(jobs, &mut active, &queues);
        place(jobs, steps, &mut active, &queues);
    }
    Ok(ends)
}

fn demote(jobs: &[RigidJob], active: &mut BTreeMap<usize, ActiveJob>, queues: &mut [Vec<usize>; 2]) {
    for (job, active_job) in active.iter_mut().filter(|(_, active_job)| active_job.is_chosen) {
        active_job.attained_s += TICK_S;
        if !active_job.is_demoted && active_job.attained_s * jobs[*job].gpus as f64 >= DEMOTED_AT {
            active_job.is_demoted = true;
            queues[0].retain(|queued| queued != job);
            queues[1].push(*job);
        }
    }
}

fn choose(jobs: &[RigidJob], active: &mut BTreeMap<usize, ActiveJob>, queues: &[Vec<usize>; 2]) {
    let mut free = ALL_GPUS;
    for job in queues.iter().flatten() {
        let Some(active_job) = active.get_mut(job) else { continue };
        active_job.is_chosen = jobs[*job].gpus <= free;
        if active_job.is_chosen {
            free -= jobs[*job].gpus;
        } else {
            active_job.place.clear();
        }
    }
}

fn place(jobs: &[RigidJob], steps: &Steps, active: &mut BTreeMap<usize, ActiveJob>, queues: &[Vec<usize>; 2]) {
    let mut free = [GPUS; NODES];
    for node in active.values().flat_map(|active_job| &active_job.place) {
        free[*node] -= 1;
    }
    for job in queues.iter().flatten() {
        let Some(active_job) =
            active.get_mut(job).filter(|active_job| active_job.is_chosen && active_job.place.is_empty())
        else {
            continue;
        };
        let mut nodes = Vec::new();
        while active_job.place.len() < jobs[*job].gpus {
            // The first of the emptiest nodes.
            let Some(node) = (0..NODES).rev().max_by_key(|node| free[*node]) else { break };
            let taken = free[node].min(jobs[*job].gpus - active_job.place.len());
            active_job.place.extend(std::iter::repeat_n(node, taken));
            nodes.push(taken);
            free[node] -= taken;
        }
        let seconds = |nodes: &[usize]| steps.seconds(&jobs[*job], nodes);
        active_job.speed =
            seconds(&packed(jobs[*job].gpus)).zip(seconds(&nodes)).map_or(1.0, |(best, here)| best / here);
        active_job.restart_s = RESTART_S;
    }
}

impl ActiveJob {
    fn new(job: &RigidJob) -> ActiveJob {
        let (attained_s, is_demoted, is_chosen) = (0.0, false, false);
        ActiveJob {
            left_s: job.service_s,
            attained_s,
            is_demoted,
            is_chosen,
            place: Vec::new(),
            speed: 1.0,
            restart_s: 0.0,
        }
    }

    /// Runs one tick from `now` on; returns the end if it ends within it.
    fn advance(&mut self, now: f64) -> Option<f64> {
        if self.place.is_empty() {
            return None;
        }
        let restart_s = self.restart_s.min(TICK_S);
        self.restart_s -= restart_s;
        let trains_s = TICK_S - restart_s;
        let needs_s = self.left_s / self.speed;
        self.left_s -= trains_s * self.speed;
        (needs_s <= trains_s).then(|| now + restart_s + needs_s.round())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        let mut steps = Steps::default();
        let step = |step_s: f64| Step { step_s, sync_s: 0.0 };
        for (nodes, step_s) in [(vec![1], 1.0), (vec![4], 1.0), (vec![2], 1.0), (vec![1, 1], 2.0), (vec![4, 4], 1.0)] {
            steps.placed("vae", &nodes, 8, step(step_s));
        }
        for nodes in [12, 16] {
            steps.spread("vae", nodes, 48, 8, step(1.0));
            steps.spread("vae", nodes, 64, 8, step(1.0));
        }
        steps
    }

    fn job(gpus: usize, submit_s: f64, service_s: f64) -> RigidJob {
        RigidJob { application: "vae".to_owned(), submit_s, gpus, batch: 8 * gpus, service_s }
    }

    #[test]
    fn a_job_starts_at_the_next_minute_and_loses_the_time_of_the_start() {
        assert_eq!(ends_s(&[job(4, 61.0, 100.0)], &steps()).unwrap(), [120.0 + 30.0 + 100.0]);
        assert_eq!(ends_s(&[job(4, 60.0, 30.0)], &steps()).unwrap(), [60.0 + 30.0 + 30.0]);
    }

    #[test]
    fn a_job_with_sixteen_gpu_hours_is_preempted_by_a_new_job_and_restarts() {
        // 48 GPUs attain 16 GPU-hours in twenty minutes: the first job is demoted at minute 21, when the waiting second one takes its GPUs.
        let ends = ends_s(&[job(48, 10.0, 3_000.0), job(48, 70.0, 600.0)], &steps()).unwrap();
        assert_eq!(ends[1], 21.0 * 60.0 + 30.0 + 600.0);
        // Twenty minutes minus a start are done; it starts again at minute 32.
        assert_eq!(ends[0], 32.0 * 60.0 + 30.0 + 3_000.0 - (1_200.0 - 30.0));
    }

    #[test]
    fn a_job_on_more_nodes_is_slower() {
        // Each node has one free GPU, so two GPUs are on two nodes.
        let jobs: Vec<RigidJob> = (0..32).map(|_| job(1, 0.0, 10_000.0)).chain([job(2, 0.0, 100.0)]).collect();
        let alone = ends_s(&jobs, &steps()).unwrap()[32];
        let jobs: Vec<RigidJob> = (0..48).map(|_| job(1, 0.0, 10_000.0)).chain([job(2, 0.0, 100.0)]).collect();
        let spread = ends_s(&jobs, &steps()).unwrap()[48];
        assert_eq!((alone, spread), (60.0 + 30.0 + 100.0, 60.0 + 30.0 + 200.0));
    }

    #[test]
    fn a_job_that_cannot_run_is_rejected_with_its_name() {
        for wrong in
            [job(65, 0.0, 1.0), job(0, 0.0, 1.0), RigidJob { application: "gan".to_owned(), ..job(1, 0.0, 1.0) }]
        {
            assert!(ends_s(&[wrong], &steps()).unwrap_err().contains("expected 1 to 64"));
        }
    }
}
