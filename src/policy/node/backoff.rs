//! Time to the next decision: exponential back-off while everything has converged (Algorithm 1, line 17), and the events that end it
//! (Algorithm 2, lines 8 and 15).
//!
//! The back-off in the paper has no cap and ends only when a container starts or ends. Here it is capped, and it also ends when growth
//! rises back over the threshold, a learning curve enters another phase, or CPU or memory pressure changes.

use model::{Millis, PolicySettings, Pressure};
use serde::{Deserialize, Serialize};

/// Change of pressure (part of the time that tasks wait) that ends a back-off.
const PRESSURE_CHANGE: f64 = 0.1;

/// The current interval [itval].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Backoff {
    interval: Millis,
    /// Pressure when the interval was last reset.
    pressure: Pressure,
}

impl Backoff {
    pub(super) fn new(settings: &PolicySettings) -> Self {
        Backoff { interval: settings.interval, pressure: Pressure::default() }
    }

    /// Returns the interval after a tick that found `all_converged`; `disturbed`: an event ended the back-off early.
    pub(super) fn next(&mut self, all_converged: bool, disturbed: bool, now: Pressure, s: &PolicySettings) -> Millis {
        if disturbed || !all_converged || self.interval < s.interval {
            self.interval = s.interval;
            self.pressure = now;
        }
        if all_converged {
            let cap = s.max_interval.max(s.interval);
            self.interval = Millis(self.interval.0.saturating_mul(2)).min(cap);
        }
        self.interval
    }

    /// Whether pressure has changed since the interval was last reset. A missing reading is no change.
    pub(super) fn pressure_changed(&self, now: Pressure) -> bool {
        changed(self.pressure.cpu, now.cpu) || changed(self.pressure.memory, now.memory)
    }

    /// Whether the interval is longer than configured.
    pub(super) fn is_backing_off(&self, settings: &PolicySettings) -> bool {
        self.interval > settings.interval
    }
}

fn changed(before: Option<f64>, now: Option<f64>) -> bool {
    before.zip(now).is_some_and(|(before, now)| (before - now).abs() > PRESSURE_CHANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> PolicySettings {
        PolicySettings {
            interval: Millis::from_secs(20),
            max_interval: Millis::from_secs(100),
            ..PolicySettings::default()
        }
    }

    #[test]
    fn fault_back_off_without_a_cap_is_not_repeated() {
        let (s, p) = (settings(), Pressure::default());
        let mut backoff = Backoff::new(&s);
        let waits: Vec<u64> = (0..5).map(|_| backoff.next(true, false, p, &s).0 / 1000).collect();
        assert_eq!(waits, [40, 80, 100, 100, 100]);
        assert!(backoff.is_backing_off(&s));
    }

    #[test]
    fn growth_or_a_disturbance_ends_the_back_off() {
        let (s, p) = (settings(), Pressure::default());
        let mut backoff = Backoff::new(&s);
        backoff.next(true, false, p, &s);
        assert_eq!(backoff.next(false, false, p, &s), s.interval);
        backoff.next(true, false, p, &s);
        backoff.next(true, false, p, &s);
        assert_eq!(backoff.next(true, true, p, &s), Millis::from_secs(40), "Algorithm 2 resets, Algorithm 1 doubles");
    }

    #[test]
    fn pressure_is_compared_with_its_value_at_the_last_reset() {
        let s = settings();
        let pressure = |cpu| Pressure { cpu, ..Pressure::default() };
        let mut backoff = Backoff::new(&s);
        backoff.next(false, false, pressure(Some(0.5)), &s);
        assert!(!backoff.pressure_changed(pressure(Some(0.45))));
        assert!(backoff.pressure_changed(pressure(Some(0.2))));
        assert!(!backoff.pressure_changed(pressure(None)));
    }
}
