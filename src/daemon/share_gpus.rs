//! Has jobs that share a GPU frozen for parts of the time, so that the favoured one keeps its speed: `gpu.control = "duty-cycle"`.
//!
//! The policy says which part of the time each is to be frozen; the guard, a process of its own, does it. In between stands what makes it
//! safe: nobody is frozen before the journal knows; nobody whom an operator, an engine or a policy has excepted; and whoever is not asked
//! for any more goes on. Imports: the loop, the actuator, jobs, GPUs, host's freezer and store, policy, model.

use super::actuator::Order;
use super::duty::turns;
use super::event::Part;
use super::governing::Governing;
use super::job::Job;
use crate::config::GpuControl;
use crate::host::freezer::{self, Plan};
use crate::host::node;
use crate::host::store::Freezable;
use crate::model::{ContainerId, ContainerPlan, Millis, NoticeLevel, PolicyName, RunState};
use crate::policy::GpuJob;
use std::collections::BTreeMap;
use std::path::PathBuf;

const NOTICE: &str = "it shares a GPU with a job that is favoured: it is frozen for parts of the time (gpu.control); at such a moment \
                      docker exec and docker pause fail, and can be tried again";

const NO_FREEZE: &str = "it shares a GPU and is not frozen for others (gpu.control), because it has a health check: that would fail in a freeze";

impl Governing {
    /// Once a second: asks who is to be frozen for which part of the time, and has it done.
    pub(super) fn share_gpus(&mut self) {
        let is_on = self.settings.gpu_control == GpuControl::DutyCycle;
        if !is_on && self.duty.is_idle() {
            return;
        }
        let now = node::now();
        let wanted = if is_on { self.parts_frozen(now) } else { BTreeMap::new() };
        for id in wanted.keys() {
            self.note_freezable(id);
        }
        let parts: Vec<(ContainerId, PathBuf, f64)> = wanted
            .iter()
            .filter_map(|(id, part)| Some((id.clone(), PathBuf::from(&self.duty.noted.get(id)?.cgroup), *part)))
            .collect();
        let at_most_ms = self.settings.freeze_at_most.0;
        let cgroups: Vec<(PathBuf, f64)> = parts.iter().map(|(_, cgroup, part)| (cgroup.clone(), *part)).collect();
        let leave = self.duty.leave.clone();
        let plan = Plan { period_ms: at_most_ms, at_most_ms, turns: turns(&cgroups), leave };
        let followed = self.duty.guard.follow(&plan);
        self.publisher.health(Part::Freeze, followed.as_ref().err().cloned());
        let Ok(followed) = followed else {
            return self.duty.planned.clear();
        };
        if let Some(report) = followed.report {
            for (id, problem) in self.duty.reported(&report, now) {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.say(NoticeLevel::Warning, &problem);
                }
            }
            // The report answers the plan before this one.
            for id in self.duty.let_go() {
                if !wanted.contains_key(&id) && self.actuator.order(Order::Thawed(id.clone())) {
                    self.duty.noted.remove(&id);
                }
            }
        }
        if !followed.is_handed_over {
            return;
        }
        self.duty.leave.clear();
        self.duty.planned = parts.into_iter().map(|(id, ..)| id).collect();
        for (id, job) in &mut self.jobs {
            job.frozen = self.duty.share(id);
        }
        for id in &self.duty.planned {
            if let Some(job) = self.jobs.get_mut(id) {
                job.say(NoticeLevel::Info, NOTICE);
            }
        }
    }

    /// For which part of the time the policy wants whom frozen.
    fn parts_frozen(&mut self, now: Millis) -> BTreeMap<ContainerId, f64> {
        let is_plain = self.blocks.now(&self.settings.policy, now).is_some_and(|block| block.plain);
        let (_, uses) = self.gpus.observed(&self.jobs);
        let mut gpu_jobs: BTreeMap<u32, Vec<GpuJob>> = BTreeMap::new();
        for (id, parts) in uses {
            let is_held = self.limits.hold(&id, now).is_some();
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if job.has_health_check {
                job.say(NoticeLevel::Info, NO_FREEZE);
            }
            let Some(plan) = &job.plan else { continue };
            if is_held || job.has_health_check || job.state != RunState::Running {
                continue;
            }
            // The instances of a divided GPU are apart by themselves.
            for part in parts.iter().filter(|part| part.instance.is_none()) {
                let Some(share) = share_of(plan, part.gpu) else { continue };
                let gpu_job = GpuJob { id: id.clone(), share, progress: job.tracker.progress() };
                gpu_jobs.entry(part.gpu).or_default().push(gpu_job);
            }
        }
        let is_watching = self.settings.policy.policy == PolicyName::Fair || is_plain;
        self.duty.favours.retain(|gpu, _| gpu_jobs.contains_key(gpu) && !is_watching);
        let mut wanted: BTreeMap<ContainerId, f64> = BTreeMap::new();
        for (gpu, gpu_jobs) in gpu_jobs.iter().filter(|_| !is_watching) {
            for (id, part) in self.duty.favours.entry(*gpu).or_default().step(gpu_jobs, now) {
                let most = wanted.entry(id).or_default();
                *most = most.max(part);
            }
        }
        wanted
    }

    /// Has the journal note that a job may be frozen, once.
    fn note_freezable(&mut self, id: &ContainerId) {
        if self.duty.noted.contains_key(id) || self.duty.asked.contains(id) {
            return;
        }
        let Some(note) = self.jobs.get(id).and_then(|job| freezable(job)) else { return };
        if self.actuator.order(Order::MayFreeze(note)) {
            self.duty.asked.insert(id.clone());
        }
    }

    /// The journal knows it, or cannot.
    pub(super) fn may_freeze(&mut self, note: Freezable, problem: Option<String>) {
        let is_asked = self.duty.asked.remove(&note.id);
        match problem {
            None if note.is_paused || !is_asked => {}
            None => drop(self.duty.noted.insert(note.id.clone(), note)),
            Some(why) => {
                if let Some(job) = self.jobs.get_mut(&note.id) {
                    job.say(NoticeLevel::Warning, &format!("it is not frozen, because that cannot be noted: {why}"));
                }
            }
        }
    }

    /// An engine has paused a job, or lets it go on. Whoever has turns is the engine's from now on, or is so no longer.
    pub(super) fn paused_by_engine(&mut self, id: &ContainerId, is_paused: bool) {
        let duty = &mut self.duty;
        let note = if is_paused { duty.noted.remove(id) } else { duty.paused.remove(id) };
        let Some(note) = note.map(|note| Freezable { is_paused, ..note }) else { return };
        let cgroup = PathBuf::from(&note.cgroup);
        if is_paused {
            duty.leave.push(cgroup);
            duty.paused.insert(id.clone(), note.clone());
        } else {
            duty.leave.retain(|path| *path != cgroup);
            // It was frozen for the engine once more, should that have come after the engine let it go on.
            if let Err(error) = freezer::thaw(&cgroup) {
                self.publisher.health(Part::Freeze, Some(format!("{}: {error}; `flowcond restore` helps", note.name)));
            }
        }
        let is_ordered = self.actuator.order(Order::MayFreeze(note));
        if is_ordered && !is_paused {
            self.duty.asked.insert(id.clone()); // noted again, and forgotten once the guard has answered
        }
        self.share_gpus();
    }
}

/// What the policy gives a job of this GPU, or of the node, if it ranks nobody on GPUs. `None`: it is not ranked there, because nothing is
/// known of its work yet or something else limits it, and so it is not frozen.
fn share_of(plan: &ContainerPlan, gpu: u32) -> Option<f64> {
    if plan.gpus.is_empty() {
        return Some(plan.share.fraction());
    }
    let on_gpu = plan.gpus.iter().find(|part| part.gpu == gpu && part.rank.is_some())?;
    Some(on_gpu.share.fraction())
}

/// What the journal is to know of a job before it is frozen; `None` where it cannot be.
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
