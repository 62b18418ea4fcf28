//! What others do to a job's limits: who it was, what is told of it, and how often we write again.
//!
//! A value that nobody but us or the original has is a person's: we yield. The original that came back by itself is the system's
//! doing (an engine restart, a `daemon-reload`): the next decision writes ours again. Should the system go on, we wait longer and
//! longer, so that two programs never fight over a limit. Imports: model.

use super::equal::same;
use crate::model::{LimitDrift, Limits, Millis, Setting};
use std::collections::VecDeque;

/// How many are told by `flowctl explain`.
const TOLD: usize = 8;
/// The system may revert our limits so often in a row before we wait.
const HEALED_AT_ONCE: u32 = 3;
/// So many intervals without a reversion end the row.
const QUIET: u64 = 10;

/// What stands is not what should: who did it?
#[derive(Debug, PartialEq)]
pub(super) enum Drift {
    /// Somebody set a value of their own.
    Foreign(String),
    /// The original is back, though nobody asked.
    Reverted(Vec<Setting>),
}

/// Compares what stands with what we wrote, as far as engines round, or with the original where we wrote nothing, which was read from
/// the same file. `unsettled` may still come into force.
pub(super) fn drift(original: &Limits, ours: &Limits, unsettled: &[Setting], stands: &Limits) -> Option<Drift> {
    let mut reverted = Vec::new();
    for original in original.settings() {
        let Some(now) = stands.get(original.kind()) else { continue };
        let ours = ours.get(original.kind());
        if ours.map_or(now == original, |ours| same(now, ours)) {
            continue;
        }
        let expected = ours.unwrap_or(original);
        if now == original || unsettled.iter().any(|asked| same(now, *asked)) {
            reverted.push(expected);
        } else {
            return Some(Drift::Foreign(format!("{now} stands where {expected} was ours")));
        }
    }
    (!reverted.is_empty()).then_some(Drift::Reverted(reverted))
}

/// The changes by others that one job has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Drifts {
    told: VecDeque<LimitDrift>,
    /// Reverted, told, and not written again since.
    open: Vec<Setting>,
    /// Reversions in a row, and the last of them.
    row: u32,
    last: Millis,
}

impl Drifts {
    /// The latest, oldest first.
    pub fn told(&self) -> Vec<LimitDrift> {
        self.told.iter().cloned().collect()
    }

    pub fn tell(&mut self, drift: LimitDrift) {
        if self.told.len() == TOLD {
            self.told.pop_front();
        }
        self.told.push_back(drift);
    }

    /// The system reverted these. `None`: known already. Otherwise how long to leave them, zero as long as it does not happen
    /// again and again.
    pub fn reverted(&mut self, settings: &[Setting], now: Millis, interval: Millis, longest: Millis) -> Option<Millis> {
        if self.open == settings {
            return None;
        }
        self.open = settings.to_vec();
        let quiet = now.since(self.last) > Millis(interval.0.saturating_mul(QUIET << self.waits().min(10)));
        self.row = if quiet { 1 } else { self.row + 1 };
        self.last = now;
        let wait = match self.waits() {
            0 => Millis(0),
            waits => Millis(interval.0.saturating_mul(1 << waits.min(10))).min(longest.max(interval)),
        };
        Some(wait)
    }

    /// Ours were written.
    pub fn written(&mut self) {
        self.open.clear();
    }

    fn waits(&self) -> u32 {
        self.row.saturating_sub(HEALED_AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CpuWeight;

    const INTERVAL: Millis = Millis::from_secs(20);
    const LONGEST: Millis = Millis::from_secs(320);

    fn weight() -> [Setting; 1] {
        [Setting::CpuWeight(CpuWeight::clamped(252.0))]
    }

    /// The owner went from 654 shares to 647, and an original that was read back as 64 is not 63.
    #[test]
    fn a_weight_beside_the_original_is_somebodys_and_one_beside_ours_is_rounding() {
        let limits = |weight: f64| Limits { cpu_weight: Some(CpuWeight::clamped(weight)), ..Limits::default() };
        let original = limits(64.0);
        let Some(Drift::Foreign(text)) = drift(&original, &Limits::default(), &[], &limits(63.0)) else {
            panic!("it is an owner's")
        };
        assert!(text.contains("stands where") && !text.contains("somebody"), "who it was is said by the hold: {text}");
        assert_eq!(drift(&original, &Limits::default(), &[], &original), None);
        let ours = limits(252.0);
        assert_eq!(drift(&original, &ours, &[], &limits(251.0)), None);
        assert_eq!(drift(&original, &ours, &[], &original), Some(Drift::Reverted(weight().to_vec())));
        assert!(matches!(drift(&original, &ours, &[], &limits(65.0)), Some(Drift::Foreign(_))));
    }

    #[test]
    fn what_an_engine_does_late_of_what_was_asked_is_nobodys_will() {
        let limits = |weight: f64| Limits { cpu_weight: Some(CpuWeight::clamped(weight)), ..Limits::default() };
        let original = [Setting::CpuWeight(CpuWeight::clamped(100.0))];
        assert_eq!(
            drift(&limits(100.0), &Limits::default(), &weight(), &limits(252.0)),
            Some(Drift::Reverted(original.to_vec()))
        );
        assert!(matches!(drift(&limits(100.0), &Limits::default(), &[], &limits(252.0)), Some(Drift::Foreign(_))));
    }

    #[test]
    fn a_reversion_is_told_once_until_it_was_written_again() {
        let mut drifts = Drifts::default();
        assert_eq!(drifts.reverted(&weight(), Millis::from_secs(1000), INTERVAL, LONGEST), Some(Millis(0)));
        assert_eq!(drifts.reverted(&weight(), Millis::from_secs(1020), INTERVAL, LONGEST), None);
        drifts.written();
        assert_eq!(drifts.reverted(&weight(), Millis::from_secs(1040), INTERVAL, LONGEST), Some(Millis(0)));
    }

    #[test]
    fn a_system_that_reverts_again_and_again_is_left_alone_longer_and_longer() {
        let (mut drifts, mut now, mut waits) = (Drifts::default(), Millis::from_secs(1000), Vec::new());
        for _ in 0..10 {
            let wait = drifts.reverted(&weight(), now, INTERVAL, LONGEST).expect("new each time");
            waits.push(wait.0 / 1000);
            drifts.written();
            now = now.after(INTERVAL.max(wait));
        }
        assert_eq!(waits, [0, 0, 0, 40, 80, 160, 320, 320, 320, 320]);
        now = now.after(Millis::from_secs(24 * 3600 * 3));
        assert_eq!(drifts.reverted(&weight(), now, INTERVAL, LONGEST), Some(Millis(0)), "long ago");
    }
}
