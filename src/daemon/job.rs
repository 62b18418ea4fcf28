//! A governed container, as the loop knows it.

use super::claim_schedule::ClaimSchedule;
use super::ending::Ending;
use super::event::Output;
use super::logs::feed::{LogFeed, is_closed_to_us};
use super::owner::Owner;
use super::reported::Reported;
use super::subject::Subject;
use super::target::{SAME_START_MS, Target, unit_of_cgroup};
use ::health::HealthMeter;
use cgroup::{Cgroup, CgroupError, StartTime, Surroundings};
use docker::{EngineContainer, EngineInfo, LogSource};
use limits::machine::{Found, Run};
use model::{
    Adoption, Bytes, ContainerId, ContainerPlan, CpuTime, Directives, EngineLimits, Estimate, Learning, LogOrigin,
    Millis, Notice, NoticeLevel, Parameter, Place, Restarts, RunState, Runtime, Share, ThreadUse, TrainingId, Usage,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{LogPlace, ReadPosition, ScopeRecord};
use swarm::SERVICE_LABEL;
use tail::{ContainerFile, Source};
use traininglog::{LearningRecord, LogFile, Tracker};

/// Minimum time between two readings of the counters.
const FRESH: Millis = Millis(50);
/// All counters are read this often, even between ticks.
const WHOLE_AT_LATEST: Millis = Millis::from_secs(20);

/// The energy of one job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JobEnergy {
    /// Joules since it was found; `None` where no meter tells.
    pub joules: Option<f64>,
    /// Its CPU time when it was last charged.
    pub cpu: Option<CpuTime>,
}

/// All governed jobs. Boxed, because a map's nodes are half empty and a job is large.
pub(super) type Jobs = BTreeMap<ContainerId, Box<Job>>;

/// A governed container.
pub(super) struct Job {
    pub target: Target,
    /// When the container was created, or the command started, Unix time in milliseconds.
    pub created_unix_ms: u64,
    /// Limits in the engine's units, as the container was found.
    engine_limits: Option<EngineLimits>,
    pub directives: Arc<Directives>,
    /// Share at which an operator pinned the job.
    pub pinned: Option<Share>,
    /// The adoption, if it has no label and an operator adopted it.
    pub adopted: Option<Adoption>,
    /// Start time on the daemon's clock.
    pub started: Millis,
    /// It started before the daemon.
    pub ran_before: bool,
    pub state: RunState,
    pub tracker: Tracker,
    pub health: HealthMeter,
    /// What was reported of it, and what its data loaders have used.
    pub reported: Reported,
    /// When its command is read for claims.
    pub claim_schedule: ClaimSchedule,
    /// Identifies runs of the same training.
    pub training: Option<TrainingId>,
    /// The numbers in its command.
    pub parameters: Arc<[Parameter]>,
    /// Identifies its sweep, if it may be a trial of one.
    pub group: Option<Arc<str>>,
    /// Swarm service that it is a container of.
    pub service: Option<Arc<str>>,
    /// CPU-seconds per progress unit on the node from which the job moved, and as last forecast here.
    carried_cost_per_unit: Option<f64>,
    pub cost_per_unit: Option<f64>,
    /// Whose it is.
    pub owner: Owner,
    /// CPUs and memory nodes on which it may run.
    pub runs_on: Arc<Place>,
    /// Log position up to which the tracker has read.
    pub place: Option<LogPlace>,
    /// When the first log bytes after the last saved position arrived.
    pub unsaved_since: Option<Millis>,
    pub usage: Usage,
    refreshed: Millis,
    refreshed_whole: Millis,
    located: Millis,
    /// Last reading of its CPU counter.
    pub cpu_sample: Option<(Millis, CpuTime)>,
    /// Cores used between the last two readings.
    pub cores_used: Option<f64>,
    pub plan: Option<ContainerPlan>,
    /// Seconds to its end as forecast with the plan, and when.
    pub time_left: Option<(Millis, Estimate)>,
    /// The energy that it used.
    pub energy: JobEnergy,
    /// Share of the last minute in which it was frozen.
    pub frozen: Option<f64>,
    /// What its threads did lately.
    pub threads: Option<ThreadUse>,
    /// What is known about its end.
    pub ending: Ending,
    /// Its restarts, if its engine counts any.
    pub restarts: Option<Restarts>,
    pub log_source: String,
    pub log_origin: Option<LogOrigin>,
    pub notices: Vec<Notice>,
    /// Whether its engine runs health checks in it, which must not find it frozen: a check that keeps failing can end it.
    pub has_health_check: bool,
    /// Texts of the notices that hold at present, by subject.
    pub(super) current_notices: BTreeMap<Subject, String>,
    /// Identifies the run of the container.
    pub run: Run,
    /// Whether it was in a published snapshot.
    pub was_published: bool,
}

const NO_CPU_WEIGHT: &str = "its cgroup has no CPU weight, so its share of the CPU cannot change; give its parent the cpu controller: \
                             for commands of a user, `systemctl edit user@.service` with Delegate=cpu io memory pids";

impl Job {
    /// Creates the job of a container that the engine reported. An operator's labels take precedence over the container's.
    pub(crate) fn of_container(
        container: &EngineContainer,
        info: &EngineInfo,
        adopted: Option<&Adoption>,
    ) -> Result<(Job, Option<LogFeed>), CgroupError> {
        let cgroup = Cgroup::of_container(container.pid, container.id.as_str())?;
        let unit = unit_of_cgroup(cgroup.path(), container.gpu_hook);
        let mut target = Target::new(container.id.clone(), container.name.clone(), Runtime::Docker, cgroup);
        target.started_unix_ms = container.started_unix_ms;
        (target.mark, target.unit, target.gpu_hook) = (Some(info.mark.clone()), unit, container.gpu_hook);
        let mut labels = container.labels.clone();
        labels.extend(adopted.map(|adoption| adoption.labels.clone()).unwrap_or_default());
        let mut job = Job::new(target, Some(container.limits), &labels);
        job.created_unix_ms = container.created_unix_ms;
        job.adopted = adopted.cloned();
        job.owner = Owner::of_container(container);
        job.training = Some(container.training);
        job.parameters = container.parameters.as_slice().into();
        job.group = job.group_of(None);
        job.service = container.labels.get(SERVICE_LABEL).map(|id| Arc::from(id.as_str()));
        job.has_health_check = container.has_health_check;
        job.restarts = Restarts::counted(container.restarts);
        let age = super::journal::unix_ms().saturating_sub(container.started_unix_ms);
        job.started = Millis(node::now().0.saturating_sub(age));
        job.state = if container.paused { RunState::Paused } else { RunState::Running };
        job.run = (container.pid, container.started_unix_ms);
        if let Some(text) = job.target.remark() {
            job.add_notice(NoticeLevel::Info, text);
        }
        let mounts: Vec<(PathBuf, PathBuf)> =
            container.mounts.iter().map(|mount| (mount.source.clone(), mount.destination.clone())).collect();
        let feed = job.feed(container.pid, &mounts).or_else(|| job.engine_feed(container));
        Ok((job, feed))
    }

    /// Creates the job of a command that `flowctl run` registered.
    pub(crate) fn of_scope(scope: &ScopeRecord, output: Option<Output>) -> Result<(Job, Option<LogFeed>), CgroupError> {
        let start = StartTime(scope.start_ticks);
        let cgroup = Cgroup::of_known_scope(scope.pid, Some(start), &scope.cgroup, &scope.directories)
            .or_else(|error| Cgroup::of_members(&scope.directories, &scope.cgroup).ok_or(error))?;
        let mut target = Target::new(ContainerId::new(&scope.id), scope.name.clone(), Runtime::Scope, cgroup);
        let started = start.since_boot();
        target.started_unix_ms = super::journal::unix_ms().saturating_sub(node::now().since(started).0);
        target.unit = scope.directories.iter().find_map(|directory| unit_of_cgroup(directory, false));
        let mut job = Job::new(target, None, &scope.labels);
        job.started = started;
        job.owner = Owner::of_scope(scope);
        job.training = scope.training.as_deref().and_then(|text| text.parse().ok());
        job.parameters = scope.parameters.as_slice().into();
        job.group = job.group_of(Some(scope.uid));
        job.run = (scope.pid, scope.start_ticks);
        let feed = output.map(|output| job.output_feed(output));
        if feed.is_none() {
            job.log_source = "none: its `flowctl run` has ended".to_owned();
        }
        Ok((job, feed))
    }

    /// Returns the log that the owner handed over: the command's output, or the file of `flowcon.log`, opened by the owner's `flowctl`.
    pub(crate) fn output_feed(&mut self, output: Output) -> LogFeed {
        self.log_source = self.directives.log.as_ref().map_or("output".to_owned(), |path| format!("file {path}"));
        self.log_origin = output.origin;
        LogFeed::Plain(Source::Handed(Arc::new(output.file)))
    }

    pub(super) fn new(target: Target, engine: Option<EngineLimits>, labels: &BTreeMap<String, String>) -> Job {
        let (directives, problems) = config::directives(labels);
        let tracker = Tracker::new(&directives.hints);
        let mut job = Job {
            created_unix_ms: target.started_unix_ms,
            target,
            engine_limits: engine,
            started: node::now(),
            ran_before: false,
            state: RunState::Running,
            runs_on: Arc::default(),
            place: None,
            unsaved_since: None,
            usage: Usage::default(),
            refreshed: Millis(0),
            refreshed_whole: Millis(0),
            located: Millis(0),
            cpu_sample: None,
            cores_used: None,
            plan: None,
            time_left: None,
            energy: JobEnergy::default(),
            frozen: None,
            threads: None,
            ending: Ending::default(),
            restarts: None,
            log_source: "none".to_owned(),
            log_origin: None,
            notices: Vec::new(),
            has_health_check: false,
            current_notices: BTreeMap::new(),
            run: (0, 0),
            was_published: false,
            directives: Arc::new(directives),
            pinned: None,
            adopted: None,
            training: None,
            parameters: Arc::default(),
            group: None,
            service: None,
            carried_cost_per_unit: None,
            cost_per_unit: None,
            owner: Owner::default(),
            tracker,
            health: HealthMeter::default(),
            reported: Reported::default(),
            claim_schedule: ClaimSchedule::default(),
        };
        job.ending.read_memory(job.target.cgroup().memory_record());
        for problem in &problems {
            job.add_notice(NoticeLevel::Warning, problem);
        }
        if job.target.cgroup().limits().cpu_weight.is_none() {
            job.add_notice(NoticeLevel::Warning, NO_CPU_WEIGHT);
        }
        job
    }

    /// Returns the log file that `flowcon.log` names.
    pub(super) fn feed(&mut self, pid: u32, mounts: &[(PathBuf, PathBuf)]) -> Option<LogFeed> {
        let path = self.directives.log.clone()?;
        self.log_source = format!("file {path}");
        Some(LogFeed::Plain(Source::Inside(ContainerFile::new(Some(pid), mounts, Path::new(&path)))))
    }

    fn engine_feed(&mut self, container: &EngineContainer) -> Option<LogFeed> {
        match &container.log {
            LogSource::JsonFile(path) if is_closed_to_us(path) => {
                self.log_source = "logs API (json-file)".to_owned();
                Some(LogFeed::Api(container.log_format))
            }
            LogSource::JsonFile(path) => Some(self.wrapped_feed(path.clone(), LogFile::json())),
            LogSource::Api { driver } => {
                self.log_source = format!("logs API ({driver})");
                Some(LogFeed::Api(container.log_format))
            }
            LogSource::None => {
                let text = "its log driver keeps no logs, so its progress is unknown; \
                            start it with another --log-driver, or name a file with the label flowcon.log";
                self.add_notice(NoticeLevel::Warning, text);
                None
            }
        }
    }

    /// Returns a log in which an engine or runtime wraps each line.
    pub(super) fn wrapped_feed(&mut self, path: PathBuf, file: LogFile) -> LogFeed {
        self.log_source = file.name().to_owned();
        LogFeed::Wrapped(path, file)
    }

    pub(crate) fn id(&self) -> &ContainerId {
        &self.target.id
    }

    /// Continues from where an earlier daemon stopped reading its log.
    pub(crate) fn resume_log(&mut self, position: &ReadPosition) {
        self.place = Some(position.place);
        // The container may have been started again meanwhile; its log continues, but its training begins anew.
        let started = self.target.started_unix_ms;
        let is_same_run = position.started_unix_ms.is_none_or(|known| known.abs_diff(started) <= SAME_START_MS);
        let checkpoint = position.checkpoint.as_deref().filter(|_| is_same_run);
        let checkpoint = checkpoint.and_then(|text| serde_json::from_str(text).ok());
        if let Some(checkpoint) = checkpoint {
            self.tracker = Tracker::resume(&self.directives.hints, &checkpoint);
        }
    }

    /// Continues from the learning record of another node.
    ///
    /// # Errors
    /// The record does not fit this container; nothing has changed then.
    pub(crate) fn resume_from(&mut self, record: &LearningRecord, now: Millis) -> Result<(), String> {
        let differs = "the labels for reading its log differ here (flowcon.metric, flowcon.pattern, …)";
        self.tracker = record.resume(self.directives.log.as_deref(), &self.directives.hints, now).ok_or(differs)?;
        self.carried_cost_per_unit = record.cpu_per_unit();
        Ok(())
    }

    /// CPU-seconds per progress unit of a job that began on another node.
    pub(crate) fn cost_per_unit_of_moved(&self) -> Option<f64> {
        self.carried_cost_per_unit.map(|elsewhere| self.cost_per_unit.unwrap_or(elsewhere))
    }

    /// Returns the learning record for the node to which the job moves; `None` while nothing is known.
    pub(crate) fn record(&self, now: Millis) -> Option<LearningRecord> {
        let done = self.tracker.progress().map(|progress| progress.current);
        // The total includes the start-up cost, but is better than nothing.
        let used = || {
            Some(self.usage.cpu?.as_secs_f64() / done?)
                .filter(|cost_per_unit| cost_per_unit.is_finite() && *cost_per_unit > 0.0)
        };
        let cost_per_unit = self.cost_per_unit.or(self.carried_cost_per_unit).or_else(used);
        LearningRecord::of(&self.tracker, self.directives.log.as_deref(), &self.directives.hints, cost_per_unit, now)
    }

    /// Describes the container for the machine of limits.
    pub(crate) fn found(&self) -> Found {
        let target = &self.target;
        let cgroup = target.cgroup();
        Found {
            id: target.id.clone(),
            name: target.name.clone(),
            runtime: target.runtime,
            run: self.run,
            mark: target.mark.clone(),
            is_deferred: target.is_deferred(),
            ran_before: self.ran_before,
            existed_at_loss: false,
            current: cgroup.limits(),
            engine: super::exact::numbers_of(self.engine_limits, cgroup.cpu_shares()),
        }
    }

    /// Returns its log position, for the journal.
    pub(crate) fn position(&self) -> Option<ReadPosition> {
        let checkpoint = serde_json::to_string(&self.tracker.checkpoint()).ok();
        Some(ReadPosition { place: self.place?, checkpoint, started_unix_ms: Some(self.target.started_unix_ms) })
    }

    /// Reads its counters, and the CPU used since the last reading; a reading within [`FRESH`] is reused. `whole`: reads all that a
    /// decision needs; otherwise only what a look needs.
    pub(crate) fn refresh(&mut self, now: Millis, whole: bool) {
        let whole = whole || self.usage.cpu.is_none() || now.since(self.refreshed_whole) >= WHOLE_AT_LATEST;
        let last = if whole { self.refreshed_whole } else { self.refreshed };
        if self.usage.cpu.is_some() && now.since(last) < FRESH {
            return;
        }
        let (before, passed) = (self.usage, now.since(self.refreshed));
        self.refreshed = now;
        if whole {
            self.refreshed_whole = now;
            self.usage = self.target.cgroup().usage();
            self.ending.look_around(self.target.kills_around());
        } else {
            self.target.cgroup().glance(&mut self.usage);
        }
        self.usage = self.usage.charged_since(&before, passed);
        let Some(cpu) = self.usage.cpu else { return };
        let (at, before) = *self.cpu_sample.get_or_insert((now, cpu));
        if now.since(at) >= Millis(500) {
            self.cores_used = Some(cpu.since(before).as_secs_f64() / now.since(at).as_secs_f64());
            self.cpu_sample = Some((now, cpu));
        }
    }

    /// Reads where it may run, and its memory limit. This asks each of its processes, so it is rare, except while the job starts and its
    /// placement is being set.
    pub(crate) fn locate(&mut self, now: Millis, around: &mut Surroundings) {
        let is_young = now.since(self.started) < WHOLE_AT_LATEST;
        if self.located > Millis(0) && !is_young && now.since(self.located) < WHOLE_AT_LATEST {
            return;
        }
        self.located = now;
        self.ending.read_memory(self.target.cgroup().memory_record());
        let place = self.target.cgroup().place(around);
        if place != *self.runs_on {
            self.runs_on = Arc::new(place);
        }
    }

    /// Returns the state of its learning. `close` ends the tracker's interval, which only a tick may do.
    pub(crate) fn learning(&mut self, now: Millis, close: bool) -> Learning {
        let learning = if close { self.tracker.close_interval(now) } else { self.tracker.peek(now) };
        Learning { prior_cost_per_unit: learning.prior_cost_per_unit.or(self.carried_cost_per_unit), ..learning }
    }

    pub(crate) fn memory_floor(&self) -> Option<Bytes> {
        self.directives.memory_floor
    }
}
