//! The simulated testbed of Pollux's artifact under its Tiresias policy: 16 nodes of four GPUs, decided upon once a minute.
//!
//! What it does, as the artifact's output shows: a job keeps the number of GPUs and the batch size that it asked for. Two queues by attained
//! service, GPUs × seconds; who has had more than 16 GPU-hours goes to the second one, and never back. Each minute the queues are gone
//! through in order, and whoever fits runs. Who begins takes the emptiest nodes, stays there until it is preempted, and loses 30 s. A job that
//! is spread over more nodes than it needs is slower, by the measured times of its steps. Imports: nothing of this crate.

use std::collections::BTreeMap;

/// Nodes, and GPUs of each.
const NODES: usize = 16;
const GPUS: usize = 4;
/// Between two decisions, in seconds.
const TICK_S: f64 = 60.0;
/// What a start costs.
const RESTART_S: f64 = 30.0;
/// Attained service, in GPU-seconds, that ends a job's time in the first queue.
const DEMOTED_AT: f64 = 16.0 * 3600.0;

/// The most GPUs that a job may ask for.
pub(super) const ALL_GPUS: usize = NODES * GPUS;

/// A job that keeps its GPUs and its batch size.
#[derive(Clone, Debug)]
pub(super) struct RigidJob {
    pub application: String,
    pub submit_s: f64,
    pub gpus: usize,
    pub batch: usize,
    /// How long it trains on the fewest nodes that have so many GPUs, in seconds.
    pub service_s: f64,
}

/// Measured seconds of one step, and the part of them that is synchronisation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub step_s: f64,
    pub sync_s: f64,
}

/// Measured times of steps, by the samples that one GPU takes at once.
type BySamples = BTreeMap<usize, Step>;

/// How fast each application trains where.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// By application and GPUs on each node.
    placed: BTreeMap<(String, Vec<usize>), BySamples>,
    /// By application, nodes and GPUs: means over placements, and measurements on more nodes.
    spread: BTreeMap<(String, usize, usize), BySamples>,
    /// Placements that each entry of `spread` is the mean of; none for a measurement of its own.
    counted: BTreeMap<(String, usize, usize, usize), f64>,
    /// The most samples that one GPU takes at once.
    most: BTreeMap<String, usize>,
}

impl Steps {
    /// A measurement with these GPUs on each node.
    pub fn placed(&mut self, application: &str, nodes: &[usize], samples: usize, step: Step) {
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

    /// A measurement with so many GPUs on so many nodes.
    pub fn spread(&mut self, application: &str, nodes: usize, gpus: usize, samples: usize, step: Step) {
        self.spread.entry((application.to_owned(), nodes, gpus)).or_default().insert(samples, step);
    }

    /// No GPU takes more samples at once, whatever was measured.
    pub fn at_most(&mut self, application: &str, samples: usize) {
        if let Some(most) = self.most.get_mut(application) {
            *most = samples.min(*most);
        }
    }

    /// Seconds that one step takes a job with these GPUs on each node; `None` where nothing like it was measured.
    fn seconds(&self, job: &RigidJob, nodes: &[usize]) -> Option<f64> {
        let each = job.batch.div_ceil(job.gpus);
        // A batch that does not fit is taken in several parts, and synchronised once.
        let parts = each.div_ceil(*self.most.get(&job.application)?);
        let samples = each.div_ceil(parts);
        let step = match self.placed.get(&(job.application.clone(), smallest_rotation(nodes))) {
            Some(measured) => between(measured, samples)?,
            None => self.on_nodes(&job.application, nodes.len().min(NODES), job.gpus, samples)?,
        };
        Some(step.step_s + (parts - 1) as f64 * (step.step_s - step.sync_s))
    }

    /// Between the next numbers of nodes with measurements.
    fn on_nodes(&self, application: &str, nodes: usize, gpus: usize, samples: usize) -> Option<Step> {
        let measured = self.spread.iter().filter(|((name, _, count), _)| name == application && *count == gpus);
        let measured: BTreeMap<usize, Step> =
            measured.filter_map(|((_, nodes, _), steps)| Some((*nodes, between(steps, samples)?))).collect();
        between(&measured, nodes)
    }
}

/// On a straight line between the neighbours of `at`; beyond the ends as at the end.
fn between(measured: &BTreeMap<usize, Step>, at: usize) -> Option<Step> {
    let below = measured.range(..=at).next_back();
    let above = measured.range(at..).next();
    let ((low, one), (high, other)) = (below.or(above)?, above.or(below)?);
    let part = if high > low { (at - low) as f64 / (high - low) as f64 } else { 0.0 };
    let mix = |one: f64, other: f64| one + part * (other - one);
    Some(Step { step_s: mix(one.step_s, other.step_s), sync_s: mix(one.sync_s, other.sync_s) })
}

/// The same nodes in a ring, begun where the row of numbers is smallest.
fn smallest_rotation(nodes: &[usize]) -> Vec<usize> {
    let rotations = (0..nodes.len()).map(|at| [&nodes[at..], &nodes[..at]].concat());
    rotations.min().unwrap_or_default()
}

/// GPUs on each of the fewest nodes.
fn packed(gpus: usize) -> Vec<usize> {
    let full = std::iter::repeat_n(GPUS, gpus / GPUS);
    full.chain((!gpus.is_multiple_of(GPUS)).then_some(gpus % GPUS)).collect()
}

/// A job on its way.
#[derive(Clone, Debug)]
struct Running {
    left_s: f64,
    attained_s: f64,
    is_demoted: bool,
    /// It was chosen in the last decision.
    is_chosen: bool,
    /// The nodes of its GPUs; empty while it waits.
    place: Vec<usize>,
    /// Of its speed on the fewest nodes.
    speed: f64,
    restart_s: f64,
}

/// When each job ends, in seconds.
///
/// # Errors
/// A job that asks for no GPU or for more than there are, or of whose application nothing was measured.
pub(super) fn ends_s(jobs: &[RigidJob], steps: &Steps) -> Result<Vec<f64>, String> {
    for job in jobs {
        if job.gpus == 0 || job.gpus > ALL_GPUS || steps.seconds(job, &packed(job.gpus)).is_none() {
            let RigidJob { application, gpus, .. } = job;
            return Err(format!(
                "{application} on {gpus} GPUs: expected 1 to {ALL_GPUS}, and a measured time of its steps"
            ));
        }
    }
    let mut ends = vec![f64::INFINITY; jobs.len()];
    let mut active: BTreeMap<usize, Running> = BTreeMap::new();
    let (mut queues, mut begun, mut now) = ([Vec::new(), Vec::new()], vec![false; jobs.len()], 0.0);
    while begun.contains(&false) || !active.is_empty() {
        for (job, running) in &mut active {
            if let Some(end) = running.advance(now) {
                ends[*job] = end;
            }
        }
        now += TICK_S;
        active.retain(|job, _| ends[*job].is_infinite());
        queues.iter_mut().for_each(|queue: &mut Vec<usize>| queue.retain(|job| ends[*job].is_infinite()));
        for (at, job) in jobs.iter().enumerate() {
            if !begun[at] && job.submit_s <= now {
                begun[at] = true;
                active.insert(at, Running::new(job));
                queues[0].push(at);
            }
        }
        demote(jobs, &mut active, &mut queues);
        choose(jobs, &mut active, &queues);
        place(jobs, steps, &mut active, &queues);
    }
    Ok(ends)
}

fn demote(jobs: &[RigidJob], active: &mut BTreeMap<usize, Running>, queues: &mut [Vec<usize>; 2]) {
    for (job, running) in active.iter_mut().filter(|(_, running)| running.is_chosen) {
        running.attained_s += TICK_S;
        if !running.is_demoted && running.attained_s * jobs[*job].gpus as f64 >= DEMOTED_AT {
            running.is_demoted = true;
            queues[0].retain(|queued| queued != job);
            queues[1].push(*job);
        }
    }
}

fn choose(jobs: &[RigidJob], active: &mut BTreeMap<usize, Running>, queues: &[Vec<usize>; 2]) {
    let mut free = ALL_GPUS;
    for job in queues.iter().flatten() {
        let Some(running) = active.get_mut(job) else { continue };
        running.is_chosen = jobs[*job].gpus <= free;
        if running.is_chosen {
            free -= jobs[*job].gpus;
        } else {
            running.place.clear();
        }
    }
}

fn place(jobs: &[RigidJob], steps: &Steps, active: &mut BTreeMap<usize, Running>, queues: &[Vec<usize>; 2]) {
    let mut free = [GPUS; NODES];
    for node in active.values().flat_map(|running| &running.place) {
        free[*node] -= 1;
    }
    for job in queues.iter().flatten() {
        let Some(running) = active.get_mut(job).filter(|running| running.is_chosen && running.place.is_empty()) else {
            continue;
        };
        let mut nodes = Vec::new();
        while running.place.len() < jobs[*job].gpus {
            // The first of the emptiest.
            let Some(node) = (0..NODES).rev().max_by_key(|node| free[*node]) else { break };
            let taken = free[node].min(jobs[*job].gpus - running.place.len());
            running.place.extend(std::iter::repeat_n(node, taken));
            nodes.push(taken);
            free[node] -= taken;
        }
        let seconds = |nodes: &[usize]| steps.seconds(&jobs[*job], nodes);
        running.speed = seconds(&packed(jobs[*job].gpus)).zip(seconds(&nodes)).map_or(1.0, |(best, here)| best / here);
        running.restart_s = RESTART_S;
    }
}

impl Running {
    fn new(job: &RigidJob) -> Running {
        let (attained_s, is_demoted, is_chosen) = (0.0, false, false);
        Running {
            left_s: job.service_s,
            attained_s,
            is_demoted,
            is_chosen,
            place: Vec::new(),
            speed: 1.0,
            restart_s: 0.0,
        }
    }

    /// One tick from `now` on; when it ended in it.
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
    fn a_job_begins_at_the_next_minute_and_pays_for_its_start() {
        assert_eq!(ends_s(&[job(4, 61.0, 100.0)], &steps()).unwrap(), [120.0 + 30.0 + 100.0]);
        assert_eq!(ends_s(&[job(4, 60.0, 30.0)], &steps()).unwrap(), [60.0 + 30.0 + 30.0]);
    }

    #[test]
    fn who_has_had_sixteen_gpu_hours_gives_way_to_newcomers_and_pays_again() {
        // 48 GPUs attain 16 GPU-hours in twenty minutes: demoted at minute 21, when the second one, which waited, takes its GPUs.
        let ends = ends_s(&[job(48, 10.0, 3_000.0), job(48, 70.0, 600.0)], &steps()).unwrap();
        assert_eq!(ends[1], 21.0 * 60.0 + 30.0 + 600.0);
        // Twenty minutes less a start are done; it begins again at minute 32.
        assert_eq!(ends[0], 32.0 * 60.0 + 30.0 + 3_000.0 - (1_200.0 - 30.0));
    }

    #[test]
    fn who_is_spread_over_more_nodes_is_slower() {
        // Each node has one GPU left: two of them are on two nodes.
        let jobs: Vec<RigidJob> = (0..32).map(|_| job(1, 0.0, 10_000.0)).chain([job(2, 0.0, 100.0)]).collect();
        let alone = ends_s(&jobs, &steps()).unwrap()[32];
        let jobs: Vec<RigidJob> = (0..48).map(|_| job(1, 0.0, 10_000.0)).chain([job(2, 0.0, 100.0)]).collect();
        let spread = ends_s(&jobs, &steps()).unwrap()[48];
        assert_eq!((alone, spread), (60.0 + 30.0 + 100.0, 60.0 + 30.0 + 200.0));
    }

    #[test]
    fn what_cannot_run_is_refused_by_name() {
        for wrong in
            [job(65, 0.0, 1.0), job(0, 0.0, 1.0), RigidJob { application: "gan".to_owned(), ..job(1, 0.0, 1.0) }]
        {
            assert!(ends_s(&[wrong], &steps()).unwrap_err().contains("expected 1 to 64"));
        }
    }
}
