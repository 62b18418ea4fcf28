//! The loop: owns the governor and the jobs, reacts to events, decides, asks the actuator, publishes.

use super::actuator::{Actuator, Order};
use super::adoption::Adoptions;
use super::claims::ClaimReader;
use super::ended::Ended;
use super::event::Event;
use super::holdback::Blocks;
use super::job::Job;
use super::journal::{Remembered, original_of};
use super::leaving::Waiting;
use super::library::{Departed, Library};
use super::logs::{LogFeed, LogReader};
use super::observe::{Node, status_of};
use super::publish::Publisher;
use super::record::Recorders;
use super::{Control, Reread, positions};
use crate::api::{RecordingRequest, Request};
use crate::config::{EngineChoice, Settings};
use crate::host::docker::EngineInfo;
use crate::host::node;
use crate::host::systemd;
use crate::model::{
    ContainerId, ContainerObservation, EventKind, Millis, NodeObservation, NodePlan, NodeStatus, PolicySettings,
};
use crate::policy::{self, Governor};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How often a snapshot is published, and disturbances are looked for, besides after each change. With many jobs less often: so
/// that looking takes one part in [`LOOK_COSTS_AT_MOST`] of a core.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOK_AT_LATEST: Duration = Duration::from_secs(15);
const LOOK_COSTS_AT_MOST: u32 = 2000;
/// Decisions that are asked for by starts, ends and commands wait so that deciding takes one part in so many of a core, but no
/// longer than this, nor than half an interval.
const TICK_COSTS_AT_MOST: u32 = 30;
const TICK_WAITS_AT_MOST: Duration = Duration::from_secs(5);
/// An engine that has not answered by then does not keep the daemon from being ready.
const READY_AT_LATEST: Duration = Duration::from_secs(3);
/// Jobs beyond this many are not governed: they keep what they have.
const JOBS_AT_MOST: usize = 4096;

pub(super) struct Governing {
    pub(super) settings: Settings,
    pub(super) reread: Reread,
    /// Boxed: a map's nodes are half empty, and a job is large.
    pub(super) jobs: BTreeMap<ContainerId, Box<Job>>,
    pub(super) remembered: Remembered,
    pub(super) library: Library,
    /// Jobs that ended a moment ago, whose logs are read to their ends.
    pub(super) departed: BTreeMap<ContainerId, Departed>,
    pub(super) actuator: Actuator,
    pub(super) publisher: Publisher,
    pub(super) adoptions: Adoptions,
    /// The journal has positions of containers that ended.
    pub(super) positions_outlive_jobs: bool,
    /// An operator paused everything.
    pub(super) paused: bool,
    /// Who waits for what came of a command.
    pub(super) waiting: Vec<Waiting>,
    /// Orders to restore everything whose outcomes are awaited.
    pub(super) restoring: usize,
    /// Orders whose outcomes are awaited; no tick decides over limits that are being written.
    pub(super) in_flight: usize,
    governor: Governor,
    pub(super) logs: LogReader,
    pub(super) claims: ClaimReader,
    pub(super) engine: Option<EngineInfo>,
    /// How the engine is, in words.
    pub(super) engine_state: String,
    pub(super) lost: Option<String>,
    pub(super) node: Node,
    pub(super) blocks: Blocks,
    pub(super) since: Millis,
    since_unix_ms: u64,
    ticks: u64,
    interval: Millis,
    next_tick: Millis,
    look_at: Instant,
    /// No decision before.
    tick_from: Instant,
    pub(super) heard_of_engine: bool,
    pub(super) ended: Ended,
    recorders: Recorders,
}

/// What the API's clients ask of the loop.
pub(super) struct Asked {
    pub requests: mpsc::Receiver<Request>,
    pub recorders: mpsc::Receiver<RecordingRequest>,
}

impl Governing {
    pub fn new(
        settings: Settings,
        reread: Reread,
        mut remembered: Remembered,
        actuator: Actuator,
        (logs, claims): (LogReader, ClaimReader),
        adoptions: Adoptions,
        mut publisher: Publisher,
    ) -> Governing {
        let library = Library::of(std::mem::take(&mut remembered.precedents));
        remembered.notices.iter().for_each(|text| publisher.warn(text));
        let now = node::now();
        let engine_off = settings.engine == EngineChoice::Off;
        let engine_state = if engine_off { "engine: off" } else { "engine: connecting" };
        Governing {
            governor: Governor::new(settings.policy),
            interval: settings.policy.interval,
            next_tick: now.after(settings.policy.interval),
            settings,
            reread,
            jobs: BTreeMap::new(),
            remembered,
            library,
            departed: BTreeMap::new(),
            actuator,
            publisher,
            adoptions,
            positions_outlive_jobs: true, // those that ended while no daemon ran
            paused: false,
            waiting: Vec::new(),
            restoring: 0,
            in_flight: 0,
            logs,
            claims,
            engine: None,
            engine_state: engine_state.to_owned(),
            lost: None,
            node: Node::of_host(),
            blocks: Blocks::of_host(),
            since: now,
            since_unix_ms: super::journal::unix_ms(),
            ticks: 0,
            look_at: Instant::now(),
            tick_from: Instant::now(),
            heard_of_engine: false,
            ended: Ended::default(),
            recorders: Recorders::default(),
        }
    }

    /// Runs until told to stop.
    pub async fn run(
        &mut self,
        inbox: &mut mpsc::Receiver<Event>,
        asked: &mut Asked,
        control: &mut mpsc::Receiver<Control>,
        mut ready: Option<oneshot::Sender<()>>,
    ) {
        let mut saving = interval(positions::LOOK_EVERY);
        saving.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watchdog = systemd::watchdog_interval().unwrap_or(Duration::from_secs(3600));
        let mut alive = interval(watchdog);
        let ready_at = Instant::now() + READY_AT_LATEST;
        let mut is_ready = false;
        self.publish();
        loop {
            let engine_off = self.settings.engine == EngineChoice::Off;
            if !is_ready && (self.heard_of_engine || engine_off || Instant::now() >= ready_at) {
                is_ready = true;
                systemd::notify(&systemd::Notice::Ready);
                if let Some(ready) = ready.take() {
                    let _ = ready.send(()); // whoever waited is gone
                }
            }
            let (tick_at, look_at) = (self.tick_at(), self.look_at);
            let answer_at = self.answer_at().unwrap_or(ready_at);
            // In this order: what has been read of logs, of which there may be very much, waits for everything else.
            tokio::select! {
                biased;
                _ = alive.tick() => systemd::notify(&systemd::Notice::Alive),
                () = sleep_until(ready_at), if !is_ready => {}
                () = sleep_until(tick_at), if self.in_flight == 0 => self.tick_in_its_time(),
                () = sleep_until(look_at) => self.look(),
                _ = saving.tick() => self.learn_and_save(node::now()),
                () = sleep_until(answer_at), if !self.waiting.is_empty() => self.answer_waiting(),
                Some(event) = inbox.recv() => self.handle(event),
                Some(request) = asked.requests.recv() => self.obey(request),
                Some(request) = asked.recorders.recv() => self.recorders.begin(request, &self.governor),
                told = control.recv() => match told {
                    Some(Control::Reload) => self.reload_told(),
                    Some(Control::Stop) | None => return self.stop(inbox, &mut alive).await,
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

    pub(super) fn reconfigure(&mut self, settings: PolicySettings) {
        self.settings.policy = settings;
        self.governor.reconfigure(settings);
        self.recorders.reconfigured(&settings);
        self.tick_now();
    }

    fn reload_told(&mut self) {
        systemd::notify(&systemd::Notice::Reloading);
        match self.reload() {
            Ok(text) => self.publisher.tell(EventKind::Command, None, text),
            Err(text) => self.publisher.warn(&text),
        }
        systemd::notify(&systemd::Notice::Ready);
        self.publish();
    }

    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Engine(event) => self.engine_told(event),
            Event::Scope(event) => self.scope_told(event),
            Event::Logs(chunks) => self.logs_told(chunks),
            Event::Claims { id, run, claims } => self.claimed(&id, run, claims),
            Event::LogHealth(id, problem) => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.log_health(problem);
                }
            }
            Event::Written(outcomes) => outcomes.iter().for_each(|came| self.note(came)),
            Event::Actuated(outcomes) => {
                self.in_flight = self.in_flight.saturating_sub(1);
                outcomes.iter().for_each(|came| self.note(came));
                self.answer_waiting();
                self.publish();
            }
            Event::Restored(restored) => self.restored(restored),
            Event::Candidate(candidate) => self.consider(*candidate),
            Event::Adopted { id, adoption, problem } => self.adopted(id, adoption, problem),
            Event::Disowned { id, problem } => self.disowned(&id, problem),
            Event::Health(part, problem) => self.publisher.health(part, problem),
        }
    }

    /// Begins to govern a container, or another run of it.
    pub(super) fn begin(&mut self, found: Result<(Job, Option<LogFeed>), String>, id: &ContainerId) {
        let (mut job, feed) = match found {
            Ok(found) => found,
            Err(why) => return tracing::debug!(%id, why, "not governed: it ended, or its cgroup cannot be seen"),
        };
        if let Some(known) = self.jobs.get(id) {
            if known.run == job.run {
                return;
            }
            self.end(id, None); // it was restarted, and its end was not told
        }
        if self.jobs.len() >= JOBS_AT_MOST {
            return self
                .publisher
                .warn(&format!("more than {JOBS_AT_MOST} containers: those beyond are left as they are"));
        }
        self.learn_from_departed(|departed, _| departed == id);
        let stored = self.remembered.positions.remove(id);
        job.recall(self.remembered.originals.get(id), stored.as_ref());
        self.ended.return_to(&mut job);
        job.tracker.lean_on(job.training.map(|training| self.library.runs_of(training)).unwrap_or_default());
        let now = node::now();
        let ran_before_us = job.target.started_unix_ms < self.since_unix_ms;
        if self.remembered.damaged.contains(id) || (self.remembered.lost && ran_before_us) {
            job.ledger.yield_to("its original limits were lost with a damaged journal");
        } else if ran_before_us {
            job.ledger.settle_until(now.after(self.settings.policy.interval));
        }
        if let Some(feed) = feed {
            job.log_origin = job.log_origin.take().or_else(|| self.logs.origin(&feed, job.run.0));
            self.logs.follow(id, feed, job.place);
        }
        let name = job.target.name.clone();
        self.jobs.insert(id.clone(), Box::new(job));
        self.publisher.tell(EventKind::Started, Some((id.as_str(), &name)), format!("{name} is governed"));
        self.tick_now();
    }

    /// Forgets a container that ended, but not what it taught.
    pub(super) fn end(&mut self, id: &ContainerId, exit_code: Option<i32>) {
        let Some(job) = self.dismiss(id, "ended") else { return };
        self.ended.keep(&job);
        if job.ledger.owes_anything() {
            // Until it is known that nothing of ours is left; it may start again before.
            let original = original_of(&job.target, &job.ledger.to_promise());
            self.remembered.originals.insert(id.clone(), (original, job.ledger.known()));
            if self.actuator.order(Order::Ended(id.clone())) {
                self.in_flight += 1;
            } else {
                tracing::warn!(%id, "an ended container stays in the journal until the next restore");
            }
        }
        self.depart(job, exit_code);
    }

    /// Governs a container no longer, and says why; its log is the caller's to end.
    pub(super) fn dismiss(&mut self, id: &ContainerId, why: &str) -> Option<Box<Job>> {
        let job = self.jobs.remove(id)?;
        self.positions_outlive_jobs = true;
        let name = &job.target.name;
        self.publisher.tell(EventKind::Ended, Some((id.as_str(), name)), format!("{name} {why}"));
        self.tick_now();
        Some(job)
    }

    fn tick_in_its_time(&mut self) {
        let began = Instant::now();
        self.tick();
        let longest = TICK_WAITS_AT_MOST.min(Duration::from_millis(self.settings.policy.interval.0 / 2));
        self.tick_from = began + (began.elapsed() * TICK_COSTS_AT_MOST).min(longest);
    }

    /// The five calls.
    fn tick(&mut self) {
        let now = node::now();
        self.jobs.values_mut().for_each(|job| job.read_limits());
        self.look_for_drift();
        let observation = self.observed(now, true);
        let mut plan = self.governor.tick(&observation);
        self.recorders.ticked(&observation, &plan);
        let violations = policy::check(&plan, &observation);
        debug_assert!(violations.is_empty(), "{violations:?}");
        let Some(left_out) = policy::leave_out(&mut plan, &violations) else {
            tracing::error!(?violations, "a plan breaks a rule; nothing of it is carried out");
            self.next_tick = plan.next_tick.max(now.after(Millis::from_secs(1)));
            return;
        };
        self.say_left_out(left_out);
        let changes = policy::diff(&plan, &observation);
        self.ticks += 1;
        self.interval = plan.interval;
        self.next_tick = plan.next_tick.max(now.after(Millis(100)));
        self.keep(plan);
        self.actuate(changes);
        self.publish_observed(observation);
    }

    fn keep(&mut self, plan: NodePlan) {
        for decided in plan.containers {
            let Some(job) = self.jobs.get_mut(&decided.id) else { continue };
            let before = job.plan.as_ref().and_then(|plan| plan.list);
            if let (Some(list), true) = (decided.list, before != decided.list) {
                let name = job.target.name.clone();
                let text = format!("{name}: {list:?} list, {}", decided.reason);
                self.publisher.tell(EventKind::List, Some((decided.id.as_str(), &name)), text);
            }
            job.plan = Some(decided);
        }
    }

    /// Between ticks: a fresh snapshot, and whether something cannot wait.
    fn look(&mut self) {
        let began = Instant::now();
        let observation = self.observed(node::now(), false);
        if self.in_flight == 0 && self.governor.is_disturbed(&observation) {
            self.tick_now();
        }
        self.return_leftovers();
        self.publish_observed(observation);
        self.look_at = began + (began.elapsed() * LOOK_COSTS_AT_MOST).clamp(LOOK_EVERY, LOOK_AT_LATEST);
    }

    pub(super) fn publish(&mut self) {
        let observation = self.observed(node::now(), false);
        self.publish_observed(observation);
    }

    fn publish_observed(&mut self, observation: NodeObservation) {
        let NodeObservation { now, cores, pressure, holdback, containers, .. } = observation;
        let with_job = |observed: ContainerObservation| Some(status_of(self.jobs.get(&observed.id)?, observed, cores));
        let mut jobs: Vec<_> = containers.into_iter().filter_map(with_job).collect();
        jobs.sort_by(|a, b| (a.observed.started, &a.observed.id).cmp(&(b.observed.started, &b.observed.id)));
        let scopes = if self.settings.scopes { Some("scopes: ready".to_owned()) } else { None };
        systemd::notify(&systemd::Notice::Status(format!("{} jobs; {}", jobs.len(), self.engine_state)));
        self.publisher.publish(NodeStatus {
            now,
            unix_ms: super::journal::unix_ms(),
            since: self.since,
            cores,
            pressure,
            settings: self.settings.policy,
            interval: self.interval,
            next_tick: self.next_tick,
            ticks: self.ticks,
            paused: self.paused,
            holdback,
            runtimes: std::iter::once(self.engine_state.clone()).chain(scopes).collect(),
            jobs,
            notices: self.publisher.notices(),
        });
    }
}
