//! State of the duty cycles of frozen jobs, as known to the journal and the guard; [`super::gpu_duty_cycle`] keeps it between two looks.

use config::GpuControl;
use freezer::{Guard, Turn, TurnResults};
use model::{ContainerId, GpuUse, Millis};
use policy::Favour;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Freezable;

/// How often the policy is asked, and the guard learns that the daemon lives.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Window over which the frozen share of a job is measured.
const WINDOW: Millis = Millis::from_secs(60);
/// A hindrance of `gpu.control` is reported after this time: the first readings take a moment.
const HINDERED_FOR: Millis = Millis::from_secs(60);

const NO_GPU: &str = "gpu.control has no effect, because the daemon sees no GPU: `flowctl doctor` shows why; its unit denies it the \
                      devices unless a drop-in allows them (`flowctl help operations`, UNIT)";

const NO_SHARES: &str = "gpu.control = \"duty-cycle\" has no effect, because the driver does not report the GPU time of each process; \
                         update the driver, or set gpu.control to \"mps\" or \"off\" (virtual GPUs and WSL never report it)";

/// The frozen jobs, and the share of time for which each is frozen.
#[derive(Default)]
pub(super) struct Duty {
    pub guard: Guard,
    /// Jobs that the journal knows may be frozen.
    pub recorded: BTreeMap<ContainerId, Freezable>,
    /// Jobs that the journal was asked to record.
    pub requested: BTreeSet<ContainerId>,
    /// Jobs with turns in the plan that the guard has.
    pub planned: BTreeSet<ContainerId>,
    /// Jobs that their engine paused, as the journal has them.
    pub paused: BTreeMap<ContainerId, Freezable>,
    /// Jobs without turns that may still be frozen after their engine unpaused them.
    pub unthawed: BTreeMap<ContainerId, PathBuf>,
    /// Whether jobs may have notices about freezing.
    pub has_notices: bool,
    /// Cgroups that the guard must let go, not yet sent to it.
    pub leave: Vec<PathBuf>,
    frozen: BTreeMap<ContainerId, Frozen>,
    /// Why `gpu.control` has no effect, and since when.
    hindered: Option<(Millis, &'static str)>,
    /// State of the policy, by GPU index.
    pub favours: BTreeMap<u32, Favour>,
}

/// Total frozen times of a job, as the guard counted them at several times.
#[derive(Default)]
struct Frozen {
    counted: VecDeque<(Millis, u64)>,
}

impl Frozen {
    /// Adds a count. Returns whether the job was frozen since the last one.
    fn counted(&mut self, now: Millis, frozen_ms: u64) -> bool {
        let was_frozen = self.counted.back().is_some_and(|(_, before)| frozen_ms > *before);
        if self.counted.back().is_some_and(|(_, before)| frozen_ms < *before) {
            self.counted.clear(); // a new guard counts from zero
        }
        self.counted.push_back((now, frozen_ms));
        while self.counted.len() > 2 && now.since(self.counted[1].0) >= WINDOW {
            self.counted.pop_front();
        }
        was_frozen
    }

    /// Share of the window in which the job was frozen, 0 ..= 1.
    fn share(&self) -> Option<f64> {
        let ((from, before), (to, after)) = (self.counted.front()?, self.counted.back()?);
        let passed = to.since(*from).0;
        (passed > 0).then(|| ((after - before) as f64 / passed as f64).clamp(0.0, 1.0))
    }
}

impl Duty {
    /// Resets the state, which thaws everything; the actuator removes it from the journal.
    pub(crate) fn end(&mut self) {
        *self = Duty::default();
    }

    /// Share of the window in which a job was frozen; `None` if it has no turns.
    pub(crate) fn share(&self, id: &ContainerId) -> Option<f64> {
        self.planned.contains(id).then(|| self.frozen.get(id)?.share()).flatten()
    }

    /// Returns why `gpu.control` has had no effect for a while. `parts`: the use of GPUs by all jobs.
    pub(crate) fn hindrance<'node>(
        &mut self,
        control: GpuControl,
        sees_gpus: bool,
        parts: impl Iterator<Item = &'node GpuUse>,
        now: Millis,
    ) -> Option<&'static str> {
        let found = hindrance(control, sees_gpus, parts);
        let before = self.hindered.filter(|(_, why)| Some(*why) == found);
        self.hindered = before.or(found.map(|why| (now, why)));
        self.hindered.filter(|(since, _)| now.since(*since) >= HINDERED_FOR).map(|(_, why)| why)
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        let is_known = !self.recorded.is_empty() || !self.requested.is_empty() || !self.unthawed.is_empty();
        !is_known && self.leave.is_empty() && !self.has_notices
    }

    /// Records what the guard reports. Returns the jobs with a problem, and without one those that were frozen since the last report.
    pub(crate) fn reported(&mut self, report: &TurnResults, now: Millis) -> BTreeMap<ContainerId, Option<String>> {
        let mut problems = BTreeMap::new();
        for turned in &report.turned {
            let Some((id, _)) = self.recorded.iter().find(|(_, job)| Path::new(&job.cgroup) == turned.cgroup) else {
                continue;
            };
            let was_frozen = self.frozen.entry(id.clone()).or_default().counted(now, turned.frozen_ms);
            let by_others = "it was frozen by somebody else, and stays frozen until they thaw it";
            let problem = turned.problem.as_ref().map(|why| format!("it cannot be frozen: {why}"));
            let problem = problem.or(turned.by_others.then(|| by_others.to_owned()));
            if was_frozen || problem.is_some() {
                problems.insert(id.clone(), problem);
            }
        }
        problems
    }

    /// Returns the recorded jobs that the guard has let go.
    pub(crate) fn let_go(&mut self) -> Vec<ContainerId> {
        let gone: Vec<ContainerId> = self.recorded.keys().filter(|id| !self.planned.contains(*id)).cloned().collect();
        for id in &gone {
            self.frozen.remove(id);
        }
        gone
    }
}

/// Returns turns for jobs with these frozen shares, arranged so that, if possible, no two run at the same time.
pub(super) fn turns(parts: &[(PathBuf, f64)]) -> Vec<Turn> {
    let mut runs_from = 0.0;
    let turn = |(cgroup, frozen): &(PathBuf, f64)| {
        let freezes_from = (runs_from + 1.0 - frozen) % 1.0;
        runs_from = freezes_from;
        Turn { cgroup: cgroup.clone(), from: freezes_from, share: *frozen }
    };
    parts.iter().map(turn).collect()
}

fn hindrance<'node>(
    control: GpuControl,
    sees_gpus: bool,
    parts: impl Iterator<Item = &'node GpuUse>,
) -> Option<&'static str> {
    // The GPU time on the instances of a divided GPU is never known, and they need no turns.
    let mut parts = parts.filter(|part| part.instance.is_none()).peekable();
    let is_blind = parts.peek().is_some() && parts.all(|part| part.share.is_none());
    match control {
        GpuControl::Off => None,
        _ if !sees_gpus => Some(NO_GPU),
        GpuControl::DutyCycle if is_blind => Some(NO_SHARES),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hindrance_of_the_control_is_reported_after_a_minute_until_it_is_over() {
        let mut duty = Duty::default();
        let mut at = |seconds: u64, control: GpuControl, gpus: usize, share: Option<f64>| {
            let parts = vec![GpuUse { share, ..GpuUse::default() }; gpus];
            duty.hindrance(control, gpus > 0, parts.iter(), Millis::from_secs(seconds))
        };
        assert_eq!(at(0, GpuControl::Mps, 0, None), None);
        assert_eq!(at(59, GpuControl::Mps, 0, None), None);
        assert_eq!(at(60, GpuControl::DutyCycle, 0, None), Some(NO_GPU));
        assert_eq!(at(61, GpuControl::DutyCycle, 1, None), None);
        assert_eq!(at(121, GpuControl::DutyCycle, 1, None), Some(NO_SHARES));
        assert_eq!(at(122, GpuControl::DutyCycle, 1, Some(0.0)), None);
        assert_eq!(at(200, GpuControl::Off, 0, None), None);
        assert_eq!(at(300, GpuControl::Off, 0, None), None);
    }
}
