//! What is known of one container's limits: the original, what stands by our hand, what we asked for without knowing what came of it,
//! what was read last, and why it is left alone.
//!
//! It changes by transitions only: found, read, asked, noted (what came of it), yielded, released, ended. Imports: model.

use super::drift::{Drift, Drifts, drift};
use super::equal::{came_of, standing_of};
use super::holds::Holds;
use super::step::{End, Outcome, Promised};
use crate::model::{DriftBy, EngineLimits, Hold, LimitDrift, LimitKind, Limits, Millis, Setting};

/// What was asked of an engine that went down waits at its socket: the next one may still do it, in the middle of the new run. Until then.
const LATE_AT_MOST: Millis = Millis::from_secs(60);
/// Values of one limit that were asked for without an answer: before more is asked, the original goes back.
const DOUBTS_AT_MOST: usize = 4;

/// One container's limits.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    original: Limits,
    /// The same in the engine's own numbers.
    engine: Option<EngineLimits>,
    /// As last read.
    stands: Limits,
    /// What we wrote and read back.
    ours: Limits,
    /// What is being written.
    asking: Vec<Setting>,
    /// What was asked for and may still come into force: nobody said that it was done.
    doubts: Vec<Setting>,
    /// What the journal has of ours: it may stand, or be in an engine's record for the next run.
    promised: Vec<Setting>,
    /// Until then, what was asked for its last run may be done.
    late_until: Option<Millis>,
    drifts: Drifts,
    holds: Holds,
}

/// How a container was left, for its next run: an engine keeps our update over a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastRun {
    original: Limits,
    engine: Option<EngineLimits>,
    known: Vec<Setting>,
}

/// What an outcome means to people.
#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// Nothing changed.
    Quiet,
    /// These stand now.
    Wrote(Vec<Setting>),
    /// They could not be written, and are left alone for a while.
    Failed(String),
    /// What stands is its original from now on.
    Accepted,
}

/// Whether what stands is what should.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is, or it is not ours to judge now.
    Fine,
    /// Somebody set a value of their own: the container is left alone from now on.
    Theirs(String),
    /// The system put originals back; they are decided anew after this wait.
    Reverted(Vec<Setting>, Millis),
}

impl Ledger {
    /// Of a container that was just found with these limits.
    pub fn found(stands: Limits, engine: Option<EngineLimits>) -> Ledger {
        Ledger { original: stands, engine, stands, ..Ledger::default() }
    }

    /// An earlier daemon knew this very container: `written` may stand by its hand.
    pub fn recall(&mut self, original: Limits, engine: Option<EngineLimits>, written: &[Setting]) {
        self.original = original;
        self.engine = engine.or(self.engine);
        self.ours = self.standing_of(written);
        self.doubts = written.to_vec();
        self.promised = written.to_vec();
    }

    /// It ran before. What stands in the new run and is ours of the last one is no original.
    pub fn begin_after(&mut self, last: LastRun, now: Millis) {
        if !self.promised.is_empty() {
            return; // the journal said so already
        }
        let present = std::mem::replace(&mut self.engine, last.engine);
        self.ours = self.standing_of(&last.known);
        if self.ours == Limits::default() {
            self.engine = present;
        }
        for ours in self.ours.settings() {
            self.original.set(last.original.get(ours.kind()).unwrap_or(ours));
        }
        if !last.known.is_empty() {
            self.late_until = Some(now.after(LATE_AT_MOST));
            self.doubts = last.known.clone();
            self.promised = last.known;
        }
    }

    /// What stands and came of one of these.
    fn standing_of(&self, known: &[Setting]) -> Limits {
        let engine = self.engine.unwrap_or_default();
        LimitKind::ALL.into_iter().filter_map(|kind| standing_of(known, self.stands.get(kind), &engine)).collect()
    }

    /// What a next run must know, if an engine keeps anything of ours.
    pub fn last_run(&self) -> LastRun {
        LastRun { original: self.original, engine: self.engine, known: self.known() }
    }

    /// Its limits before our first change.
    pub fn original(&self) -> &Limits {
        &self.original
    }

    /// The same in the engine's own numbers.
    pub fn engine(&self) -> Option<EngineLimits> {
        self.engine
    }

    /// Both, as the journal is to remember them.
    pub fn to_promise(&self) -> Promised {
        Promised { original: self.original, engine: self.engine }
    }

    /// What stood when last read.
    pub fn stands(&self) -> &Limits {
        &self.stands
    }

    /// Takes note of what stands.
    pub fn read(&mut self, stands: Limits) {
        self.stands = stands;
    }

    /// All values that may stand by our hand, now or in a next run.
    pub fn known(&self) -> Vec<Setting> {
        let mut known = self.promised.clone();
        for setting in self.ours.settings().chain(self.asking.iter().copied()) {
            if !known.contains(&setting) {
                known.push(setting);
            }
        }
        known
    }

    /// Those of them of which nobody said that they were done.
    pub fn doubts(&self) -> Vec<Setting> {
        self.doubts.iter().chain(&self.asking).copied().collect()
    }

    /// Whether the journal has anything of ours, or soon will.
    pub fn owes_anything(&self) -> bool {
        !self.promised.is_empty() || !self.asking.is_empty()
    }

    /// What must be durable before `settings` are written: they, and what may stand of these kinds until then.
    pub fn promise(&self, settings: &[Setting]) -> Vec<Setting> {
        let is_meant =
            |known: &Setting| settings.iter().any(|setting| setting.kind() == known.kind() && setting != known);
        settings.iter().copied().chain(self.known().into_iter().filter(is_meant)).collect()
    }

    /// Whether one more value may be asked for. Where too many are in doubt, the original goes back first.
    pub fn has_room_for(&self, setting: Setting) -> bool {
        self.doubts.contains(&setting) || !self.is_crowded(setting.kind())
    }

    fn is_crowded(&self, kind: LimitKind) -> bool {
        self.doubts.iter().filter(|doubt| doubt.kind() == kind).count() >= DOUBTS_AT_MOST
    }

    /// These are being written.
    pub fn asked(&mut self, settings: &[Setting]) {
        self.asking.extend(settings);
    }

    /// Takes note of what came of a change or a return. `longest`: the policy's longest interval.
    pub fn note(&mut self, outcome: &Outcome, now: Millis, longest: Millis) -> Noted {
        self.asking.retain(|asking| !outcome.asked.contains(asking));
        if let Some(promised) = outcome.promised {
            self.original = promised.original;
            self.engine = promised.engine.or(self.engine);
            let new = outcome.asked.iter().filter(|asked| !self.promised.contains(asked));
            self.promised.extend(new.copied().collect::<Vec<_>>());
        }
        match &outcome.end {
            End::Written => {
                self.doubts.retain(|doubt| !outcome.asked.iter().any(|asked| asked.kind() == doubt.kind()));
                let stand = |kind: LimitKind| outcome.stands.iter().any(|stands| stands.kind() == kind);
                self.promised.retain(|known| !stand(known.kind()) || outcome.asked.contains(known));
                self.stand(&outcome.stands);
                self.wrote(outcome)
            }
            End::Theirs(_) => Noted::Quiet, // the next reading tells
            End::Returned { forgotten, .. } => {
                if *forgotten {
                    self.settle();
                } else {
                    self.ours = Limits::default();
                    self.doubts.clear();
                }
                self.wrote(outcome)
            }
            End::Accepted(stands) => {
                self.settle();
                (self.original, self.stands) = (*stands, *stands);
                self.holds = Holds::default();
                Noted::Accepted
            }
            End::NotBegun(why) => {
                if self.promised.is_empty() {
                    self.promised.clone_from(&outcome.asked); // the disk may have it all the same
                }
                self.holds.failed(why, &outcome.asked, now, longest);
                Noted::Failed(why.clone())
            }
            End::Failed(why) => {
                // What a return writes is never ours.
                if outcome.promised.is_some() {
                    self.doubt(&outcome.asked);
                    self.stand(&outcome.stands);
                }
                let mut failed = outcome.asked.clone();
                let stands = |asked: &Setting| outcome.stands.iter().any(|stands| stands.kind() == asked.kind());
                failed.retain(|asked| !stands(asked) || outcome.stands.len() == outcome.asked.len());
                self.holds.failed(why, &failed, now, longest);
                Noted::Failed(why.clone())
            }
            End::Gone => {
                if outcome.promised.is_some() {
                    self.doubt(&outcome.asked);
                }
                Noted::Quiet
            }
        }
    }

    fn wrote(&mut self, outcome: &Outcome) -> Noted {
        self.holds.wrote(&outcome.asked);
        if outcome.stands.is_empty() { Noted::Quiet } else { Noted::Wrote(outcome.stands.clone()) }
    }

    fn stand(&mut self, stands: &[Setting]) {
        for setting in stands {
            let is_original = self.original.get(setting.kind()) == Some(*setting);
            if is_original {
                self.ours.unset(setting.kind())
            } else {
                self.ours.set(*setting)
            }
            self.stands.set(*setting);
        }
        if !stands.is_empty() {
            self.drifts.written();
        }
    }

    fn doubt(&mut self, asked: &[Setting]) {
        for setting in asked {
            if !self.doubts.contains(setting) && self.original.get(setting.kind()) != Some(*setting) {
                self.doubts.push(*setting);
            }
        }
    }

    /// Nothing of ours stands any more, nor will, and the journal has forgotten it.
    pub fn settle(&mut self) {
        self.ours = Limits::default();
        self.doubts.clear();
        self.promised.clear();
        self.drifts.written();
    }

    /// What of ours stands where an original should, or may come to, once it is left alone.
    pub fn leftover(&self) -> Vec<Setting> {
        let engine = self.engine.unwrap_or_default();
        let is_left = |ours: &Setting| {
            let now = self.stands.get(ours.kind());
            let Some((original, now)) = self.original.get(ours.kind()).zip(now) else { return false };
            let is_ours = came_of(*ours, now, &engine) && now != original;
            is_ours || self.doubts.contains(ours) && now == original
        };
        self.known().into_iter().filter(is_left).collect()
    }

    /// Whether its limits should go back now: it is left alone, or too much is in doubt.
    pub fn wants_back(&self, now: Millis, everything_paused: bool) -> bool {
        let is_time = self.holds.unwritable.as_ref().is_none_or(|(_, until)| now >= *until);
        let is_crowded = LimitKind::ALL.into_iter().any(|kind| self.is_crowded(kind));
        let hold = self.holds.strongest(now, everything_paused);
        is_time
            && (is_crowded || matches!(hold, Some(Hold::Operator | Hold::Foreign(_))) && !self.leftover().is_empty())
    }

    /// Compares what stands with what should. `told`: the engine said that somebody set it, and even the original is somebody's will.
    pub fn check(&mut self, told: bool, now: Millis, everything_paused: bool, intervals: (Millis, Millis)) -> Verdict {
        let hold = self.holds.strongest(now, everything_paused);
        if self.holds.foreign.is_some() || matches!(hold, Some(Hold::Operator)) {
            return Verdict::Fine;
        }
        let is_returning = self.late_until.is_some_and(|until| now < until);
        let unsettled: Vec<Setting> = self.asking.iter().chain(&self.doubts).copied().collect();
        let theirs = match drift(&self.original, &self.ours, &unsettled, &self.stands) {
            None => {
                self.drifts.written();
                return Verdict::Fine;
            }
            Some(Drift::Foreign(text)) => text,
            Some(Drift::Reverted(_)) if told && !is_returning => "its original limits were put back".to_owned(),
            Some(Drift::Reverted(settings)) => {
                let (interval, longest) = intervals;
                return match self.drifts.reverted(&settings, now, interval, longest) {
                    None => Verdict::Fine, // told already
                    Some(wait) => Verdict::Reverted(settings, wait),
                };
            }
        };
        self.holds.foreign = Some(theirs.clone());
        Verdict::Theirs(theirs)
    }

    /// The changes by others that it has seen, oldest first.
    pub fn drifts(&self) -> Vec<LimitDrift> {
        self.drifts.told()
    }

    /// Remembers a change by others, for `flowctl explain`.
    pub fn tell(&mut self, unix_ms: u64, by: DriftBy, text: String) {
        self.drifts.tell(LimitDrift { unix_ms, by, text });
    }

    /// Why it is left alone, if it is.
    pub fn hold(&self, now: Millis, everything_paused: bool) -> Option<Hold> {
        self.holds.strongest(now, everything_paused)
    }

    /// Each reason by itself.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// An operator said to leave it alone.
    pub fn leave_alone(&mut self) {
        self.holds.operator = true;
    }

    /// Its limits are somebody else's.
    pub fn yield_to(&mut self, why: &str) {
        self.holds.foreign = Some(why.to_owned());
    }

    /// It ran before the daemon did: it is looked at until then.
    pub fn settle_until(&mut self, until: Millis) {
        self.holds.settling_until = Some(until);
    }

    /// Left alone until then.
    pub fn wait_until(&mut self, why: &str, until: Millis) {
        self.holds.unwritable = Some((why.to_owned(), until));
    }

    /// Ends every hold but that of somebody else's limits, which ends when it is known that nothing but theirs stands; whether there is
    /// one.
    pub fn release(&mut self) -> bool {
        let foreign = self.holds.foreign.take();
        self.holds = Holds::default();
        self.holds.foreign = foreign;
        self.holds.foreign.is_some()
    }
}
