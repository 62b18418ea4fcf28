//! One governed container as the loop knows it.

use super::claims::Asking;
use super::drift::{self, Drift, Drifts};
use super::ended::Late;
use super::holds::Holds;
use super::logs::LogFeed;
use super::publish::notice;
use super::restore::{unit, unit_of_scope};
use super::scopes::Output;
use super::target::{Target, same_kind, standing, stands_in};
use crate::config;
use crate::host::cgroup::{Cgroup, StartTime};
use crate::host::docker::{EngineContainer, EngineInfo, LogSource};
use crate::host::node;
use crate::host::store::{LogPlace, Original, ReadPosition, ScopeRecord};
use crate::host::tail::{ContainerFile, Source};
use crate::model::{
    Adoption, Bytes, ContainerId, ContainerPlan, CpuTime, Directives, Learning, Limits, LogOrigin, Millis, Notice,
    NoticeLevel, Place, RunState, Runtime, Setting, Share, TrainingId, Usage,
};
use crate::progress::Tracker;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NOTICES_AT_MOST: usize = 16;
/// Counters are not read again sooner.
const FRESH: Millis = Millis(50);
/// All of them are read this often, also where no tick asks for them.
const WHOLE_AT_LATEST: Millis = Millis::from_secs(20);

/// A governed container.
pub(super) struct Job {
    pub target: Target,
    pub directives: Arc<Directives>,
    /// The share that an operator holds it at.
    pub pinned: Option<Share>,
    /// It lacks the label, and an operator said to govern it.
    pub adopted: Option<Adoption>,
    /// On the daemon's clock.
    pub started: Millis,
    pub state: RunState,
    pub holds: Holds,
    pub tracker: Tracker,
    /// When its command is read.
    pub asking: Asking,
    /// What it is a run of.
    pub training: Option<TrainingId>,
    /// Whose command it is; `None` for a container.
    pub owner: Option<u32>,
    /// Where it may run.
    pub runs_on: Arc<Place>,
    /// Where its log is read on.
    pub place: Option<LogPlace>,
    /// When the first log bytes came since the place was saved.
    pub unsaved_since: Option<Millis>,
    /// What was asked for and is not known to stand: it is being written, or an engine that did not answer in time may still do it.
    pub unsettled: Vec<Setting>,
    /// What others did to its limits.
    pub drifts: Drifts,
    /// What may still come of its last run, by our own hand.
    pub late: Option<Late>,
    pub usage: Usage,
    /// What stood when last read: at a tick, after a write of ours, or when somebody else wrote.
    pub limits: Limits,
    refreshed: Millis,
    refreshed_whole: Millis,
    located: Millis,
    /// The last two readings of its CPU counter.
    pub cpu_sample: Option<(Millis, CpuTime)>,
    /// Cores used between them.
    pub cores_used: Option<f64>,
    pub plan: Option<ContainerPlan>,
    pub log_source: String,
    pub log_origin: Option<LogOrigin>,
    pub notices: Vec<Notice>,
    /// What is wrong with its log now, as a notice says it.
    log_problem: Option<String>,
    /// Process id and start, to recognise another run of the same container.
    pub run: (u32, u64),
}

impl Job {
    /// A container that the engine told of. An operator's labels count before its own.
    pub fn of_container(
        container: &EngineContainer,
        info: &EngineInfo,
        adopted: Option<&Adoption>,
    ) -> Result<(Job, Option<LogFeed>), String> {
        let cgroup = Cgroup::of_process(container.pid, None).map_err(|error| error.to_string())?;
        let mut target = Target::new(container.id.clone(), container.name.clone(), Runtime::Docker, cgroup);
        target.started_unix_ms = container.started_unix_ms;
        target.engine_limits = Some(container.limits);
        target.mark = Some(info.mark.clone());
        target.gpu_hook = container.gpu_hook;
        target.unit = unit(&container.id, info.name, &info.cgroup_driver);
        let mut labels = container.labels.clone();
        labels.extend(adopted.map(|adoption| adoption.labels.clone()).unwrap_or_default());
        let mut job = Job::new(target, &labels);
        job.adopted = adopted.cloned();
        job.training = Some(container.training);
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
        let mut job = Job::new(target, &scope.labels);
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

    pub(super) fn new(target: Target, labels: &BTreeMap<String, String>) -> Job {
        let (directives, problems) = config::directives(labels);
        let tracker = Tracker::new(&directives);
        let limits = target.original;
        let mut job = Job {
            target,
            started: node::now(),
            state: RunState::Running,
            holds: Holds::default(),
            runs_on: Arc::default(),
            place: None,
            unsaved_since: None,
            drifts: Drifts::default(),
            late: None,
            unsettled: Vec::new(),
            usage: Usage::default(),
            limits,
            refreshed: Millis(0),
            refreshed_whole: Millis(0),
            located: Millis(0),
            cpu_sample: None,
            cores_used: None,
            plan: None,
            log_source: "none".to_owned(),
            log_origin: None,
            notices: Vec::new(),
            log_problem: None,
            run: (0, 0),
            directives: Arc::new(directives),
            pinned: None,
            adopted: None,
            training: None,
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
        if let Some(before) = self.log_problem.take() {
            self.notices.retain(|notice| notice.text != before);
        }
        if let Some(text) = &problem {
            self.say(NoticeLevel::Warning, text);
        }
        self.log_problem = problem;
    }

    /// Its log answers: if this was what was wrong with it, it is no longer.
    pub fn log_answers(&mut self, silence: &str) {
        if self.log_problem.as_deref() == Some(silence) {
            self.log_health(None);
        }
    }

    /// Takes over what an earlier daemon knew of this very container.
    pub fn recall(&mut self, known: Option<&(Original, Vec<Setting>)>, position: Option<&ReadPosition>) {
        if let Some((original, written)) = known {
            self.target.original = original.limits;
            self.target.engine_limits = original.engine.or(self.target.engine_limits);
            self.target.ours = of_each_kind(written, &self.limits);
        }
        let Some(position) = position else { return };
        self.place = Some(position.place);
        let checkpoint = position.checkpoint.as_deref().and_then(|text| serde_json::from_str(text).ok());
        if let Some(checkpoint) = checkpoint {
            self.tracker = Tracker::resume(&self.directives, &checkpoint);
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

    /// Reads which limits stand in its cgroup.
    pub fn read_limits(&mut self) {
        self.limits = self.target.cgroup().limits();
    }

    /// Whether what was asked for its last run may still be done.
    pub fn is_returning(&self, now: Millis) -> bool {
        self.late.as_ref().is_some_and(|late| now < late.until)
    }

    /// Compares what stands with what should.
    pub fn drift(&self, now: Millis) -> Option<Drift> {
        let late = self.late.as_ref().filter(|_| self.is_returning(now)).map_or(&[][..], |late| &late.asked);
        let unsettled: Vec<Setting> = self.unsettled.iter().chain(late).copied().collect();
        drift::drift(&self.target.original, &self.target.ours, &unsettled, &self.limits)
    }

    /// What of ours stands where an original should, once it is left alone.
    pub fn leftover(&self) -> Vec<Setting> {
        let (stands, original) = (&self.limits, &self.target.original);
        let is_left = |ours: &&Setting| {
            let has_original = standing(original, **ours).is_some();
            has_original && !stands_in(original, **ours) && stands_in(stands, **ours)
        };
        self.target.ours.iter().chain(&self.unsettled).filter(is_left).copied().collect()
    }

    /// Nothing of ours stands in it any more, and the journal has forgotten it.
    pub fn settled(&mut self) {
        self.target.ours.clear();
        self.unsettled.clear();
        self.read_limits();
    }

    /// Takes note of what is about to be written.
    pub fn asked(&mut self, settings: &[Setting]) {
        self.unsettled.retain(|known| !settings.iter().any(|setting| same_kind(*known, *setting)));
        self.unsettled.extend(settings);
    }

    /// Takes note of what stands after a write of ours.
    pub fn wrote(&mut self, stands: &[Setting]) {
        self.read_limits();
        for setting in stands {
            self.target.ours.retain(|ours| !same_kind(*ours, *setting));
            self.target.ours.push(*setting);
        }
    }

    /// What is known of its learning; `close` ends the interval, which a tick does and nobody else.
    pub fn learning(&mut self, now: Millis, close: bool) -> Learning {
        if close { self.tracker.close_interval(now) } else { self.tracker.peek(now) }
    }

    pub fn memory_floor(&self) -> Option<Bytes> {
        self.directives.memory_floor
    }
}

/// One of each kind: the one that stands, where there are two.
fn of_each_kind(written: &[Setting], stands: &Limits) -> Vec<Setting> {
    let mut ours: Vec<Setting> = Vec::new();
    for setting in written {
        match ours.iter_mut().find(|known| same_kind(**known, *setting)) {
            Some(known) if stands_in(stands, *setting) => *known = *setting,
            Some(_) => {}
            None => ours.push(*setting),
        }
    }
    ours
}
