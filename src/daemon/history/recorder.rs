//! Turns snapshots and events into rows worth keeping, for each job. Does not access the disk.

use super::noise::{Measure, cores_between, node_changed, worth};
use super::windows::Windows;
use crate::target::SAME_START_MS;
use model::{
    ContainerId, DecisionRecord, Event, EventKind, GpuUse, JobEnd, JobRecord, JobStatus, Learning, Millis, NodeSample,
    NodeStatus, Sample, TrialRecord,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use store::history::HistoryBatch;

/// A job of the previous daemon that is not found again within this time ended while no daemon ran.
const FOUND_AGAIN_WITHIN_MS: u64 = 60_000;
/// Rows that may wait for the disk; further rows are left out.
pub(super) const ROWS_AT_MOST: usize = 50_000;
/// Ended jobs whose logs are still drained; for further jobs the last observation stays.
const ENDED_AT_MOST: usize = 1_000;
/// Ends of jobs that may wait for a disk that fails; further ends are found after a restart of the daemon.
const ENDS_AT_MOST: usize = 10_000;
/// Blocks that may wait for the disk; each holds all jobs.
const BLOCKS_AT_MOST: usize = 100;

/// State of the history in memory.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    live: BTreeMap<ContainerId, Live>,
    /// Jobs that have just ended, with their last observations: their logs are still drained.
    ended: BTreeMap<ContainerId, (JobRecord, Sample)>,
    /// Jobs that the previous daemon left open.
    earlier: Vec<JobRecord>,
    next: u64,
    node: Option<NodeSample>,
    windows: Windows,
    batch: HistoryBatch,
}

#[derive(Debug)]
struct Live {
    job: JobRecord,
    /// Start time on the daemon's clock, which is never set.
    started: Millis,
    kept: Sample,
    latest: Sample,
    /// Cores used on average up to the kept sample.
    cores: Option<f64>,
    range: Option<(f64, f64)>,
}

impl Recorder {
    /// Continues a history with jobs below `next`; `earlier` are those without an end.
    pub(super) fn begin(next: u64, earlier: Vec<JobRecord>) -> Recorder {
        Recorder { next, earlier, ..Recorder::default() }
    }

    /// Returns the rows to be written, and starts a new batch.
    pub(super) fn take(&mut self) -> HistoryBatch {
        std::mem::take(&mut self.batch)
    }

    /// Puts back the ended jobs of a batch that could not be written, because nothing else would end them in the history. Their samples
    /// are left out.
    pub(super) fn put_back(&mut self, left_out: HistoryBatch) {
        let ended = left_out.jobs.into_iter().filter(|(_, job)| job.ended_unix_ms.is_some());
        for (number, job) in ended.take(ENDS_AT_MOST) {
            self.batch.jobs.entry(number).or_insert(job);
        }
    }

    /// Takes back a batch that is to be written to a new history, because this one is damaged.
    pub(super) fn take_back(&mut self, batch: HistoryBatch) {
        self.batch = batch;
    }

    /// Goes on in a new, empty history: the node and the running jobs, with their last samples, are written again.
    pub(super) fn go_on(&mut self) {
        self.node = None;
        for live in self.live.values() {
            if let Entry::Vacant(unwritten) = self.batch.jobs.entry(live.job.number) {
                unwritten.insert(live.job.clone());
                self.batch.samples.push(live.kept.clone());
            }
        }
    }

    /// Records a snapshot.
    pub(super) fn observe(&mut self, status: &NodeStatus) {
        self.observe_node(status);
        for job in &status.jobs {
            self.observe_job(job, status);
        }
        let live = &self.live;
        let over = self.windows.observe(status, |id| live.get(id).map(|live| live.job.number));
        self.batch.blocks.extend(over.filter(|_| self.batch.blocks.len() < BLOCKS_AT_MOST));
        let gone: Vec<ContainerId> = {
            let present: std::collections::BTreeSet<&ContainerId> =
                status.jobs.iter().map(|job| &job.observed.id).collect();
            self.live.keys().filter(|id| !present.contains(id)).cloned().collect()
        };
        gone.iter().for_each(|id| self.end(id, status.unix_ms));
        if !self.earlier.is_empty() && status.now.since(status.since).0 > FOUND_AGAIN_WITHIN_MS {
            for mut job in std::mem::take(&mut self.earlier) {
                job.ended_unix_ms = Some(job.last_unix_ms);
                self.batch.jobs.insert(job.number, job);
            }
        }
    }

    /// Records an event. Returns whether the rows should be written soon, because clients may ask about it, or be told after a crash.
    pub(super) fn happened(&mut self, event: &Event) -> bool {
        let ended = event.kind == EventKind::Ended;
        if let (true, Some(id)) = (ended, &event.container) {
            self.end(&ContainerId::new(id), event.unix_ms);
        }
        if self.batch.events.len() < ROWS_AT_MOST {
            self.batch.events.push(event.clone());
        }
        ended || event.alert.is_some()
    }

    /// Records how a job ended. A snapshot without the job may have come before.
    pub(super) fn ended(&mut self, id: &ContainerId, end: &JobEnd) {
        self.end(id, end.unix_ms);
        if let Some((job, _)) = self.ended.get_mut(id) {
            (job.exit_code, job.end) = (end.exit_code, Some(end.end));
            self.batch.jobs.insert(job.number, job.clone());
        }
    }

    fn observe_node(&mut self, status: &NodeStatus) {
        // Before the first look nothing is known of the node.
        if status.cores <= 0.0 {
            return;
        }
        let now = NodeSample {
            unix_ms: status.unix_ms,
            cores: status.cores,
            interval: status.interval,
            released: status.released,
            pressure: status.pressure,
            policy: status.settings.policy,
            objective: status.settings.objective.0,
            growth_threshold: status.settings.growth_threshold(),
        };
        if self.node.as_ref().is_none_or(|kept| node_changed(kept, &now)) {
            self.batch.node.push(now.clone());
            self.node = Some(now);
        }
    }

    fn observe_job(&mut self, status: &JobStatus, node: &NodeStatus) {
        let observed = &status.observed;
        let is_restarted = |live: &Live| live.started.0.abs_diff(observed.started.0) > SAME_START_MS;
        if self.live.get(&observed.id).is_some_and(is_restarted) {
            self.end(&observed.id, node.unix_ms); // there was no report of its end
        }
        let Some(live) = self.live.get_mut(&observed.id) else {
            return self.found(status, node);
        };
        if describe(&mut live.job, status) {
            self.batch.jobs.insert(live.job.number, live.job.clone());
        }
        let mut now = sample(status, live.job.number, node.unix_ms.max(live.latest.unix_ms + 1));
        // A cgroup that is being removed cannot be read any more; its counters never decrease.
        now.cpu = now.cpu.or(live.latest.cpu);
        now.memory = now.memory.or(live.latest.memory);
        now.energy = now.energy.or(live.latest.energy);
        if let Some(value) = now.value.filter(|value| value.is_finite()) {
            let (low, high) = live.range.unwrap_or((value, value));
            live.range = Some((low.min(value), high.max(value)));
        }
        let measure = Measure {
            started_unix_ms: live.job.started_unix_ms,
            total: live.job.total,
            range: live.range,
            cores: live.cores,
        };
        if live.latest.value.is_none() {
            keep_first_value(&mut self.batch, &mut live.job, status, &mut now);
        }
        if let Some(is_turn) = worth(&live.kept, &now, &measure) {
            now.is_turn = is_turn;
            live.cores = cores_between(&live.kept, &now);
            keep(&mut self.batch, &mut live.job, now.clone());
            live.kept = now.clone();
        }
        live.latest = now;
    }

    fn found(&mut self, status: &JobStatus, node: &NodeStatus) {
        let (id, unix_ms) = (&status.observed.id, node.unix_ms);
        // What an earlier daemon stored is in wall-clock time.
        let started = unix_ms.saturating_sub(node.now.since(status.observed.started).0);
        let same = |job: &JobRecord| job.id == *id && job.started_unix_ms.abs_diff(started) <= SAME_START_MS;
        let known = self.earlier.iter().position(same).map(|place| self.earlier.remove(place));
        let mut job = known.unwrap_or_else(|| {
            self.next += 1;
            JobRecord {
                number: self.next - 1,
                id: id.clone(),
                name: status.observed.name.clone(),
                runtime: status.observed.runtime,
                started_unix_ms: started,
                first_unix_ms: unix_ms,
                last_unix_ms: unix_ms,
                ended_unix_ms: None,
                exit_code: None,
                end: None,
                original_weight: None,
                metric: None,
                direction: None,
                unit: None,
                total: None,
                user: None,
                lost_s: None,
                trial: None,
            }
        });
        describe(&mut job, status);
        let mut first = sample(status, job.number, unix_ms.max(job.last_unix_ms));
        first.is_turn = true;
        keep_first_value(&mut self.batch, &mut job, status, &mut first);
        keep(&mut self.batch, &mut job, first.clone());
        let range = first.value.filter(|value| value.is_finite()).map(|value| (value, value));
        let started = status.observed.started;
        let live = Live { job, started, kept: first.clone(), latest: first, cores: None, range };
        self.live.insert(id.clone(), live);
    }

    fn end(&mut self, id: &ContainerId, unix_ms: u64) {
        let Some(mut live) = self.live.remove(id) else { return };
        if live.latest.unix_ms > live.kept.unix_ms {
            keep(&mut self.batch, &mut live.job, Sample { is_turn: true, ..live.latest.clone() });
        }
        let ended = unix_ms.max(live.job.last_unix_ms);
        live.job.last_unix_ms = ended;
        live.job.ended_unix_ms = Some(ended);
        self.batch.jobs.insert(live.job.number, live.job.clone());
        if self.ended.len() < ENDED_AT_MOST {
            self.ended.insert(id.clone(), (live.job, live.latest));
        }
    }

    /// Records what was read from the log of an ended job: its last lines come after the last snapshot.
    pub(super) fn read_to_end(&mut self, id: &ContainerId, learning: &Learning) {
        let Some((mut job, latest)) = self.ended.remove(id) else { return };
        let ended = job.ended_unix_ms.unwrap_or(job.last_unix_ms).max(latest.unix_ms + 1);
        let last = Sample { unix_ms: ended, is_turn: true, ..learnt(learning, latest.clone()) };
        if (last.value, last.progress) != (latest.value, latest.progress) {
            describe_learning(&mut job, learning);
            job.ended_unix_ms = Some(ended);
            keep(&mut self.batch, &mut job, last);
        }
    }
}

/// Adds a sample and its job, so that each batch is complete even if an earlier one was lost.
fn keep(batch: &mut HistoryBatch, job: &mut JobRecord, sample: Sample) {
    job.last_unix_ms = sample.unix_ms;
    batch.jobs.insert(job.number, job.clone());
    if batch.samples.len() < ROWS_AT_MOST {
        batch.samples.push(sample);
    }
}

/// Adds the first value of a job's curve if several values came before the first snapshot with any; `now` is moved after it.
fn keep_first_value(batch: &mut HistoryBatch, job: &mut JobRecord, status: &JobStatus, now: &mut Sample) {
    let Some((first, _)) = status.recent.split_first().filter(|(_, later)| !later.is_empty()) else { return };
    // Otherwise the list holds only the latest values.
    if usize::try_from(status.observed.learning.evaluations).is_ok_and(|all| all == status.recent.len()) {
        keep(
            batch,
            job,
            Sample {
                value: Some(*first),
                progress: None,
                quality: None,
                time_left: None,
                is_turn: true,
                ..now.clone()
            },
        );
        now.unix_ms += 1;
    }
}

/// Updates what can be learnt of a job only while it runs. Returns whether it has another name, user or sweep now.
fn describe(job: &mut JobRecord, status: &JobStatus) -> bool {
    let mut is_news = false;
    if job.name != status.observed.name {
        job.name.clone_from(&status.observed.name);
        is_news = true;
    }
    if job.user.as_deref() != status.observed.user.as_deref() {
        job.user = status.observed.user.as_deref().map(str::to_owned);
        is_news = true;
    }
    let group = status.observed.trial.as_ref().map(|trial| trial.group.as_ref());
    // A trial that goes on alone stays one of its sweep.
    if let Some(group) = group.filter(|group| job.trial.as_ref().is_none_or(|known| known.group != *group)) {
        job.trial = Some(TrialRecord {
            group: group.to_owned(),
            group_name: status.directives.group.name().map(str::to_owned),
            parameters: status.parameters.to_vec(),
        });
        is_news = true;
    }
    job.original_weight = status.observed.original.cpu_weight.or(job.original_weight);
    job.lost_s = status.forecast.and_then(|forecast| forecast.lost_s).or(job.lost_s);
    describe_learning(job, &status.observed.learning);
    is_news
}

fn describe_learning(job: &mut JobRecord, learning: &Learning) {
    if job.metric != learning.metric && learning.metric.is_some() {
        job.metric.clone_from(&learning.metric);
    }
    job.direction = learning.direction.or(job.direction);
    if let Some(progress) = learning.progress {
        job.unit = Some(progress.unit);
        job.total = progress.total.or(job.total);
    }
}

fn sample(status: &JobStatus, job: u64, unix_ms: u64) -> Sample {
    let observed = &status.observed;
    let (gpus, gpu_memory) = GpuUse::sum(&observed.gpus);
    let seen = Sample {
        job,
        unix_ms,
        cpu: observed.usage.cpu,
        memory: observed.usage.memory,
        gpus,
        gpu_memory,
        value: None,
        progress: None,
        quality: None,
        time_left: status.time_left,
        energy: status.energy,
        weight: observed.limits.cpu_weight,
        state: observed.state,
        hold: observed.hold.clone(),
        decision: status.plan.as_ref().map(|plan| DecisionRecord {
            list: plan.list,
            growth: plan.growth,
            limit: plan.limit,
            share: plan.share,
            reason: plan.reason.clone(),
        }),
        is_turn: false,
    };
    learnt(&observed.learning, seen)
}

/// Returns the sample with the state of learning at that time.
fn learnt(learning: &Learning, seen: Sample) -> Sample {
    Sample {
        value: learning.latest.map(|latest| latest.value),
        progress: learning.progress.map(|progress| progress.current),
        quality: learning.curve.map(|curve| curve.quality),
        ..seen
    }
}
