//! The product's governor on the virtual node: the daemon's five calls, with this node in place of the host.
//!
//! Logs go through the same [`Tracker`], observations are built as in the daemon, and only the changes from [`diff`] change limits.

use super::gpus;
use super::idle::Idle;
use super::state::State;
use crate::job::Job;
use crate::scenario::NodeShape;
use health::{HealthMeter, Prospects};
use model::sharing::Claim;
use model::{
    Bytes, ContainerId, ContainerObservation, CpuTime, Evaluation, Gpu, GpuUse, Hints, LimitChange, Limits, Millis,
    NodeObservation, Place, PolicySettings, Pressure, Progress, RecordedTick, Usage, WorkForecast,
};
use policy::{Governor, GpuJob, Holdback, diff};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use traininglog::{PriorRun, Tracker};

/// Bytes that a job reads per second of an I/O wait.
const DISK_BYTES_PER_SECOND: f64 = 100e6;

/// Interval of the daemon's checks between ticks.
const CHECK_EVERY: Millis = Millis::from_secs(1);

/// The parts of the node that a governor observes.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) shape: &'a NodeShape,
    pub(super) idle: &'a Idle,
    pub(super) jobs: &'a [Arc<Job>],
    pub(super) states: &'a [State],
    pub(super) present: &'a [usize],
}

/// The governor, with the containers that it observes and controls.
pub(super) struct Governed {
    governor: Governor,
    holdback: Option<Holdback>,
    /// By the job's number; `None` once it has left.
    containers: Vec<Option<Container>>,
    next_tick: Millis,
    /// Time of the last tick.
    ticked_at: f64,
    /// Earliest time of the next check.
    check_at: Millis,
    ticks: u64,
    recording: Option<Vec<RecordedTick>>,
}

/// What a node has learned about a job, for the node to which it moves.
pub(super) struct Learned {
    tracker: Tracker,
    cost_per_unit: Option<f64>,
}

struct Container {
    id: ContainerId,
    tracker: Tracker,
    /// CPU-seconds per unit on the node from which it came.
    cost_per_unit: Option<f64>,
    /// Lines printed and not yet read: time of the print, and the unit.
    pipe: VecDeque<(f64, usize)>,
    limits: Limits,
    original: Limits,
    place: Arc<Place>,
    health: HealthMeter,
    /// Its planned share of the node.
    share: Option<f64>,
    /// Its planned share of its GPU, if it was ranked there.
    gpu_share: Option<f64>,
    /// GPU-seconds used by the last tick.
    gpu_mark: f64,
}

impl Governed {
    /// `name` is the node's name, which determines its control periods; wall time starts with the schedule.
    pub(super) fn new(settings: PolicySettings, name: &str, record: bool) -> Governed {
        Governed {
            holdback: Holdback::new(&settings, name),
            governor: Governor::new(settings),
            containers: Vec::new(),
            next_tick: Millis(0),
            ticked_at: 0.0,
            check_at: Millis(0),
            ticks: 0,
            recording: record.then(Vec::new),
        }
    }

    /// Adds a job, with the next number.
    pub(super) fn add(&mut self, job: &Job, learned: Option<Learned>) {
        self.containers.push(Some(Container::new(self.containers.len(), job, learned)));
    }

    /// Removes a job that ended or left, and returns what was learned about it.
    pub(super) fn remove(&mut self, number: usize) -> Option<Learned> {
        let container = self.containers[number].take()?;
        let cost_per_unit = self.governor.forecast(&container.id).map(|forecast| forecast.per_unit);
        Some(Learned { tracker: container.tracker, cost_per_unit: cost_per_unit.or(container.cost_per_unit) })
    }

    /// Forecast of the CPU-seconds to the end of a job that has used `cpu` so far.
    pub(super) fn forecast(&self, number: usize, cpu: f64) -> Option<WorkForecast> {
        let forecast = self.governor.forecast(&self.containers[number].as_ref()?.id)?;
        Some(forecast.after(cpu))
    }

    pub(super) fn next_tick_s(&self) -> f64 {
        self.next_tick.as_secs_f64()
    }

    /// Moves the next tick to the first millisecond that is not before `now`.
    pub(super) fn pull(&mut self, now: f64) {
        self.next_tick = self.next_tick.min(millis_from(now));
    }

    /// Records that the job finished a unit and printed its line.
    pub(super) fn print(&mut self, number: usize, unit: usize, now: f64) {
        if let Some(container) = &mut self.containers[number] {
            container.pipe.push_back((now, unit));
        }
    }

    /// Checks between ticks, as the daemon does once a second, whether a tick is needed early. Left out if the next tick is near and no job
    /// can break before it: nothing else is a reason then.
    pub(super) fn check(&mut self, node: &Seen<'_>, now: f64) {
        let at = millis_from(now);
        let may_break = node.present.iter().any(|&number| node.jobs[number].plan.fault.is_some());
        let is_near = self.next_tick.since(at) <= self.governor.settings().interval;
        if at < self.check_at || (is_near && !may_break) {
            return;
        }
        self.check_at = at.after(CHECK_EVERY);
        let observation = self.observe(node, now, false);
        if self.governor.is_disturbed(&observation) {
            self.pull(now);
        }
    }

    /// Returns the container's claim on the cores by its limits.
    pub(super) fn claim(&self, number: usize, parallelism: f64) -> Claim {
        let limits = self.limits(number);
        let weight = limits.cpu_weight.map_or(100.0, |weight| f64::from(weight.number()));
        let quota = limits.cpu_quota.flatten().map_or(f64::INFINITY, |quota| quota.0 as f64 / 1000.0);
        Claim { weight, cap: parallelism.min(quota) }
    }

    /// Part of its speed that a job keeps when its memory is squeezed below the working set, so that it pages.
    pub(super) fn squeeze(&self, number: usize, job: &Job) -> f64 {
        let high = self.limits(number).memory_high.flatten();
        high.map_or(1.0, |high| (high.0 as f64 / job.plan.memory.0 as f64).min(1.0).powi(2))
    }

    fn limits(&self, number: usize) -> Limits {
        self.containers[number].as_ref().map_or(Limits::KERNEL_DEFAULTS, |container| container.limits)
    }

    /// Observes, decides and applies the changes; returns whether a limit changed.
    pub(super) fn tick(&mut self, node: &Seen<'_>, now: f64) -> bool {
        let observation = self.observe(node, now, true);
        let plan = self.governor.tick(&observation);
        for (container, planned) in node.present.iter().zip(&plan.containers) {
            if let Some(container) = &mut self.containers[*container] {
                let ranked = planned.gpus.first().filter(|part| part.rank.is_some());
                container.gpu_share = ranked.map(|part| part.share.fraction());
                container.share = Some(planned.share.fraction());
            }
        }
        let changes = diff(&plan, &observation);
        for change in &changes {
            self.apply(change);
        }
        self.ticks += 1;
        self.next_tick = plan.next_tick.max(observation.now.after(Millis(1)));
        if let Some(recording) = &mut self.recording {
            recording.push(RecordedTick { observation, plan });
        }
        !changes.is_empty()
    }

    /// `close` ends the trackers' intervals, as at a tick but not at a check.
    fn observe(&mut self, node: &Seen<'_>, now: f64, close: bool) -> NodeObservation {
        let Seen { shape, idle, jobs, states, present } = *node;
        let wanted: f64 = present.iter().map(|&number| jobs[number].plan.parallelism).sum();
        let memory: u64 = present.iter().map(|&number| jobs[number].plan.memory.0).sum();
        let at = millis_from(now);
        let mut containers: Vec<ContainerObservation> = present
            .iter()
            .filter_map(|&number| {
                let container = self.containers[number].as_mut()?;
                let forecast = self.governor.forecast(&container.id);
                let times = (self.ticked_at, now, at);
                Some(container.observe(&jobs[number], &states[number], times, (shape.cores, forecast), close))
            })
            .collect();
        let busy = gpus::sample(&mut containers, self.ticked_at, now);
        if close {
            self.ticked_at = now;
        }
        NodeObservation {
            now: at,
            cores: shape.cores,
            idle: idle.seconds.iter().map(|seconds| CpuTime((seconds * 1e6) as u64)).collect(),
            memory: shape.memory,
            pressure: Pressure {
                cpu: Some(excess(wanted, shape.cores)),
                memory: Some(excess(memory as f64, shape.memory.0 as f64)),
                io: Some(0.0),
            },
            holdback: self.holdback.map(|blocks| blocks.block_at(at.0, at)),
            gpus: busy.into_iter().map(|(device, busy)| gpu(device, busy)).collect(),
            users: super::users::observed(jobs, states),
            containers,
        }
    }

    /// Jobs on each GPU that the policy has ranked there; unranked jobs are not frozen.
    pub(super) fn gpu_jobs(&mut self, node: &Seen<'_>, now: f64) -> BTreeMap<usize, Vec<(usize, GpuJob)>> {
        let mut gpu_jobs: BTreeMap<usize, Vec<(usize, GpuJob)>> = BTreeMap::new();
        for &number in node.present {
            let (job, container) = (&node.jobs[number], &mut self.containers[number]);
            let (Some(load), Some(container)) = (job.plan.gpu, container) else { continue };
            container.read_log(job, now);
            let Some(share) = container.gpu_share else { continue };
            let gpu_job = GpuJob { id: container.id.clone(), share, progress: container.tracker.progress() };
            gpu_jobs.entry(load.device).or_default().push((number, gpu_job));
        }
        gpu_jobs
    }

    fn apply(&mut self, change: &LimitChange) {
        if let Some(container) = self.containers.iter_mut().flatten().find(|container| container.id == change.id) {
            container.limits.set(change.to);
        }
    }

    /// Returns the number of ticks and their recording.
    pub(super) fn finish(self) -> (u64, Vec<RecordedTick>) {
        (self.ticks, self.recording.unwrap_or_default())
    }
}

impl Container {
    fn new(number: usize, job: &Job, learned: Option<Learned>) -> Container {
        let hints =
            Hints { metric: Some("loss".to_owned()), direction: Some(job.plan.direction()), ..Hints::default() };
        let Learned { tracker, cost_per_unit } = learned.unwrap_or_else(|| {
            let mut tracker = Tracker::new(&hints);
            tracker.use_prior_runs(prior_run(&hints, job).into_iter().collect());
            tracker.claims(job.plan.claim().into_iter().collect());
            Learned { tracker, cost_per_unit: None }
        });
        let original = Limits { cpu_weight: Some(job.plan.cpu_weight), ..Limits::KERNEL_DEFAULTS };
        let parent = job.plan.parent.as_deref().map(Arc::from);
        let place = Arc::new(Place { cpus: job.plan.cpus.clone(), parent, ..Place::default() });
        let id = ContainerId::new(&format!("{number:012}"));
        Container {
            id,
            tracker,
            cost_per_unit,
            pipe: VecDeque::new(),
            limits: original,
            original,
            place,
            health: HealthMeter::default(),
            share: None,
            gpu_share: None,
            gpu_mark: 0.0,
        }
    }

    fn observe(
        &mut self,
        job: &Job,
        state: &State,
        (ticked_at, now, at): (f64, f64, Millis),
        (cores, forecast): (f64, Option<WorkForecast>),
        close: bool,
    ) -> ContainerObservation {
        self.read_log(job, now);
        let plan = &job.plan;
        let mut learning = if close { self.tracker.close_interval(at) } else { self.tracker.peek(at) };
        learning.prior_cost_per_unit = learning.prior_cost_per_unit.or(self.cost_per_unit);
        let mut observed = ContainerObservation {
            name: plan.name.clone(),
            user: plan.user.as_deref().map(Arc::from),
            started: millis_from(state.started_at),
            place: Arc::clone(&self.place),
            bounds: plan.bounds,
            weight: plan.weight,
            deadline: plan.known_deadline_s().map(|seconds| millis_from(plan.start_s + seconds)),
            usage: self.usage(job, state),
            gpus: self.gpu_use(job, state, now - ticked_at, close).into_iter().collect(),
            limits: self.limits,
            original: self.original,
            learning,
            trial: plan.trial(&self.tracker),
            ..ContainerObservation::new(self.id.as_str())
        };
        let due_cores = self.share.map(|share| share * cores);
        let prospects = Prospects { due_cores, most_cores: cores, forecast };
        observed.health = self.health.look(at, &observed, &prospects);
        observed
    }

    /// Its use of the GPU since the last tick.
    fn gpu_use(&mut self, job: &Job, state: &State, passed: f64, close: bool) -> Option<GpuUse> {
        let load = job.plan.gpu?;
        let share = (passed > 0.0).then(|| ((state.gpu - self.gpu_mark) / passed).clamp(0.0, 1.0));
        if close {
            self.gpu_mark = state.gpu;
        }
        Some(GpuUse { gpu: load.device as u32, uuid: uuid(load.device), share, processes: 1, ..GpuUse::default() })
    }

    fn usage(&self, job: &Job, state: &State) -> Usage {
        let squeezed = 1.0 - self.limits.memory_high.flatten().map_or(1.0, |high| part(high.0, job.plan.memory.0));
        Usage {
            cpu: Some(CpuTime(((state.cpu + state.spun) * 1e6) as u64)),
            throttled: Some(CpuTime(0)),
            throttled_periods: Some(0),
            memory: Some(job.plan.memory),
            memory_time: None, // it is constant
            working_set: Some(job.plan.memory),
            block_io: Some(Bytes((state.waited * DISK_BYTES_PER_SECOND) as u64)),
            network_io: Some(Bytes(0)),
            pressure: Pressure {
                cpu: Some(excess(job.plan.parallelism, state.cores())),
                memory: Some(squeezed),
                io: Some(0.0),
            },
        }
    }

    /// Passes the lines that have arrived by now to the tracker, as the log reader would.
    fn read_log(&mut self, job: &Job, now: f64) {
        let delay_s = job.plan.reports.delay_s;
        while let Some(&(printed, unit)) = self.pipe.front().filter(|(printed, _)| *printed + delay_s <= now) {
            self.pipe.pop_front();
            pass_line(&mut self.tracker, job, unit, job.printed[unit], millis_before(printed + delay_s));
        }
    }
}

fn gpu(device: u32, busy: f64) -> Gpu {
    Gpu { index: device, uuid: uuid(device as usize), busy: Some(busy), ..Gpu::default() }
}

fn uuid(device: usize) -> String {
    format!("GPU-{device}")
}

/// Passes the line at the end of a unit to the tracker, as far as the job's log contains it.
fn pass_line(tracker: &mut Tracker, job: &Job, unit: usize, value: f64, at: Millis) {
    let reports = &job.plan.reports;
    let current = reports.progress.then_some((unit + 1) as f64);
    let total = job.printed_total();
    if let Some(current) = current {
        tracker.report(Progress { unit: reports.unit, current, total, at });
    }
    if reports.metric {
        tracker.evaluate(Evaluation { at, value, current, total });
    }
}

/// What the governor kept from the earlier run of this training.
fn prior_run(hints: &Hints, job: &Job) -> Option<Arc<PriorRun>> {
    let mut tracker = Tracker::new(hints);
    for (unit, &value) in job.printed_before.as_ref()?.iter().enumerate() {
        pass_line(&mut tracker, job, unit, value, Millis(unit as u64));
    }
    tracker.prior_run().map(|prior_run| Arc::new(prior_run.with_total_cost(job.whole_work())))
}

/// The first millisecond that is not before `seconds`, ignoring rounding errors of a millionth of a millisecond.
fn millis_from(seconds: f64) -> Millis {
    Millis((seconds * 1000.0 - 1e-6).ceil().max(0.0) as u64)
}

fn millis_before(seconds: f64) -> Millis {
    Millis((seconds * 1000.0) as u64)
}

/// Part of the demand that exceeds the supply, 0 ..= 1.
fn excess(wanted: f64, there: f64) -> f64 {
    if wanted > there { 1.0 - there / wanted } else { 0.0 }
}

fn part(of: u64, whole: u64) -> f64 {
    (of as f64 / whole as f64).min(1.0)
}
