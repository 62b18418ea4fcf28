//! One governed container as the loop knows it.

use super::asking::Asking;
use super::event::Output;
use super::logs::feed::LogFeed;
use super::publish::notice;
use super::target::{Target, unit, unit_of_scope};
use crate::config;
use crate::host::cgroup::{Cgroup, StartTime};
use crate::host::docker::{EngineContainer, EngineInfo, LogSource};
use crate::host::node;
use crate::host::store::{LogPlace, ReadPosition, ScopeRecord};
use crate::host::swarm::SERVICE_LABEL;
use crate::host::tail::{ContainerFile, Source};
use crate::limits::machine::{Found, Run};
use crate::model::{
    Adoption, Bytes, ContainerId, ContainerPlan, CpuTime, Directives, EngineLimits, Learning, LogOrigin, Millis,
    Notice, NoticeLevel, Place, RunState, Runtime, Share, TrainingId, Usage,
};
use crate::progress::{LearningRecord, Tracker};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NOTICES_AT_MOST: usize = 16;
/// Counters are not read again sooner.
const FRESH: Millis = Millis(50);
/// All of them are read this often, also where no tick asks for them.
const WHOLE_AT_LATEST: Millis = Millis::from_secs(20);

/// All that are governed. Boxed: a map's nodes are half empty, and a job is large.
pub(super) type Jobs = BTreeMap<ContainerId, Box<Job>>;

/// A governed container.
pub(super) struct Job {
    pub target: Target,
    /// Its limits in its engine's own numbers, as it was found.
    engine_limits: Option<EngineLimits>,
    pub directives: Arc<Directives>,
    /// The share that an operator holds it at.
    pub pinned: Option<Share>,
    /// It lacks the label, and an operator said to govern it.
    pub adopted: Option<Adoption>,
    /// On the daemon's clock.
    pub started: Millis,
    pub state: RunState,
    pub tracker: Tracker,
    /// When its command is read.
    pub asking: Asking,
    /// What it is a run of.
    pub training: Option<TrainingId>,
    /// The Swarm service that it is a container of.
    pub service: Option<Arc<str>>,
    /// CPU-seconds of a progress unit on the node from which it moved, and as last foreseen here.
    price_elsewhere: Option<f64>,
    pub price: Option<f64>,
    /// Whose command it is; `None` for a container.
    pub owner: Option<u32>,
    /// Where it may run.
    pub runs_on: Arc<Place>,
    /// Where its log is read on.
    pub place: Option<LogPlace>,
    /// When the first log bytes came since the place was saved.
    pub unsaved_since: Option<Millis>,
    pub usage: Usage,
    refreshed: Millis,
    refreshed_whole: Millis,
    located: Millis,
    /// The last two readings of its CPU counter.
    pub cpu_sample: Option<(Millis, CpuTime)>,
    /// Cores used between them.
    pub cores_used: Option<f64>,
    pub plan: Option<ContainerPlan>,
    /// Part of the time lately for which it was frozen.
    pub frozen: Option<f64>,
    pub log_source: String,
    pub log_origin: Option<LogOrigin>,
    pub notices: Vec<Notice>,
    /// Its engine runs commands in it, which must not find it frozen: one that fails again and again can end it.
    pub has_health_check: bool,
    /// What is wrong with its log now, as a notice says it.
    log_problem: Option<String>,
    /// What is wrong with its GPU.
    gpu_problem: Option<String>,
    /// To recognise another run of the same container.
    pub run: Run,
    /// A snapshot had it.
    pub was_published: bool,
}

impl Job {
    /// A container that the engine told of. An operator's labels count before its own.
    pub fn of_container(
        container: &EngineContainer,
        info: &EngineInfo,
        adopted: Option<&Adoption>,
    ) -> Result<(Job, Option<LogFeed>), String> {
        let cgroup = Cgroup::of_container(container.pid, container.id.as_str()).map_err(|error| error.to_string())?;
        let mut target = Target::new(container.id.clone(), container.name.clone(), Runtime::Docker, cgroup);
        target.started_unix_ms = container.started_unix_ms;
        target.mark = Some(info.mark.clone());
        target.gpu_hook = container.gpu_hook;
        target.unit = unit(&container.id, info.name, &info.cgroup_driver);
        let mut labels = container.labels.clone();
        labels.extend(adopted.map(|adoption| adoption.labels.clone()).unwrap_or_default());
        let mut job = Job::new(target, Some(container.limits), &labels);
        job.adopted = adopted.cloned();
        job.training = Some(container.training);
        job.service = container.labels.get(SERVICE_LABEL).map(|id| Arc::from(id.as_str()));
        job.has_health_check = container.has_health_check;
        let age = super::journal::unix_ms().saturating_sub(container.started_unix_ms);
        job.started = Millis(node::now().0.saturating_sub(age));
        job.state = if container.paused { RunState::Paused } else { RunState::Running };
        job.run = (container.pid, container.started_unix_ms);
        if container.gpu_hook {
            let text = "an update through the engine could take its GPUs away: its cgroup is written directly";
            job.say(NoticeLevel::Info, text);
        }
        let mounts: Vec<(PathBuf, PathBuf)> =
            container.mounts.iter().map(|mount| (mount.source.clone(), mount.destination.clone())).collect();
        let feed = job.feed(container.pid, &mounts).or_else(|| job.engine_feed(container));
        Ok((job, feed))
    }

    /// A command that `flowctl run` registered.
    pub fn of_scope(scope: &ScopeRecord, output: Option<Output>) -> Result<(Job, Option<LogFeed>), String> {
        let start = StartTime(scope.start_ticks);
        let cgroup = Cgroup::of_scope(scope.pid, Some(start), &scope.cgroup)
            .or_else(|error| Cgroup::of_members(&scope.directories, &scope.cgroup).ok_or(error))
            .map_err(|error| error.to_string())?;
        let mut target = Target::new(ContainerId::new(&scope.id), scope.name.clone(), Runtime::Scope, cgroup);
        let started = Millis(scope.start_ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1));
        target.started_unix_ms = super::journal::unix_ms().saturating_sub(node::now().since(started).0);
        target.unit = scope.directories.iter().find_map(|directory| unit_of_scope(directory));
        let mut job = Job::new(target, None, &scope.labels);
        job.started = started;
        job.owner = Some(scope.uid);
        job.training = scope.training.as_deref().and_then(|text| text.parse().ok());
        job.run = (scope.pid, scope.start_ticks);
        let feed = output.map(|output| job.output_feed(output));
        if feed.is_none() {
            job.log_source = "none: its `flowctl run` is gone".to_owned();
        }
        Ok((job, feed))
    }

    /// What its owner handed over: its output, or the file of `flowcon.log`, which the owner's `flowctl` reads.
    pub fn output_feed(&mut self, output: Output) -> LogFeed {
        self.log_source = self.directives.log.as_ref().map_or("output".to_owned(), |path| format!("file {path}"));
        self.log_origin = output.origin;
        LogFeed::Plain(Source::Handed(Arc::new(output.file)))
    }

    pub(super) fn new(target: Target, engine: Option<EngineLimits>, labels: &BTreeMap<String, String>) -> Job {
        let (directives, problems) = config::directives(labels);
        let tracker = Tracker::new(&directives);
        let mut job = Job {
            target,
            engine_limits: engine,
            started: node::now(),
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
            frozen: None,
            log_source: "none".to_owned(),
            log_origin: None,
            notices: Vec::new(),
            has_health_check: false,
            log_problem: None,
            gpu_problem: None,
            run: (0, 0),
            was_published: false,
            directives: Arc::new(directives),
            pinned: None,
            adopted: None,
            training: None,
            service: None,
            price_elsewhere: None,
            price: None,
            owner: None,
            tracker,
            asking: Asking::default(),
        };
        for problem in problems.iter().chain(job.tracker.problems().to_vec().iter()) {
            job.say(NoticeLevel::Warning, problem);
        }
        job
    }

    /// The file that `flowcon.log` names.
    fn feed(&mut self, pid: u32, mounts: &[(PathBuf, PathBuf)]) -> Option<LogFeed> {
        let path = self.directives.log.clone()?;
        self.log_source = format!("file {path}");
        Some(LogFeed::Plain(Source::Inside(ContainerFile::new(Some(pid), mounts, Path::new(&path)))))
    }

    fn engine_feed(&mut self, container: &EngineContainer) -> Option<LogFeed> {
        match &container.log {
            LogSource::JsonFile(path) => {
                self.log_source = "json-file".to_owned();
                Some(LogFeed::JsonFile(path.clone()))
            }
            LogSource::Api { driver } => {
                self.log_source = format!("logs API ({driver})");
                Some(LogFeed::Api(container.log_format))
            }
            LogSource::None => {
                let text = "its log driver keeps nothing, so its learning is unknown; \
                            start it with another --log-driver, or name a file with the label flowcon.log";
                self.say(NoticeLevel::Warning, text);
                None
            }
        }
    }

    pub fn id(&self) -> &ContainerId {
        &self.target.id
    }

    /// Says something about this container, once per text.
    pub fn say(&mut self, level: NoticeLevel, text: &str) {
        if self.notices.iter().any(|notice| notice.text == text) {
            return;
        }
        tracing::warn!(container = %self.target.id, name = self.target.name, "{text}");
        if self.notices.len() == NOTICES_AT_MOST {
            self.notices.remove(0);
        }
        self.notices.push(notice(level, text));
    }

    /// Says what is wrong with its log now, and no longer what was.
    pub fn log_health(&mut self, problem: Option<String>) {
        let before = self.log_problem.take();
        self.log_problem = self.turn(before, problem);
    }

    /// Says what is wrong with its GPU now, and no longer what was.
    pub fn gpu_health(&mut self, problem: Option<String>) {
        let before = self.gpu_problem.take();
        self.gpu_problem = self.turn(before, problem);
    }

    fn turn(&mut self, before: Option<String>, problem: Option<String>) -> Option<String> {
        if let Some(before) = before.filter(|before| problem.as_ref() != Some(before)) {
            self.notices.retain(|notice| notice.text != before);
        }
        if let Some(text) = &problem {
            self.say(NoticeLevel::Warning, text);
        }
        problem
    }

    /// Its log answers: if this was what was wrong with it, it is no longer.
    pub fn log_answers(&mut self, silence: &str) {
        if self.log_problem.as_deref() == Some(silence) {
            self.log_health(None);
        }
    }

    /// Goes on where an earlier daemon stopped reading its log.
    pub fn read_on_from(&mut self, position: &ReadPosition) {
        self.place = Some(position.place);
        let checkpoint = position.checkpoint.as_deref().and_then(|text| serde_json::from_str(text).ok());
        if let Some(checkpoint) = checkpoint {
            self.tracker = Tracker::resume(&self.directives, &checkpoint);
        }
    }

    /// Goes on with what another node knew of it.
    ///
    /// # Errors
    /// It does not fit this container; nothing has changed.
    pub fn go_on_from(&mut self, record: &LearningRecord, now: Millis) -> Result<(), String> {
        self.tracker = record.resume(&self.directives, now)?;
        self.price_elsewhere = record.cpu_per_unit();
        Ok(())
    }

    /// CPU-seconds of a progress unit, of a job that began on another node.
    pub fn price_of_moved(&self) -> Option<f64> {
        self.price_elsewhere.map(|elsewhere| self.price.unwrap_or(elsewhere))
    }

    /// What is known of it, for the node to which it moves; `None` while that is nothing.
    pub fn record(&self, now: Millis) -> Option<LearningRecord> {
        let done = self.tracker.progress().map(|progress| progress.current);
        // All that it has used holds the start too, which is better than nothing.
        let used = || Some(self.usage.cpu?.as_secs_f64() / done?).filter(|price| price.is_finite() && *price > 0.0);
        let price = self.price.or(self.price_elsewhere).or_else(used);
        LearningRecord::of(&self.tracker, &self.directives, price, now)
    }

    /// What the machine of limits has to know of it. `ran_before`: before the daemon did.
    pub fn found(&self, ran_before: bool) -> Found {
        let target = &self.target;
        Found {
            id: target.id.clone(),
            name: target.name.clone(),
            runtime: target.runtime,
            run: self.run,
            mark: target.mark.clone(),
            is_late: target.is_late(),
            ran_before,
            stands: target.cgroup().limits(),
            engine: self.engine_limits,
        }
    }

    /// Where its log is, for the journal.
    pub fn position(&self) -> Option<ReadPosition> {
        let checkpoint = serde_json::to_string(&self.tracker.checkpoint()).ok();
        Some(ReadPosition { place: self.place?, checkpoint })
    }

    /// Reads its counters, and how much CPU it used since the last reading; a reading of this very moment is good enough. `whole`:
    /// all that a decision may use; otherwise what a look needs.
    pub fn refresh(&mut self, now: Millis, whole: bool) {
        let whole = whole || self.usage.cpu.is_none() || now.since(self.refreshed_whole) >= WHOLE_AT_LATEST;
        let last = if whole { self.refreshed_whole } else { self.refreshed };
        if self.usage.cpu.is_some() && now.since(last) < FRESH {
            return;
        }
        self.refreshed = now;
        if whole {
            self.refreshed_whole = now;
            self.usage = self.target.cgroup().usage();
        } else {
            self.target.cgroup().glance(&mut self.usage);
        }
        let Some(cpu) = self.usage.cpu else { return };
        match self.cpu_sample {
            Some((at, before)) if now.since(at) >= Millis(500) => {
                self.cores_used = Some(cpu.since(before).as_secs_f64() / now.since(at).as_secs_f64());
                self.cpu_sample = Some((now, cpu));
            }
            Some(_) => {}
            None => self.cpu_sample = Some((now, cpu)),
        }
    }

    /// Reads where it may run: seldom, because that asks each of its processes; often while it starts, because then it is being set.
    pub fn locate(&mut self, now: Millis) {
        let is_young = now.since(self.started) < WHOLE_AT_LATEST;
        if self.located > Millis(0) && !is_young && now.since(self.located) < WHOLE_AT_LATEST {
            return;
        }
        self.located = now;
        let place = self.target.cgroup().place();
        if place != *self.runs_on {
            self.runs_on = Arc::new(place);
        }
    }

    /// What is known of its learning; `close` ends the interval, which a tick does and nobody else.
    pub fn learning(&mut self, now: Millis, close: bool) -> Learning {
        let learning = if close { self.tracker.close_interval(now) } else { self.tracker.peek(now) };
        Learning { earlier_price: learning.earlier_price.or(self.price_elsewhere), ..learning }
    }

    pub fn memory_floor(&self) -> Option<Bytes> {
        self.directives.memory_floor
    }
}
