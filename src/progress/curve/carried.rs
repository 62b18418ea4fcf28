//! A history on its way to another node: ages in place of instants, and whether what came can be believed.
//!
//! A job goes on from what it has saved, and may have printed more than that: it prints it once more, and its curve goes on where it did.
//! Gains are left behind: they were measured between ticks that only the other node had. Imports: plausible numbers, model.

use super::{Forecast, History, Interval, RECENT};
use crate::model::{Estimate, Millis, Progress};
use crate::progress::plausible;

impl History {
    /// With ages at `now` in place of instants.
    pub(in crate::progress) fn with_ages(self, now: Millis) -> History {
        let curve = self.curve.filter(Forecast::is_plausible); // the next interval has another
        History { curve, ..self }.turned(|at| Some(now.since(at)))
    }

    /// With instants in place of ages at `now`. Where the clock began later than something happened, only its order counts.
    pub(in crate::progress) fn with_instants(self, now: Millis) -> History {
        let carried_to = self.progress.map(|progress| progress.current);
        History { is_carried: true, carried_to, ..self.turned(|age| now.0.checked_sub(age.0).map(Millis)) }
    }

    /// Whether a counter that fell is that of a job which came from another node and goes on from what it had saved there.
    pub(super) fn goes_on_from_saved(&self, progress: &Progress) -> bool {
        self.carried_to.is_some() && self.progress.is_some_and(|before| before.unit == progress.unit)
    }

    /// Forgets what came after `units`: it is done again. What was foreseen stays until the next interval.
    pub(super) fn rewind(&mut self, units: f64) {
        self.pace.restart();
        self.improvements.rewind(units);
        self.curve = self.curve.filter(|_| !self.improvements.series.points().is_empty());
        (self.open, self.closed) = (Interval::default(), None);
    }

    fn turned(mut self, turned: impl Fn(Millis) -> Option<Millis>) -> History {
        let instants = [
            self.latest.as_mut().map(|latest| &mut latest.at),
            self.closed.as_mut().map(|closed| &mut closed.end),
            self.progress.as_mut().map(|progress| &mut progress.at),
        ];
        for at in instants.into_iter().flatten() {
            *at = turned(*at).unwrap_or_default();
        }
        self.pace.turn(turned);
        self.gain = None;
        self
    }

    /// What of it cannot be ours.
    pub(in crate::progress) fn flaw(&self) -> Option<&'static str> {
        let recent = self.recent.len() <= RECENT && self.recent.iter().copied().all(plausible::number);
        let latest =
            self.latest.is_none_or(|latest| [latest.current, latest.total].into_iter().all(plausible::optional));
        if !(recent && latest && plausible::count(self.evaluations)) {
            return Some("its evaluations");
        }
        let closed = self.closed.map(|closed| Interval { sum: closed.mean, units: closed.units, count: closed.count });
        if !(self.open.is_plausible() && closed.unwrap_or_default().is_plausible()) {
            return Some("its intervals");
        }
        let progress = self.progress.is_none_or(|progress| {
            plausible::number(progress.current) && progress.current >= 0.0 && plausible::optional(progress.total)
        });
        if !(progress && plausible::optional(self.carried_to) && self.pace.is_plausible()) {
            return Some("its progress");
        }
        let curve = self.curve.as_ref().is_none_or(Forecast::is_plausible);
        let is_ours = curve && self.noise.is_plausible() && self.improvements.is_plausible();
        (!is_ours).then_some("its learning curve")
    }
}

impl Interval {
    fn is_plausible(&self) -> bool {
        [self.sum, self.units, self.count].into_iter().all(plausible::number) && self.count >= 0.0
    }
}

impl Forecast {
    fn is_plausible(&self) -> bool {
        let ordered = |at: Estimate| {
            [at.low, at.likely, at.high].into_iter().all(plausible::number)
                && at.low <= at.likely
                && at.likely <= at.high
        };
        // A mean of weighed parts can be a hair more than the whole.
        (0.0..=1.000_001).contains(&self.quality) && self.quality_at.is_none_or(ordered)
    }
}
