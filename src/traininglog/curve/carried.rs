//! Moves a history to another node: replaces instants by ages, and checks received values for plausibility.
//!
//! A moved job continues from its last saved state, and may print again what it had printed since. The history is rewound to that point.
//! Gains are dropped: they were measured between ticks of the other node.

use super::{Forecast, History, Interval, RECENT};
use crate::plausible;
use crate::{Millis, Progress};

impl History {
    /// Replaces instants by ages at `now`.
    pub(crate) fn with_ages(self, now: Millis) -> History {
        let curve = self.curve.filter(Forecast::is_plausible); // the next interval fits another
        History { curve, ..self }.with_times(|at| Some(now.since(at)))
    }

    /// Replaces ages at `now` by instants. Events older than this clock get the instant zero.
    pub(crate) fn with_instants(self, now: Millis) -> History {
        let carried_to = self.progress.map(|progress| progress.current);
        History { is_carried: true, carried_to, ..self.with_times(|age| now.0.checked_sub(age.0).map(Millis)) }
    }

    /// Whether a fallen counter belongs to a job that came from another node and continues from its saved state.
    pub(super) fn goes_on_from_saved(&self, progress: &Progress) -> bool {
        self.carried_to.is_some() && self.progress.is_some_and(|before| before.unit == progress.unit)
    }

    /// Forgets everything after `units`, which the job repeats. The forecast is kept until the next interval.
    pub(super) fn rewind(&mut self, units: f64) {
        self.pace.restart();
        self.improvements.rewind(units);
        self.curve = self.curve.filter(|_| !self.improvements.series.points().is_empty());
        (self.open, self.closed) = (Interval::default(), None);
    }

    fn with_times(mut self, convert: impl Fn(Millis) -> Option<Millis>) -> History {
        let instants = [
            self.latest.as_mut().map(|latest| &mut latest.at),
            self.first_not_finite.as_mut().map(|first| &mut first.at),
            self.was_not_finite.as_mut().map(|streak| &mut streak.since),
            self.explosion.first_outside().map(|first| &mut first.at),
            self.closed.as_mut().map(|closed| &mut closed.end),
            self.progress.as_mut().map(|progress| &mut progress.at),
        ];
        for at in instants.into_iter().flatten() {
            *at = convert(*at).unwrap_or_default();
        }
        self.pace.convert_times(convert);
        self.gain = None;
        self
    }

    /// Returns the name of an implausible part.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        let recent = self.recent.len() <= RECENT && self.recent.iter().copied().all(plausible::number);
        let latest = [self.latest, self.first_not_finite]
            .into_iter()
            .flatten()
            .all(|value| [value.current, value.total].into_iter().all(plausible::optional));
        let was = self.was_not_finite.is_none_or(|streak| plausible::optional(streak.units));
        let raw = was && self.explosion.is_plausible() && self.printed.is_plausible();
        if !(recent && latest && raw && plausible::count(self.evaluations)) {
            return Some("evaluations");
        }
        let closed = self.closed.map(|closed| Interval { sum: closed.mean, units: closed.units, count: closed.count });
        if !(self.open.is_plausible() && closed.unwrap_or_default().is_plausible()) {
            return Some("intervals");
        }
        let progress = self.progress.is_none_or(|progress| {
            plausible::number(progress.current) && progress.current >= 0.0 && plausible::optional(progress.total)
        });
        if !(progress && plausible::optional(self.carried_to) && self.pace.is_plausible()) {
            return Some("progress");
        }
        let curve = self.curve.as_ref().is_none_or(Forecast::is_plausible);
        let is_plausible = curve && self.noise.is_plausible() && self.improvements.is_plausible();
        (!is_plausible).then_some("learning curve")
    }
}

impl Interval {
    fn is_plausible(&self) -> bool {
        [self.sum, self.units, self.count].into_iter().all(plausible::number) && self.count >= 0.0
    }
}
