//! The observation of a tick: everything that the governor may know, built once.

use super::ended::Ended;
use super::gpus::Gpus;
use super::job::{Job, Jobs};
use cgroup::Surroundings;
use limits::Ledger;
use limits::machine::Machine;
use model::{
    Bytes, ContainerId, ContainerObservation, CpuTime, Estimate, Health, JobStatus, LimitDrift, Millis,
    NodeObservation, RunState, Share, WorkForecast,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often the properties of the node are read: CPUs may be added or taken offline, and quotas may change.
const NODE_EVERY: Millis = Millis::from_secs(60);

/// Properties of the node that rarely change.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeProperties {
    cores: f64,
    memory: Bytes,
    read_at: Millis,
}

impl NodeProperties {
    pub(crate) fn of_host(now: Millis) -> NodeProperties {
        NodeProperties {
            cores: node::cores(cgroup::own_quota()),
            memory: node::memory().unwrap_or_default(),
            read_at: now,
        }
    }

    /// Reads them again if the last reading is old.
    pub(crate) fn refresh(&mut self, now: Millis) {
        if now.since(self.read_at) >= NODE_EVERY {
            *self = NodeProperties::of_host(now);
        }
    }
}

/// Observes all jobs, with the limits as last read. `close`: for a tick, which ends the trackers' intervals.
pub(super) fn observe(
    node: NodeProperties,
    jobs: &mut Jobs,
    (limits, gpus, ended): (&Machine, &Gpus, &Ended),
    now: Millis,
    close: bool,
) -> NodeObservation {
    let (gpus, mut uses) = gpus.observed(jobs);
    let sweeps = sweeps(jobs, ended);
    let mut around = Surroundings::default();
    let seen = |job: &mut Box<Job>| {
        let ledger = limits.ledger(job.id())?;
        job.refresh(now, close);
        job.locate(now, &mut around);
        let observed = observe_job(job, ledger, limits, now, close);
        let group = job.group.clone().filter(|group| sweeps.contains(group));
        Some(ContainerObservation { trial: group.map(|group| job.as_trial_of(group, close)), ..observed })
    };
    let with_gpus = |mut seen: ContainerObservation| {
        seen.gpus = uses.remove(&seen.id).unwrap_or_default();
        seen
    };
    let containers = jobs.values_mut().filter_map(seen).map(with_gpus).collect();
    let NodeProperties { cores, memory, .. } = node;
    // Snapshots do not show it.
    let idle = if close { node::idle() } else { Vec::new() };
    let pressure = cgroup::node_pressure();
    NodeObservation { now, cores, idle, memory, pressure, holdback: None, gpus, users: Vec::new(), containers }
}

/// The groups with several jobs, those that ended lately included.
fn sweeps(jobs: &Jobs, ended: &Ended) -> BTreeSet<Arc<str>> {
    let mut known: BTreeSet<&Arc<str>> = ended.sweeps().collect();
    jobs.values().filter_map(|job| job.group.as_ref()).filter(|group| !known.insert(group)).cloned().collect()
}

fn observe_job(job: &mut Job, ledger: &Ledger, limits: &Machine, now: Millis, close: bool) -> ContainerObservation {
    let (current, original) = job.target.governed(ledger);
    ContainerObservation {
        id: job.id().clone(),
        name: job.target.name.clone(),
        runtime: job.target.runtime,
        user: job.owner.user.clone(),
        started: job.started,
        state: job.state,
        place: Arc::clone(&job.runs_on),
        hold: ledger.hold(now, limits.is_everything_released()),
        bounds: job.bounds(),
        weight: job.directives.weight,
        memory_floor: job.memory_floor(),
        takes_turns: job.directives.takes_turns,
        memory_limit: job.ending.memory_limit(),
        deadline: job.directives.deadline.map(|after| job.started.after(after)),
        usage: job.usage,
        gpus: Vec::new(),
        limits: current,
        original,
        learning: job.learning(now, close),
        trial: None,
        health: Health::default(), // judged once everything else is known
    }
}

/// Raises the lower bound of jobs that may be ending to their share without flowcon: they must save their state within their grace period.
pub(super) fn let_end(node: &mut NodeObservation, may_be_ending: impl Fn(&ContainerId) -> bool) {
    let is_running = |job: &ContainerObservation| job.state == RunState::Running;
    let all: f64 = node.containers.iter().filter(|job| is_running(job)).map(|job| job.weight).sum();
    for job in node.containers.iter_mut().filter(|job| is_running(job) && may_be_ending(&job.id)) {
        let plain = (job.weight / all).min(job.bounds.max.fraction());
        job.bounds.min = Share::clamped(plain.max(job.bounds.min.fraction()));
    }
}

/// The time left, some seconds later.
fn passed(left: Estimate, seconds: f64) -> Estimate {
    let later = |left: f64| (left - seconds).max(0.0);
    Estimate { low: later(left.low), likely: later(left.likely), high: later(left.high) }
}

/// Returns the status of one job, for the snapshot.
pub(super) fn status_of(
    job: &Job,
    drifts: Vec<LimitDrift>,
    observed: ContainerObservation,
    forecast: Option<WorkForecast>,
    (now, cores): (Millis, f64),
) -> JobStatus {
    let running = observed.state == RunState::Running;
    let used = observed.usage.cpu.map(CpuTime::as_secs_f64);
    let is_trial = observed.trial.is_some();
    JobStatus {
        observed,
        plan: job.plan.clone(),
        time_left: job.time_left.map(|(at, left)| passed(left, now.since(at).as_secs_f64())),
        energy: job.energy.joules,
        forecast: forecast.zip(used).map(|(forecast, used)| forecast.after(used)),
        cpu_used: job.cores_used.filter(|_| running).map(|used| Share::clamped(used / cores).fraction()),
        frozen: job.frozen,
        threads: job.threads,
        recent: job.tracker.recent(),
        line: job.tracker.line().map(str::to_owned),
        log_source: job.log_source.clone(),
        log_origin: job.log_origin.clone(),
        directives: job.directives.clone(),
        drifts,
        pinned: job.pinned,
        adopted: job.adopted.clone(),
        restarts: job.restarts.clone(),
        parameters: Arc::clone(&job.parameters),
        expected_final: if is_trial { job.tracker.expected_final() } else { None },
        notices: job.notices.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeCgroup, TestDaemon, id};
    use super::*;
    use model::{CpuWeight, Limits, Runtime};

    #[tokio::test(flavor = "multi_thread")]
    async fn the_governor_sees_only_the_limits_that_last() {
        let mut daemon = TestDaemon::new(None);
        let folders = [FakeCgroup::of_a_user(), FakeCgroup::new()];
        for (folder, n) in folders.iter().zip([1, 2]) {
            daemon.add(&id(n), "job", folder, Runtime::Docker);
        }
        let seen = daemon.governing.observed(node::now(), false).containers;
        let weight = Limits { cpu_weight: Some(CpuWeight::DEFAULT), ..Limits::default() };
        assert_eq!((seen[0].limits, seen[0].original), (weight, weight));
        assert_eq!(
            (seen[1].limits.memory_low, seen[1].original.memory_low),
            (Some(Bytes(8 << 20)), Some(Bytes(8 << 20)))
        );
    }

    #[test]
    fn the_cores_and_memory_of_the_node_are_read_again_after_a_minute() {
        let mut node = NodeProperties { cores: 0.001, memory: Bytes(1), read_at: Millis(1_000) };
        node.refresh(Millis(60_999));
        assert_eq!((node.cores, node.memory), (0.001, Bytes(1)));
        node.refresh(Millis(61_000));
        assert!(node.cores > 0.001 && node.memory > Bytes(1), "{node:?}");
        assert_eq!(node.read_at, Millis(61_000));
    }
}
