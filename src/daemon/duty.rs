//! Who is frozen for parts of the time, as far as the journal and the guard know: what [`super::share_gpus`] keeps between two looks.
//!
//! Imports: host's freezer and store, policy, model.

use crate::host::freezer::{Guard, Report, Turn};
use crate::host::store::Freezable;
use crate::model::{ContainerId, Millis};
use crate::policy::Favour;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the policy is asked, and the guard told that the daemon lives.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Who was frozen is told of so much time.
const TOLD_OF: Millis = Millis::from_secs(60);

/// Who is frozen, and for which part of the time.
#[derive(Default)]
pub(super) struct Duty {
    pub guard: Guard,
    /// The journal knows that these may be frozen.
    pub noted: BTreeMap<ContainerId, Freezable>,
    /// It was asked to note these.
    pub asked: BTreeSet<ContainerId>,
    /// Whose turns are in the plan that the guard has.
    pub planned: BTreeSet<ContainerId>,
    /// Paused by their engine: the journal has them as that.
    pub paused: BTreeMap<ContainerId, Freezable>,
    /// Those that the guard has not been told of yet.
    pub leave: Vec<PathBuf>,
    frozen: BTreeMap<ContainerId, Frozen>,
    /// What the policy knows, by the GPU's number.
    pub favours: BTreeMap<u32, Favour>,
}

/// How long a job has been frozen, as the guard counted at several times.
#[derive(Default)]
struct Frozen {
    counted: VecDeque<(Millis, u64)>,
}

impl Frozen {
    fn counted(&mut self, now: Millis, frozen_ms: u64) {
        if self.counted.back().is_some_and(|(_, before)| frozen_ms < *before) {
            self.counted.clear(); // another guard counts from zero
        }
        self.counted.push_back((now, frozen_ms));
        while self.counted.len() > 2 && now.since(self.counted[1].0) >= TOLD_OF {
            self.counted.pop_front();
        }
    }

    /// Part of the time lately, 0 ..= 1.
    fn share(&self) -> Option<f64> {
        let ((from, before), (to, after)) = (self.counted.front()?, self.counted.back()?);
        let passed = to.since(*from).0;
        (passed > 0).then(|| ((after - before) as f64 / passed as f64).clamp(0.0, 1.0))
    }
}

impl Duty {
    /// Thaws everything; whoever has the journal forgets it.
    pub fn end(&mut self) {
        *self = Duty::default();
    }

    /// Part of the time lately in which a job was frozen; `None` = it has no turns.
    pub fn share(&self, id: &ContainerId) -> Option<f64> {
        self.planned.contains(id).then(|| self.frozen.get(id)?.share()).flatten()
    }

    /// Whether there is nothing to tend.
    pub fn is_idle(&self) -> bool {
        self.noted.is_empty() && self.asked.is_empty() && self.leave.is_empty()
    }

    pub fn reported(&mut self, report: &Report, now: Millis) -> Vec<(ContainerId, String)> {
        let mut problems = Vec::new();
        for turned in &report.turned {
            let Some((id, _)) = self.noted.iter().find(|(_, job)| Path::new(&job.cgroup) == turned.cgroup) else {
                continue;
            };
            self.frozen.entry(id.clone()).or_default().counted(now, turned.frozen_ms);
            if turned.by_others {
                problems.push((id.clone(), "somebody else has frozen it: that is left to them".to_owned()));
            }
            problems.extend(turned.problem.iter().map(|why| (id.clone(), format!("it cannot be frozen: {why}"))));
        }
        problems
    }

    /// The noted ones that the guard has let go.
    pub fn let_go(&mut self) -> Vec<ContainerId> {
        let gone: Vec<ContainerId> = self.noted.keys().filter(|id| !self.planned.contains(*id)).cloned().collect();
        for id in &gone {
            self.frozen.remove(id);
        }
        gone
    }
}

/// Turns of those that are to be frozen for these parts of the time: as far as there is room, no two go on at the same time.
pub(super) fn turns(parts: &[(PathBuf, f64)]) -> Vec<Turn> {
    let mut runs_from = 0.0;
    let turn = |(cgroup, frozen): &(PathBuf, f64)| {
        let freezes_from = (runs_from + 1.0 - frozen) % 1.0;
        runs_from = freezes_from;
        Turn { cgroup: cgroup.clone(), from: freezes_from, share: *frozen }
    };
    parts.iter().map(turn).collect()
}
