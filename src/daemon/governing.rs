//! The event loop: owns the governor and the jobs, handles events, decides, sends work to the actuator, and publishes.

use super::actuator::Actuator;
use super::claims::ClaimReader;
use super::draining::Draining;
use super::effect::Effect;
use super::ended::Ended;
use super::energy::Energy;
use super::error::DaemonError;
use super::event::{Component, Event};
use super::gpu_duty_state::{self as duty, Duty};
use super::gpus::Gpus;
use super::holdback::Blocks;
use super::job::Jobs;
use super::journal::{Remembered, unix_ms};
use super::learning_records::Carried;
use super::library::Library;
use super::logs::LogReader;
use super::observe::NodeProperties;
use super::positions;
use super::publish::Publisher;
use super::pulse::SILENT_AT_MOST;
use super::record::Recorders;
use super::subject::Subject;
use super::threads::Threads;
use super::uses::Uses;
use api::{Command, RecordingRequest, Request};
use config::{ConfigError, EngineChoice, Settings};
use docker::{Engine, EngineInfo};
use limits::machine::{self, At, Intervals, Machine, Memory, RequestId};
use model::{ContainerId, EventKind, Millis, NoticeLevel, PolicySettings, Refusal};
use policy::Governor;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::ReadPosition;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How often a snapshot is published and disturbances are looked for, besides after each change. With many jobs it is less often, so
/// that looking takes at most one part in [`LOOK_COSTS_AT_MOST`] of a core.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOK_AT_LATEST: Duration = Duration::from_secs(15);
const LOOK_COSTS_AT_MOST: u32 = 2000;
/// Starts, ends and commands request a decision at once. It is delayed so that deciding takes at most one part in this many of a core,
/// but no longer than this time, nor than half an interval.
const TICK_COSTS_AT_MOST: u32 = 30;
const TICK_WAITS_AT_MOST: Duration = Duration::from_secs(5);
/// After this time the daemon is ready even if the engine has not answered.
const READY_AT_LATEST: Duration = Duration::from_secs(3);

/// Governed jobs at most; further containers are not governed.
const JOBS_AT_MOST: usize = 4096;

/// Control signals of the process that runs the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Read the configuration again (SIGHUP).
    Reload,
    /// Restore or keep the limits, as configured, and end (SIGTERM).
    Stop,
}

/// Reads the configuration files again.
pub type Reread = Box<dyn Fn() -> Result<Settings, Vec<ConfigError>> + Send>;

/// A client that waits for the reply to a command.
pub(super) struct Waiter {
    pub requested_by: String,
    pub reply: oneshot::Sender<Result<String, Refusal>>,
}

/// The loop's access to the engine, besides the watcher's.
pub(super) struct EngineLink {
    pub engine: Option<Engine>,
    /// Receives the engine's answers.
    pub events: mpsc::Sender<Event>,
    /// Containers that the engine's watcher follows besides those with the label.
    pub watched: watch::Sender<BTreeSet<ContainerId>>,
}

pub(super) struct Governing {
    pub(super) settings: Settings,
    pub(super) reread: Reread,
    pub(super) jobs: Jobs,
    pub(super) jobs_at_most: usize,
    /// State of all limits, and decisions about them.
    pub(super) limits: Machine,
    /// Clients that wait for the results of commands about limits.
    pub(super) waiters: BTreeMap<RequestId, Waiter>,
    /// Number of such commands so far.
    pub(super) last_request: u64,
    /// Where an earlier daemon stopped reading each log.
    pub(super) positions: BTreeMap<ContainerId, ReadPosition>,
    pub(super) library: Library,
    pub(super) uses: Uses,
    pub(super) energy: Energy,
    pub(super) draining: Draining,
    pub(super) ended: Ended,
    /// Learning records of jobs that move between nodes.
    pub(super) carried: Carried,
    pub(super) actuator: Actuator,
    pub(super) publisher: Publisher,
    pub(super) engine_link: EngineLink,
    /// Whether the journal has log positions of containers that ended.
    pub(super) positions_outlive_jobs: bool,
    pub(super) governor: Governor,
    pub(super) logs: LogReader,
    pub(super) claims: ClaimReader,
    pub(super) gpus: Gpus,
    pub(super) duty: Duty,
    pub(super) effect: Effect,
    pub(super) threads: Threads,
    pub(super) engine: Option<EngineInfo>,
    /// State of the engine, in words.
    pub(super) engine_state: String,
    pub(super) lost: Option<String>,
    pub(super) node: NodeProperties,
    pub(super) blocks: Blocks,
    pub(super) since: Millis,
    pub(super) since_unix_ms: u64,
    /// When the latest journal was damaged, Unix milliseconds.
    pub(super) lost_at_unix_ms: Option<u64>,
    pub(super) ticks: u64,
    pub(super) interval: Millis,
    pub(super) next_tick: Millis,
    look_at: Instant,
    /// Earliest time of the next decision.
    tick_from: Instant,
    pub(super) engine_reported: bool,
    recorders: Recorders,
}

/// Requests of the API's clients to the loop.
pub(super) struct Requests {
    pub requests: mpsc::Receiver<Request<Command>>,
    pub recorders: mpsc::Receiver<RecordingRequest>,
}

impl Governing {
    pub(crate) fn new(
        settings: Settings,
        reread: Reread,
        mut remembered: Remembered,
        actuator: Actuator,
        (logs, claims, gpus): (LogReader, ClaimReader, Gpus),
        engine_link: EngineLink,
        mut publisher: Publisher,
    ) -> Governing {
        publisher.reconfigured(&settings);
        remembered.notices.iter().for_each(|text| publisher.warn(text));
        let now = node::now();
        let engine_off = settings.engine == EngineChoice::Off;
        let engine_state = if engine_off { "engine: off" } else { "engine: connecting" };
        let memory: Memory = std::mem::take(&mut remembered.limits);
        Governing {
            governor: Governor::new(settings.policy),
            interval: settings.policy.interval,
            next_tick: now.after(settings.policy.interval),
            limits: Machine::new(memory, intervals(&settings.policy)),
            settings,
            reread,
            jobs: Jobs::new(),
            jobs_at_most: JOBS_AT_MOST,
            waiters: BTreeMap::new(),
            last_request: 0,
            lost_at_unix_ms: remembered.lost_at_unix_ms,
            positions: remembered.positions,
            library: Library::of(remembered.prior_runs),
            uses: Uses::of(remembered.uses),
            energy: Energy::of_host(),
            draining: Draining::default(),
            ended: Ended::default(),
            carried: Carried::default(),
            actuator,
            publisher,
            engine_link,
            positions_outlive_jobs: true, // containers may have ended while no daemon ran
            logs,
            claims,
            gpus,
            duty: Duty::default(),
            effect: Effect::default(),
            threads: Threads::default(),
            engine: None,
            engine_state: engine_state.to_owned(),
            lost: None,
            node: NodeProperties::of_host(now),
            blocks: Blocks::of_host(),
            since: now,
            since_unix_ms: unix_ms(),
            ticks: 0,
            look_at: Instant::now(),
            tick_from: Instant::now(),
            engine_reported: false,
            recorders: Recorders::default(),
        }
    }

    /// Runs until told to stop, or until the actuator hangs.
    pub(crate) async fn run(
        &mut self,
        inbox: &mut mpsc::Receiver<Event>,
        client_requests: &mut Requests,
        control: &mut mpsc::Receiver<Control>,
        mut ready: Option<oneshot::Sender<()>>,
    ) -> Result<(), DaemonError> {
        let mut saving = interval(positions::LOOK_EVERY);
        saving.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turning = interval(duty::EVERY);
        turning.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watchdog = systemd::watchdog_interval().unwrap_or(Duration::from_secs(3600));
        let mut alive = interval(watchdog);
        let ready_at = Instant::now() + READY_AT_LATEST;
        let mut is_ready = false;
        self.publish();
        loop {
            let engine_off = self.settings.engine == EngineChoice::Off;
            if !is_ready && (self.engine_reported || engine_off || Instant::now() >= ready_at) {
                is_ready = true;
                systemd::notify(&systemd::Notice::Ready);
                if let Some(ready) = ready.take() {
                    let _ = ready.send(()); // the receiver may be gone
                }
            }
            let silent = self.actuator.pulse.silent_for();
            if silent >= SILENT_AT_MOST {
                let why = format!("no reply from a disk or a control file for {} s", silent.as_secs());
                return Err(DaemonError::Died { task: "the actuator", why });
            }
            let (tick_at, look_at) = (self.tick_at(), self.look_at);
            let answer_at = self.limits.answer_at().map(instant_of);
            // In this order: everything else goes before log data, of which there may be very much.
            tokio::select! {
                biased;
                _ = alive.tick() => systemd::notify(&systemd::Notice::Alive),
                _ = turning.tick() => self.share_gpus(),
                () = sleep_until(ready_at), if !is_ready => {}
                () = sleep_until(tick_at), if self.limits.is_at_rest() => self.tick_and_pace(),
                () = sleep_until(look_at) => self.look(),
                _ = saving.tick() => self.learn_and_save(node::now()),
                () = sleep_until(answer_at.unwrap_or(ready_at)), if answer_at.is_some() => self.handle_limits(machine::Event::TimePassed),
                Some(event) = inbox.recv() => self.handle(event),
                Some(request) = client_requests.requests.recv() => self.handle_request(request),
                Some(request) = client_requests.recorders.recv() => self.recorders.begin(request, &self.governor),
                signal = control.recv() => match signal {
                    Some(Control::Reload) => self.reload_and_report(),
                    Some(Control::Stop) | None => {
                        self.stop(inbox, &mut alive).await;
                        return Ok(());
                    }
                },
                Some(event) = self.logs.inbox.recv() => self.handle(event),
            }
        }
    }

    fn tick_at(&self) -> Instant {
        self.tick_from.max(Instant::now() + Duration::from_millis(self.next_tick.since(node::now()).0))
    }

    pub(super) fn tick_now(&mut self) {
        self.next_tick = node::now();
    }

    pub(super) fn look_now(&mut self) {
        self.look_at = Instant::now();
    }

    pub(super) fn reconfigure(&mut self, settings: PolicySettings) {
        self.settings.policy = settings;
        self.handle_limits(machine::Event::Reconfigured(intervals(&settings)));
        self.governor.reconfigure(settings);
        self.publisher.reconfigured(&self.settings);
        self.recorders.reconfigured(&settings);
        self.tick_now();
    }

    pub(super) fn reload_and_report(&mut self) {
        systemd::notify(&systemd::Notice::Reloading);
        match self.reload() {
            Ok(text) => self.publisher.emit(EventKind::Command, None, text),
            Err(text) => self.publisher.health(Component::Configuration, Some(text)),
        }
        systemd::notify(&systemd::Notice::Ready);
        self.publish();
    }

    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Engine(event) => self.on_engine_event(event),
            Event::Workloads(event, socket) => self.on_workload_event(event, &socket),
            Event::Scope(event) => self.on_scope_event(event),
            Event::Logs(chunks) => self.logs.deliver(chunks, node::now(), &mut self.jobs, &mut self.draining),
            Event::Claims { id, run, claims } => {
                if let Some(job) = self.jobs.get_mut(&id).filter(|job| job.run == run) {
                    super::claims::claimed(job, claims);
                }
            }
            Event::LogHealth(id, problem) => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.set_notice(Subject::Log, problem);
                }
            }
            Event::EndDescribed { id, run, end } => self.end_described(&id, run, end),
            Event::NotStopped { id, run, problem } => self.not_stopped(&id, run, &problem),
            Event::Written(outcomes) => self.on_outcomes(outcomes, false),
            Event::Actuated(outcomes) => {
                self.on_outcomes(outcomes, true);
                self.publish();
            }
            Event::Restored(restored) => {
                let readings = self.readings();
                self.handle_limits(machine::Event::Restored(restored, readings));
                self.publish();
            }
            Event::Candidate { found, labels, request } => {
                self.handle_limits(machine::Event::Candidate { found, labels, request });
            }
            Event::Adopted { id, adoption, problem } => {
                self.handle_limits(machine::Event::Adopted { id, adoption, problem });
            }
            Event::Disowned { id, problem } => self.handle_limits(machine::Event::Disowned { id, problem }),
            Event::MayFreeze(job, problem) => self.may_freeze(job, problem),
            Event::Health(part, problem) => self.publisher.health(part, problem),
        }
    }

    fn tick_and_pace(&mut self) {
        let began = Instant::now();
        self.tick();
        let longest = TICK_WAITS_AT_MOST.min(Duration::from_millis(self.settings.policy.interval.0 / 2));
        self.tick_from = began + (began.elapsed() * TICK_COSTS_AT_MOST).min(longest);
    }

    /// Observes, decides, checks and requests the changes: one tick.
    fn tick(&mut self) {
        let now = node::now();
        self.look_for_drift();
        self.node.refresh(now);
        let observation = self.observed(now, true);
        let mut plan = self.governor.tick(&observation);
        self.recorders.ticked(&observation, &plan);
        let violations = policy::check(&plan, &observation);
        debug_assert!(violations.is_empty(), "{violations:?}");
        let Some(left_out) = policy::drop_violating(&mut plan, &violations) else {
            tracing::error!(?violations, "the plan violates a rule and is not applied");
            self.next_tick = plan.next_tick.max(now.after(Millis::from_secs(1)));
            return;
        };
        for (id, rule) in left_out {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let text = format!("its plan violates a rule ({rule}); its limits are not changed");
            job.add_notice(NoticeLevel::Warning, &text);
        }
        let changes = policy::diff(&plan, &observation);
        let times_left = self.governor.times_left(&observation, &plan);
        self.ticks += 1;
        self.interval = plan.interval;
        self.next_tick = plan.next_tick.max(now.after(Millis(100)));
        let stops = std::mem::take(&mut plan.stops);
        self.store_plan(plan, times_left);
        self.handle_limits(machine::Event::Decided(changes));
        self.stop_losers(stops);
        self.publish_observed(observation);
    }

    /// Between ticks: publishes a snapshot, and decides at once if there is a disturbance.
    fn look(&mut self) {
        let began = Instant::now();
        let observation = self.observed(node::now(), false);
        if self.limits.is_at_rest() && self.governor.is_disturbed(&observation) {
            self.tick_now();
        }
        self.handle_limits(machine::Event::TimePassed);
        self.publish_observed(observation);
        self.look_at = began + (began.elapsed() * LOOK_COSTS_AT_MOST).clamp(LOOK_EVERY, LOOK_AT_LATEST);
    }
}

/// Returns the current time, in the form that the machine of limits takes.
pub(super) fn moment() -> At {
    At { now: node::now(), unix_ms: unix_ms() }
}

fn intervals(settings: &PolicySettings) -> Intervals {
    Intervals { usual: settings.interval, longest: settings.max_interval }
}

fn instant_of(at: Millis) -> Instant {
    Instant::now() + Duration::from_millis(at.since(node::now()).0)
}
