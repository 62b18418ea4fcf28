//! Duty cycle: jobs that share a GPU are frozen in turn, by the daemon's policy, which runs once a second as in the daemon.
//!
//! Within each period every frozen job runs for its part; where possible, no two run at the same time.

use super::state::State;
use model::{ContainerId, Millis};
use policy::{Favour, GpuJob, TURN_PERIOD};
use std::collections::BTreeMap;

/// Interval of the policy's decisions.
const PLAN_EVERY_S: f64 = 1.0;

/// The daemon's period with the default of `gpu.freeze-at-most`.
const PERIOD_S: f64 = 0.5 * TURN_PERIOD;

/// The turn of one job.
struct Turn {
    is_frozen: bool,
    /// End of the current state.
    until: f64,
    /// Seconds of each period in which it is frozen.
    frozen_s: f64,
}

/// The turns of all jobs.
#[derive(Default)]
pub(super) struct Duty {
    plan_at: f64,
    favours: BTreeMap<usize, Favour>,
    planned: BTreeMap<usize, f64>,
    turns: BTreeMap<usize, Turn>,
}

impl Duty {
    pub(super) fn next_s(&self) -> f64 {
        self.turns.values().map(|turn| turn.until).fold(self.plan_at, f64::min)
    }

    /// Whether the policy runs now.
    pub(super) fn is_plan_due(&self, now: f64) -> bool {
        self.plan_at <= now
    }

    /// Runs the policy for the jobs on each GPU.
    pub(super) fn plan(&mut self, gpu_jobs: BTreeMap<usize, Vec<(usize, GpuJob)>>, now: f64) {
        self.plan_at = now + PLAN_EVERY_S;
        self.favours.retain(|gpu, _| gpu_jobs.contains_key(gpu));
        let mut planned = BTreeMap::new();
        for (gpu, jobs) in gpu_jobs {
            let number = |id: &ContainerId| jobs.iter().find(|(_, job)| job.id == *id).map(|(number, _)| *number);
            let known: Vec<GpuJob> = jobs.iter().map(|(_, job)| job.clone()).collect();
            let frozen = self.favours.entry(gpu).or_default().step(&known, Millis((now * 1000.0) as u64));
            planned.extend(frozen.iter().filter_map(|(id, part)| Some((number(id)?, *part))));
        }
        if planned != self.planned {
            self.planned = planned;
            self.take_turns(now);
        }
    }

    fn take_turns(&mut self, now: f64) {
        self.turns.clear();
        let phase = (now / PERIOD_S).fract();
        let mut runs_from = 0.0;
        for (&number, &part) in &self.planned {
            let freezes_from = (runs_from + 1.0 - part) % 1.0;
            runs_from = freezes_from;
            let since = (phase - freezes_from).rem_euclid(1.0);
            let is_frozen = since < part;
            let left = if is_frozen { part - since } else { 1.0 - since };
            let turn = Turn { is_frozen, until: now + left * PERIOD_S, frozen_s: part * PERIOD_S };
            self.turns.insert(number, turn);
        }
    }

    /// Freezes and thaws the jobs whose turn it is; returns whether any job changed.
    pub(super) fn turn(&mut self, states: &mut [State], present: &[usize], now: f64) -> bool {
        let mut changed = false;
        for &number in present {
            let is_frozen = self.is_frozen(number, now);
            if states[number].is_frozen != is_frozen {
                states[number].freeze(is_frozen, now);
                changed = true;
            }
        }
        changed
    }

    fn is_frozen(&mut self, number: usize, now: f64) -> bool {
        let Some(turn) = self.turns.get_mut(&number) else { return false };
        while turn.until <= now {
            turn.is_frozen = !turn.is_frozen;
            turn.until += if turn.is_frozen { turn.frozen_s } else { PERIOD_S - turn.frozen_s };
        }
        turn.is_frozen
    }

    /// Forgets a job that has left.
    pub(super) fn forget(&mut self, number: usize) {
        self.turns.remove(&number);
        self.planned.remove(&number);
    }
}
