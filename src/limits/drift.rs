//! Changes of a job's limits by others: who made them, what is reported, and how often flowcon writes its value again.
//!
//! A value that is neither ours nor the original was set by a person or another program, and stays. If the original value returned, the
//! system restored it (an engine restart, a `daemon-reload`), and the next decision writes ours again. If that keeps happening, the wait
//! grows, so that two programs never fight over a limit.

use super::equal::same;
use model::{LimitDrift, Limits, Millis, Setting};
use std::collections::VecDeque;

/// Changes that `flowctl explain` shows.
const RECENT: usize = 8;
/// Reversions in a row that are corrected without a wait.
const HEALED_AT_ONCE: u32 = 3;
/// Intervals without a reversion that end a row.
const QUIET: u64 = 10;

/// A difference between the expected and the current values, by cause.
#[derive(Debug, PartialEq)]
pub(super) enum Drift {
    /// Another user or program set a value; the text says which.
    Foreign(String),
    /// The system restored the originals in place of these values.
    Reverted(Vec<Setting>),
}

/// Result of comparing the current values with the expected ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// As expected, or not to be judged now.
    Fine,
    /// Another user or program set a value: the container is left alone from now on.
    Foreign(String),
    /// The system restored originals; they are decided again after this wait.
    Reverted(Vec<Setting>, Millis),
}

/// Compares the current values with what flowcon wrote, within rounding. Limits that flowcon has not written are compared exactly with
/// the original, which was read from the same file. `late`: current values that result from writes without a confirmed result.
pub(super) fn drift(original: &Limits, ours: &Limits, late: &Limits, current: &Limits) -> Option<Drift> {
    let mut reverted = Vec::new();
    for original in original.settings() {
        let Some(now) = current.get(original.kind()) else { continue };
        let ours = ours.get(original.kind());
        if ours.map_or(now == original, |ours| same(now, ours)) {
            continue;
        }
        let expected = ours.unwrap_or(original);
        if now == original || late.get(now.kind()) == Some(now) {
            reverted.push(expected);
        } else {
            return Some(Drift::Foreign(format!("found {now}, expected {expected}")));
        }
    }
    (!reverted.is_empty()).then_some(Drift::Reverted(reverted))
}

/// The changes by others that were seen on one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Drifts {
    recent: VecDeque<LimitDrift>,
    /// Limits that were reverted and reported, and not written again since.
    open: Vec<Setting>,
    /// Number of reversions in a row, and the time of the last one.
    row: u32,
    last: Millis,
}

impl Drifts {
    /// Returns the latest changes, oldest first.
    pub(crate) fn recent(&self) -> Vec<LimitDrift> {
        self.recent.iter().cloned().collect()
    }

    pub(crate) fn push(&mut self, drift: LimitDrift) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(drift);
    }

    /// Records that the system reverted these limits. Returns `None` if that is known already; otherwise how long to wait before writing
    /// them again: zero for the first reversions in a row.
    pub(crate) fn reverted(
        &mut self,
        settings: &[Setting],
        now: Millis,
        interval: Millis,
        longest: Millis,
    ) -> Option<Millis> {
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

    /// Records that our values were written again.
    pub(crate) fn written(&mut self) {
        self.open.clear();
    }

    fn waits(&self) -> u32 {
        self.row.saturating_sub(HEALED_AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CpuWeight;

    const INTERVAL: Millis = Millis::from_secs(20);
    const LONGEST: Millis = Millis::from_secs(320);

    fn weight() -> [Setting; 1] {
        [Setting::CpuWeight(CpuWeight::clamped(252.0))]
    }

    /// A change from 654 to 647 shares is an owner's; 63 is not the original 64, and 251 is not our 252.
    #[test]
    fn a_weight_near_the_original_or_near_ours_is_foreign() {
        let limits = |weight: f64| Limits { cpu_weight: Some(CpuWeight::clamped(weight)), ..Limits::default() };
        let original = limits(64.0);
        let Some(Drift::Foreign(text)) = drift(&original, &Limits::default(), &Limits::default(), &limits(63.0)) else {
            panic!("the owner changed it")
        };
        assert!(text.contains("expected") && !text.contains("somebody"), "the hold says who: {text}");
        assert_eq!(drift(&original, &Limits::default(), &Limits::default(), &original), None);
        let ours = limits(252.0);
        assert_eq!(drift(&original, &ours, &Limits::default(), &ours), None);
        assert!(matches!(drift(&original, &ours, &Limits::default(), &limits(251.0)), Some(Drift::Foreign(_))));
        assert_eq!(drift(&original, &ours, &Limits::default(), &original), Some(Drift::Reverted(weight().to_vec())));
        assert!(matches!(drift(&original, &ours, &Limits::default(), &limits(65.0)), Some(Drift::Foreign(_))));
    }

    #[test]
    fn a_late_write_by_the_engine_is_not_a_foreign_change() {
        let limits = |weight: f64| Limits { cpu_weight: Some(CpuWeight::clamped(weight)), ..Limits::default() };
        let original = [Setting::CpuWeight(CpuWeight::clamped(100.0))];
        assert_eq!(
            drift(&limits(100.0), &Limits::default(), &limits(252.0), &limits(252.0)),
            Some(Drift::Reverted(original.to_vec()))
        );
        assert!(matches!(
            drift(&limits(100.0), &Limits::default(), &Limits::default(), &limits(252.0)),
            Some(Drift::Foreign(_))
        ));
    }

    #[test]
    fn a_reversion_is_reported_once_until_the_value_is_written_again() {
        let mut drifts = Drifts::default();
        assert_eq!(drifts.reverted(&weight(), Millis::from_secs(1000), INTERVAL, LONGEST), Some(Millis(0)));
        assert_eq!(drifts.reverted(&weight(), Millis::from_secs(1020), INTERVAL, LONGEST), None);
        drifts.written();
        assert_eq!(drifts.reverted(&weight(), Millis::from_secs(1040), INTERVAL, LONGEST), Some(Millis(0)));
    }

    #[test]
    fn the_wait_doubles_while_the_system_keeps_reverting() {
        let (mut drifts, mut now, mut waits) = (Drifts::default(), Millis::from_secs(1000), Vec::new());
        for _ in 0..10 {
            let wait = drifts.reverted(&weight(), now, INTERVAL, LONGEST).expect("a new reversion");
            waits.push(wait.0 / 1000);
            drifts.written();
            now = now.after(INTERVAL.max(wait));
        }
        assert_eq!(waits, [0, 0, 0, 40, 80, 160, 320, 320, 320, 320]);
        now = now.after(Millis::from_secs(24 * 3600 * 3));
        assert_eq!(drifts.reverted(&weight(), now, INTERVAL, LONGEST), Some(Millis(0)), "the row has ended");
    }
}
