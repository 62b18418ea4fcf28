//! Ledger of one container's limits: the original, values that flowcon wrote, writes without a confirmed result, the current values as
//! last read, and why the container is left alone.
//!
//! It changes only by its methods: found, read, begin_write, record_outcome, yield, release, end.

use super::drift::{Drift, Drifts, Verdict, drift};
use super::equal::{resulting_from, results_from};
use super::holds::Holds;
use super::step::{AfterRestore, End, Journalled, Outcome, OutcomeReport};
use model::{DriftBy, EngineLimits, Hold, LimitDrift, LimitKind, Limits, Millis, Setting};

/// Writes requested of an engine that went down wait at its socket: for this long, the next engine may apply them to the new run.
const LATE_AT_MOST: Millis = Millis::from_secs(60);
/// Unconfirmed values of one limit at most; at this number the original is restored before another value is written.
const UNCONFIRMED_AT_MOST: usize = 4;

/// One container's limits.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    original: Limits,
    /// The original in the engine's units.
    engine: Option<EngineLimits>,
    /// Values as last read.
    current: Limits,
    /// Values that flowcon wrote and read back.
    ours: Limits,
    /// Values that are being written.
    in_flight: Vec<Setting>,
    /// Values that were requested and not confirmed, originals too: they may still take effect.
    unconfirmed: Vec<Setting>,
    /// Our values in the journal: they may be in force, or in the engine's record for the next run.
    journalled: Vec<Setting>,
    /// Until then, writes requested for the last run may take effect.
    late_until: Option<Millis>,
    drifts: Drifts,
    holds: Holds,
}

/// State of a container at its end, for its next run: engines keep updates across a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastRun {
    original: Limits,
    engine: Option<EngineLimits>,
    known: Vec<Setting>,
}

impl Ledger {
    /// Creates the ledger of a container that was just found with these limits.
    pub fn found(current: Limits, engine: Option<EngineLimits>) -> Ledger {
        Ledger { original: current, engine, current, ..Ledger::default() }
    }

    /// Recalls what an earlier daemon journalled about this run: `written` are values that may be in force.
    pub fn recall(&mut self, original: Limits, engine: Option<EngineLimits>, written: &[Setting]) {
        self.original = original;
        self.engine = engine.or(self.engine);
        self.ours = self.resulting_from(written);
        self.unconfirmed = written.to_vec();
        self.journalled = written.to_vec();
    }

    /// Continues after an earlier run. A value of ours that is still in force in the new run is not an original.
    pub fn continue_after(&mut self, last: LastRun, now: Millis) {
        if !self.journalled.is_empty() {
            return; // known from the journal
        }
        let present = std::mem::replace(&mut self.engine, last.engine);
        self.ours = self.resulting_from(&last.known);
        self.engine = present.or(last.engine);
        for ours in self.ours.settings() {
            self.original.set(last.original.get(ours.kind()).unwrap_or(ours));
            self.engine = self.engine.zip(last.engine).map(|(new, last)| new.with(ours.kind(), &last)).or(self.engine);
        }
        if !last.known.is_empty() {
            self.late_until = Some(now.after(LATE_AT_MOST));
            self.unconfirmed = last.known.clone();
            self.journalled = last.known;
        }
    }

    /// Returns the current values that result from one of `known`.
    fn resulting_from(&self, known: &[Setting]) -> Limits {
        let engine = self.engine.unwrap_or_default();
        LimitKind::ALL.into_iter().filter_map(|kind| resulting_from(known, self.current.get(kind), &engine)).collect()
    }

    /// Returns what the next run must know in case the engine keeps our values.
    pub fn last_run(&self) -> LastRun {
        LastRun { original: self.original, engine: self.engine, known: self.known() }
    }

    /// Limits before our first change.
    pub fn original(&self) -> &Limits {
        &self.original
    }

    /// The original limits in the engine's units.
    pub fn engine(&self) -> Option<EngineLimits> {
        self.engine
    }

    /// Both, in the form that the journal stores.
    pub fn originals(&self) -> Journalled {
        Journalled { original: self.original, engine: self.engine }
    }

    /// Values as last read.
    pub fn current(&self) -> &Limits {
        &self.current
    }

    /// Records the current values.
    pub fn read(&mut self, current: Limits) {
        self.current = current;
    }

    /// Returns all values of ours that may be in force, now or in a next run.
    pub fn known(&self) -> Vec<Setting> {
        let mut known = self.journalled.clone();
        for setting in self.ours.settings().chain(self.in_flight.iter().copied()) {
            if !known.contains(&setting) {
                known.push(setting);
            }
        }
        known
    }

    /// Returns the values of ours that may be in force in this run. A journalled value that was restored since is not one of them: where
    /// it is found again, its owner has set it.
    pub fn may_be_in_force(&self) -> Vec<Setting> {
        self.ours.settings().chain(self.unconfirmed()).collect()
    }

    /// Returns the values of ours that are not confirmed.
    pub fn unconfirmed(&self) -> Vec<Setting> {
        self.unconfirmed.iter().chain(&self.in_flight).copied().collect()
    }

    /// Whether the journal holds, or soon will hold, values of ours.
    pub fn may_need_restore(&self) -> bool {
        !self.journalled.is_empty() || !self.in_flight.is_empty()
    }

    /// Returns what must be durable before `settings` are written: these, and our other values of the same kinds, which may be in
    /// force until then.
    pub fn to_journal(&self, settings: &[Setting]) -> Vec<Setting> {
        let is_affected =
            |known: &Setting| settings.iter().any(|setting| setting.kind() == known.kind() && setting != known);
        settings.iter().copied().chain(self.known().into_iter().filter(is_affected)).collect()
    }

    /// Whether another value may be written. With too many unconfirmed values the original is restored first.
    pub fn has_room_for(&self, setting: Setting) -> bool {
        self.unconfirmed.contains(&setting) || !self.is_crowded(setting.kind())
    }

    fn is_crowded(&self, kind: LimitKind) -> bool {
        self.unconfirmed.iter().filter(|setting| setting.kind() == kind).count() >= UNCONFIRMED_AT_MOST
    }

    /// Records that these values are being written.
    pub fn begin_write(&mut self, settings: &[Setting]) {
        self.in_flight.extend(settings);
    }

    /// Records the outcome of a change or a restore. `longest`: the policy's longest interval.
    pub fn record_outcome(&mut self, outcome: &Outcome, now: Millis, longest: Millis) -> OutcomeReport {
        self.in_flight.retain(|in_flight| !outcome.requested.contains(in_flight));
        if let Some(journalled) = outcome.journalled {
            self.original = journalled.original;
            self.engine = journalled.engine.or(self.engine);
            let new = outcome.requested.iter().filter(|requested| !self.journalled.contains(requested));
            self.journalled.extend(new.copied().collect::<Vec<_>>());
        }
        match &outcome.end {
            End::Written => {
                self.unconfirmed
                    .retain(|setting| !outcome.requested.iter().any(|requested| requested.kind() == setting.kind()));
                let is_current = |kind: LimitKind| outcome.current.iter().any(|current| current.kind() == kind);
                self.journalled.retain(|known| !is_current(known.kind()) || outcome.requested.contains(known));
                self.set_current(&outcome.current);
                self.holds.wrote(&outcome.requested);
                in_force(outcome)
            }
            End::ChangedByOthers(_) => OutcomeReport::Quiet, // found by the next reading
            End::Restored { forgotten, theirs, .. } => {
                if *forgotten {
                    self.settle();
                } else {
                    self.ours = Limits::default();
                    self.unconfirmed.retain(|setting| theirs.contains(&setting.kind()));
                }
                self.holds.restored(&outcome.requested);
                in_force(outcome)
            }
            End::Accepted(accepted) => {
                self.settle();
                (self.original, self.current) = (accepted.original, accepted.original);
                self.engine = accepted.engine;
                self.holds.accepted();
                OutcomeReport::Accepted
            }
            End::NotBegun(why) => {
                if self.journalled.is_empty() {
                    self.journalled.clone_from(&outcome.requested); // it may be on the disk all the same
                }
                self.holds.not_begun(why, &outcome.requested, now, longest);
                OutcomeReport::Failed(why.clone())
            }
            End::Failed(why) => {
                self.mark_unconfirmed(outcome);
                if outcome.journalled.is_some() {
                    self.set_current(&outcome.current);
                }
                let mut failed = outcome.requested.clone();
                let is_in_force =
                    |requested: &Setting| outcome.current.iter().any(|current| current.kind() == requested.kind());
                failed.retain(|requested| !is_in_force(requested) || outcome.current.len() == outcome.requested.len());
                self.holds.failed(why, &failed, now, longest);
                OutcomeReport::Failed(why.clone())
            }
            End::Gone => {
                self.mark_unconfirmed(outcome);
                OutcomeReport::Quiet
            }
        }
    }

    fn set_current(&mut self, current: &[Setting]) {
        for setting in current {
            let is_original = self.original.get(setting.kind()) == Some(*setting);
            if is_original {
                self.ours.unset(setting.kind())
            } else {
                self.ours.set(*setting)
            }
            self.current.set(*setting);
        }
        if !current.is_empty() {
            self.drifts.written();
        }
    }

    /// Records what was requested and may still take effect. A restore may also request an owner's values, which are never ours.
    fn mark_unconfirmed(&mut self, Outcome { requested, journalled, .. }: &Outcome) {
        let may_be_ours = |one: &&Setting| journalled.is_some() || self.original.get(one.kind()) == Some(**one);
        let new = requested.iter().filter(may_be_ours).filter(|one| !self.unconfirmed.contains(one));
        self.unconfirmed.extend(new.copied().collect::<Vec<_>>());
    }

    /// Records that nothing of ours is in force, or will be, and that the journal has forgotten it.
    pub fn settle(&mut self) {
        self.ours = Limits::default();
        self.unconfirmed.clear();
        self.journalled.clear();
        self.drifts.written();
    }

    /// Returns our values that are in force, or may come into force, in place of an original.
    pub fn leftover(&self) -> Vec<Setting> {
        let engine = self.engine.unwrap_or_default();
        let is_left = |ours: &Setting| {
            let now = self.current.get(ours.kind());
            let Some((original, now)) = self.original.get(ours.kind()).zip(now) else { return false };
            let is_ours = results_from(*ours, now, &engine) && now != original;
            is_ours || self.unconfirmed.contains(ours) && now == original && *ours != original
        };
        self.may_be_in_force().into_iter().filter(is_left).collect()
    }

    /// Returns how the limits should be restored now, if they should: the container is left alone, or about to be governed again, or too
    /// many values are unconfirmed.
    pub fn restore_due(&self, now: Millis, everything_released: bool) -> Option<AfterRestore> {
        if self.holds.unwritable.as_ref().is_some_and(|(_, until)| now < *until) {
            return None;
        }
        if self.holds.accepting {
            return Some(AfterRestore::Accept);
        }
        let is_due = match self.holds.strongest(now, everything_released) {
            Some(Hold::Released | Hold::Foreign(_) | Hold::Moved(_)) => !self.leftover().is_empty(),
            _ => LimitKind::ALL.into_iter().any(|kind| self.is_crowded(kind)),
        };
        is_due.then_some(AfterRestore::Keep)
    }

    /// Compares the current values with the expected ones. `is_reported`: the engine reported an update, so even the original was set
    /// on purpose.
    pub fn check(
        &mut self,
        is_reported: bool,
        now: Millis,
        everything_released: bool,
        intervals: (Millis, Millis),
    ) -> Verdict {
        let hold = self.holds.strongest(now, everything_released);
        if self.holds.foreign.is_some() || self.holds.accepting || matches!(hold, Some(Hold::Released)) {
            return Verdict::Fine;
        }
        let may_be_late = self.late_until.is_some_and(|until| now < until);
        let late = self.resulting_from(&self.unconfirmed());
        let is_owners = |ours: &Setting| {
            self.current.get(ours.kind()) == self.original.get(ours.kind()) && late.get(ours.kind()).is_none()
        };
        let foreign = match drift(&self.original, &self.ours, &late, &self.current) {
            None => {
                self.drifts.written();
                return Verdict::Fine;
            }
            Some(Drift::Foreign(text)) => text,
            // Not so a late write of ours, which is reported too.
            Some(Drift::Reverted(settings)) if is_reported && !may_be_late && settings.iter().any(is_owners) => {
                "its original limits were restored".to_owned()
            }
            Some(Drift::Reverted(settings)) => {
                return match self.drifts.reverted(&settings, now, intervals.0, intervals.1) {
                    None => Verdict::Fine, // reported already
                    Some(wait) => Verdict::Reverted(settings, wait),
                };
            }
        };
        self.holds.foreign = Some(foreign.clone());
        Verdict::Foreign(foreign)
    }

    /// Returns the changes by others, oldest first.
    pub fn drifts(&self) -> Vec<LimitDrift> {
        self.drifts.recent()
    }

    /// Records a change by others, for `flowctl explain`.
    pub fn record_drift(&mut self, unix_ms: u64, by: DriftBy, text: String) {
        self.drifts.push(LimitDrift { unix_ms, by, text });
    }

    /// Returns why the container is left alone, if it is.
    pub fn hold(&self, now: Millis, everything_released: bool) -> Option<Hold> {
        self.holds.strongest(now, everything_released)
    }

    /// Returns all reasons to leave it alone.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Records an operator's request to release the container: its original limits are restored, and it is left alone.
    pub fn release(&mut self) {
        (self.holds.released, self.holds.accepting) = (true, false);
    }

    /// Records the cgroup into which the processes were moved; `None`: they are in their own. Returns whether that is new.
    pub fn moved(&mut self, to: Option<&String>) -> bool {
        let is_new = self.holds.moved.as_ref() != to;
        self.holds.moved = to.cloned();
        is_new
    }

    /// Leaves the container alone because its limits belong to others.
    pub fn yield_to(&mut self, why: &str) {
        self.holds.foreign = Some(why.to_owned());
    }

    /// Only watches the container until then, because it ran before the daemon started.
    pub fn settle_until(&mut self, until: Millis) {
        self.holds.settling_until = Some(until);
    }

    /// Leaves the container alone until then.
    pub fn wait_until(&mut self, why: &str, until: Millis) {
        self.holds.unwritable = Some((why.to_owned(), until));
    }

    /// Forgets failed writes that were not tried again for longer than the longest interval. Returns whether there were any.
    pub fn forget_old_failure(&mut self, now: Millis, longest: Millis) -> bool {
        self.holds.forget_old_failure(now, longest)
    }

    /// Governs the container again. Returns whether its present limits are accepted as the originals first, because it was left alone and
    /// others may have changed them meanwhile. `must_accept`: even if it was not.
    pub fn govern(&mut self, must_accept: bool) -> bool {
        self.holds.govern(must_accept);
        self.holds.accepting
    }
}

fn in_force(outcome: &Outcome) -> OutcomeReport {
    if outcome.current.is_empty() { OutcomeReport::Quiet } else { OutcomeReport::Wrote(outcome.current.clone()) }
}
