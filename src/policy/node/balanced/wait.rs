//! When to decide again: soon while something is about to be known, else when the favoured job should be half way to its next goal.

use super::{Contest, Entry, parallelism, turns};
use model::{Millis, NodeObservation, RunState};

/// The next tick comes after this part of the time to the favoured job's milestone.
pub(super) const LOOK_AGAIN: f64 = 0.5;

/// Maximum number of ticks per interval.
const TICKS_AN_INTERVAL: u64 = 10;

impl Contest<'_> {
    /// Whether a job that started less than an interval ago has no measured cost per unit yet. Ticks are frequent meanwhile, so that its
    /// first reports take effect soon.
    pub(super) fn awaits_cost_per_unit(&self, node: &NodeObservation, entries: &[Entry<'_>], interval: Millis) -> bool {
        self.domain.members.iter().zip(&self.candidates).any(|(&index, candidate)| {
            let container = &node.containers[index];
            container.state == RunState::Running
                && entries[index].on_gpu.is_none()
                && node.now.since(container.started) < interval
                && candidate.as_ref().is_none_or(|candidate| !candidate.is_measured)
        })
    }

    /// Time until the first favoured job should be half way to its milestone, or its parallelism can be measured.
    pub(super) fn wait(&self, now: Millis, entries: &[Entry<'_>], interval: Millis) -> Millis {
        let favoured = || (0..self.given().len()).filter(|&member| self.is_favoured(member));
        let seconds = favoured()
            .filter_map(|member| Some(self.candidates[member].as_ref()?.work_ahead / self.given()[member]))
            .fold(f64::INFINITY, f64::min);
        // The parallelism of a job that is favoured for the first time is unknown until it can be measured.
        let measured_soon =
            |member: usize| entries[self.domain.members[member]].memory.parallelism.is_about_to_be_measured(now);
        let first_measurement = if favoured().any(measured_soon) {
            soonest(interval).max(parallelism::LEAST_INTERVAL)
        } else {
            Millis(u64::MAX)
        };
        let half_way = (LOOK_AGAIN * seconds * 1000.0).clamp(0.0, u64::MAX as f64) as u64;
        let turn = if self.in_turns.is_some() { turns::length(interval) } else { Millis(u64::MAX) };
        Millis(half_way).max(soonest(interval)).min(first_measurement).min(turn)
    }
}

/// The shortest time between two ticks.
pub(super) fn soonest(interval: Millis) -> Millis {
    Millis((interval.0 / TICKS_AN_INTERVAL).max(1))
}
