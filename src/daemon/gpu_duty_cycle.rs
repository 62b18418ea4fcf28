//! Freezes jobs that share a GPU for part of the time, so that the favoured one keeps its speed: `gpu.control = "duty-cycle"`.
//!
//! The policy decides for which share of the time each job is frozen; the guard, a separate process, freezes it. This module keeps that
//! safe: no job is frozen before the journal has recorded it, or while an operator, its engine or the policy exempts it, and a job that
//! is no longer to be frozen is thawed.

use super::actuator::Request;
use super::event::Component;
use super::governing::Governing;
use super::gpu_duty_state::turns;
use super::job::Job;
use super::subject::Subject;
use config::GpuControl;
use freezer::Plan;
use model::{ContainerId, ContainerPlan, GpuUse, Millis, PolicyName, RunState};
use policy::{GpuJob, TURN_PERIOD};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use store::Freezable;

const NOTICE: &str = "it shares a GPU with a favoured job and is frozen for part of the time (gpu.control); \
                      while it is frozen, docker exec and docker pause fail: try again";

const NO_FREEZE: &str = "it shares a GPU and is not frozen for others (gpu.control), because it has a health check, \
                         which would fail while frozen";

impl Governing {
    /// Asks the policy which jobs to freeze for which share of the time, and instructs the guard; once a second.
    pub(super) fn share_gpus(&mut self) {
        let is_on = self.settings.gpu_control == GpuControl::DutyCycle;
        if !is_on && self.duty.is_idle() {
            return;
        }
        let now = node::now();
        self.thaw_again();
        let (wanted, exempt) = if is_on { self.parts_frozen(now) } else { Default::default() };
        for id in wanted.keys() {
            self.record_freezable(id);
        }
        let parts: Vec<(ContainerId, PathBuf, f64)> = wanted
            .iter()
            .filter_map(|(id, part)| Some((id.clone(), PathBuf::from(&self.duty.recorded.get(id)?.cgroup), *part)))
            .collect();
        let at_most_ms = self.settings.freeze_at_most.0;
        let period_ms = (at_most_ms as f64 * TURN_PERIOD) as u64;
        let cgroups: Vec<(PathBuf, f64)> = parts.iter().map(|(_, cgroup, part)| (cgroup.clone(), *part)).collect();
        let leave = self.duty.leave.clone();
        let plan = Plan { period_ms, at_most_ms, turns: turns(&cgroups), leave };
        let followed = self.duty.guard.follow(&plan);
        self.publisher.health(Component::Freeze, followed.as_ref().err().cloned());
        let Ok(followed) = followed else {
            self.duty.planned.clear();
            return self.update_notices(&wanted, &exempt, &BTreeMap::new());
        };
        let mut problems = BTreeMap::new();
        if let Some(report) = followed.report {
            problems = self.duty.reported(&report, now);
            // The report belongs to the plan before this one.
            for id in self.duty.let_go() {
                let is_wanted = wanted.contains_key(&id) || self.duty.unthawed.contains_key(&id);
                if !is_wanted && self.actuator.request(Request::Thawed(id.clone())) {
                    self.duty.recorded.remove(&id);
                }
            }
        }
        if followed.is_sent {
            self.duty.leave.clear();
            self.duty.planned = parts.into_iter().map(|(id, ..)| id).collect();
        }
        self.update_notices(&wanted, &exempt, &problems);
    }

    /// Updates what each job shows about freezing. `problems`: news of the guard.
    pub(super) fn update_notices(
        &mut self,
        wanted: &BTreeMap<ContainerId, f64>,
        exempt: &BTreeSet<ContainerId>,
        problems: &BTreeMap<ContainerId, Option<String>>,
    ) {
        self.duty.has_notices = !wanted.is_empty() || !exempt.is_empty() || !self.duty.planned.is_empty();
        for (id, job) in &mut self.jobs {
            job.frozen = self.duty.share(id);
            let is_planned = self.duty.planned.contains(id);
            let notice = if is_planned { Some(NOTICE) } else { exempt.contains(id).then_some(NO_FREEZE) };
            job.set_notice(Subject::Freezing, notice.map(str::to_owned));
            match problems.get(id) {
                _ if !is_planned => job.set_notice(Subject::FreezeProblem, None),
                Some(problem) => job.set_notice(Subject::FreezeProblem, problem.clone()),
                None => {}
            }
            if !wanted.contains_key(id) {
                job.set_notice(Subject::FreezeRecord, None);
            }
        }
    }

    /// Thaws jobs that may still be frozen after their engine unpaused them, until that succeeds and the guard, too, has left them to the
    /// engine. Jobs with turns are left to the guard.
    fn thaw_again(&mut self) {
        let is_last = self.duty.guard.has_answered();
        for (id, cgroup) in std::mem::take(&mut self.duty.unthawed) {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let is_thawed = self.duty.planned.contains(&id) || freezer::thaw(&cgroup).is_ok();
            if is_thawed {
                job.set_notice(Subject::Thaw, None);
            }
            if !is_thawed || !is_last {
                self.duty.unthawed.insert(id, cgroup);
            }
        }
    }

    /// Returns the share of the time for which the policy wants each job frozen, and the jobs that are exempt because of a health check.
    fn parts_frozen(&mut self, now: Millis) -> (BTreeMap<ContainerId, f64>, BTreeSet<ContainerId>) {
        let is_plain = self.blocks.now(&self.settings.policy, now).is_some_and(|block| block.plain);
        let (_, uses) = self.gpus.observed(&self.jobs);
        let shared = shared(&uses);
        let mut gpu_jobs: BTreeMap<u32, Vec<GpuJob>> = BTreeMap::new();
        let mut exempt = BTreeSet::new();
        for (id, parts) in uses {
            let is_held = self.limits.hold(&id, now).is_some();
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let is_free = is_held || job.ending.may_be_near(now);
            if job.has_health_check && parts.iter().any(|part| part.instance.is_none() && shared.contains(&part.gpu)) {
                exempt.insert(id.clone());
            }
            let Some(plan) = &job.plan else { continue };
            if is_free || job.has_health_check || job.state != RunState::Running {
                continue;
            }
            // The instances of a divided GPU are isolated from each other.
            for part in parts.iter().filter(|part| part.instance.is_none()) {
                let Some(share) = share_of(plan, part.gpu) else { continue };
                let gpu_job = GpuJob { id: id.clone(), share, progress: job.tracker.progress() };
                gpu_jobs.entry(part.gpu).or_default().push(gpu_job);
            }
        }
        let is_inactive = self.settings.policy.policy == PolicyName::Fair || is_plain;
        self.duty.favours.retain(|gpu, _| gpu_jobs.contains_key(gpu) && !is_inactive);
        let mut on_gpus: BTreeMap<u32, OnGpu> = BTreeMap::new();
        for (gpu, gpu_jobs) in gpu_jobs.iter().filter(|_| !is_inactive) {
            let favour = self.duty.favours.entry(*gpu).or_default();
            let frozen = favour.step(gpu_jobs, now);
            on_gpus.insert(*gpu, OnGpu { favoured: favour.favoured().cloned(), frozen });
        }
        for gpu in futile(&on_gpus) {
            on_gpus.remove(&gpu);
            self.duty.favours.remove(&gpu); // the speed of a job that is frozen elsewhere is not its speed alone
        }
        let mut wanted: BTreeMap<ContainerId, f64> = BTreeMap::new();
        for (id, part) in on_gpus.into_values().flat_map(|on_gpu| on_gpu.frozen) {
            let most = wanted.entry(id).or_default();
            *most = most.max(part);
        }
        (wanted, exempt)
    }

    /// Has the journal record that a job may be frozen, once.
    fn record_freezable(&mut self, id: &ContainerId) {
        if self.duty.recorded.contains_key(id) || self.duty.requested.contains(id) {
            return;
        }
        let Some(record) = self.jobs.get(id).and_then(|job| freezable(job)) else { return };
        if self.actuator.request(Request::MayFreeze(record)) {
            self.duty.requested.insert(id.clone());
        }
    }

    /// Handles the journal's answer to such a request.
    pub(super) fn may_freeze(&mut self, record: Freezable, problem: Option<String>) {
        let is_requested = self.duty.requested.remove(&record.id);
        let notice = problem.map(|why| format!("it is not frozen, because the journal cannot record it: {why}"));
        let is_recorded = notice.is_none() && !record.is_paused && is_requested;
        if let Some(job) = self.jobs.get_mut(&record.id) {
            job.set_notice(Subject::FreezeRecord, notice);
        }
        if is_recorded {
            self.duty.recorded.insert(record.id.clone(), record);
        }
    }

    /// Handles a pause by the engine, or its end: a job with turns belongs to the engine while it is paused.
    pub(super) fn paused_by_engine(&mut self, id: &ContainerId, is_paused: bool) {
        let duty = &mut self.duty;
        let record = if is_paused { duty.recorded.remove(id) } else { duty.paused.remove(id) };
        let Some(record) = record.map(|record| Freezable { is_paused, ..record }) else { return };
        let cgroup = PathBuf::from(&record.cgroup);
        if is_paused {
            duty.leave.push(cgroup);
            duty.unthawed.remove(id); // the engine unpauses it
            duty.paused.insert(id.clone(), record.clone());
        } else {
            duty.leave.retain(|path| *path != cgroup);
            // The guard may have frozen it again after the engine unpaused it, and may still do so to leave it to the engine.
            duty.unthawed.insert(id.clone(), cgroup.clone());
            if let Err(error) = freezer::thaw(&cgroup) {
                let problem = format!(
                    "it is frozen although its engine unpaused it, and cannot be thawed: {error}; this is tried again every \
                     second, and when flowcond is restarted"
                );
                if let Some(job) = self.jobs.get_mut(id) {
                    job.set_notice(Subject::Thaw, Some(problem));
                }
            }
        }
        let was_requested = self.actuator.request(Request::MayFreeze(record));
        if was_requested && !is_paused {
            self.duty.requested.insert(id.clone()); // recorded again, and forgotten once the guard has reported
        }
        self.share_gpus();
    }
}

/// What the policy wants on one GPU.
struct OnGpu {
    favoured: Option<ContainerId>,
    /// Jobs to freeze, and for which part of the time.
    frozen: BTreeMap<ContainerId, f64>,
}

/// Returns the GPUs whose favoured job is itself to be frozen, for another GPU: without it and the others, such a GPU would be idle.
fn futile(on_gpus: &BTreeMap<u32, OnGpu>) -> Vec<u32> {
    let is_frozen = |id: &ContainerId| on_gpus.values().any(|on_gpu| on_gpu.frozen.contains_key(id));
    let futile = on_gpus.iter().filter(|(_, on_gpu)| on_gpu.favoured.as_ref().is_some_and(is_frozen));
    futile.map(|(gpu, _)| *gpu).collect()
}

/// Returns the undivided GPUs that several jobs use.
fn shared(uses: &BTreeMap<ContainerId, Vec<GpuUse>>) -> BTreeSet<u32> {
    let mut users: BTreeMap<u32, usize> = BTreeMap::new();
    for part in uses.values().flatten().filter(|part| part.instance.is_none()) {
        *users.entry(part.gpu).or_default() += 1;
    }
    users.into_iter().filter(|(_, users)| *users > 1).map(|(gpu, _)| gpu).collect()
}

/// Returns the job's share of this GPU, or of the node if the policy does not rank jobs on GPUs. `None`: the job is not ranked on the GPU,
/// because its work is unknown or something else limits it, and is not frozen.
fn share_of(plan: &ContainerPlan, gpu: u32) -> Option<f64> {
    if plan.gpus.is_empty() {
        return Some(plan.share.fraction());
    }
    let on_gpu = plan.gpus.iter().find(|part| part.gpu == gpu && part.rank.is_some())?;
    Some(on_gpu.share.fraction())
}

/// Returns the journal's record of a job that may be frozen; `None` if it cannot be frozen.
fn freezable(job: &Job) -> Option<Freezable> {
    let target = &job.target;
    Some(Freezable {
        id: target.id.clone(),
        runtime: target.runtime,
        name: target.name.clone(),
        cgroup: target.cgroup().freezer()?.to_string_lossy().into_owned(),
        boot_id: node::boot_id()?,
        is_paused: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ContainerId {
        ContainerId::new(name)
    }

    #[test]
    fn no_job_is_frozen_for_one_that_is_itself_frozen_for_another_gpu() {
        let on = |favoured: &str, frozen: &str| OnGpu {
            favoured: Some(id(favoured)),
            frozen: BTreeMap::from([(id(frozen), 0.9)]),
        };
        assert_eq!(futile(&BTreeMap::from([(0, on("a", "b")), (1, on("c", "a"))])), [0]);
        assert_eq!(futile(&BTreeMap::from([(0, on("a", "b")), (1, on("b", "a"))])), [0, 1]);
        assert!(futile(&BTreeMap::from([(0, on("a", "b")), (1, on("a", "b")), (2, on("c", "d"))])).is_empty());
    }

    #[test]
    fn only_an_undivided_gpu_that_several_jobs_use_is_shared() {
        let on = |gpu: u32, instance: Option<u32>| GpuUse { gpu, instance, ..GpuUse::default() };
        let uses = [
            ("a", vec![on(0, None), on(1, None)]),
            ("b", vec![on(1, None), on(2, Some(0))]),
            ("c", vec![on(2, Some(1))]),
        ];
        let uses: BTreeMap<ContainerId, Vec<GpuUse>> =
            uses.into_iter().map(|(name, parts)| (id(name), parts)).collect();
        assert_eq!(shared(&uses), BTreeSet::from([1]));
    }
}
