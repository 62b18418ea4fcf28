//! Restoring limits: values of ours are replaced by the original, and values set by others stay.
//!
//! An engine carries out the updates of one container in order. So where it may still have an unconfirmed update of ours, the original
//! is requested even if it is in force: a late update then takes effect before it. "If a change ever started, its undoing must
//! succeed": what cannot be undone now stays in the journal for the next try. Nothing counts as undone that was not read back, from the
//! cgroup and from the engine's record.

use super::equal::{has_value, resulting_from};
use super::ledger::Ledger;
use super::step::{
    AfterRestore, Ask, End, EngineRecord, Journalled, Operation, Outcome, RecordResult, Step, StepResult, WriteResult,
    check_readable,
};
use model::{EngineLimits, LimitKind, Limits, Setting};

/// A restore of one container's limits in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Restore {
    original: Limits,
    /// The original in the engine's units.
    engine: EngineLimits,
    /// Values of ours, in this run or in the engine's record for the next one.
    known: Vec<Setting>,
    /// Those of `known` that may be in force in this run.
    may_be_in_force: Vec<Setting>,
    /// Those of `known` that are not confirmed.
    unconfirmed: Vec<Setting>,
    /// Whether writes go through an engine or systemd, which may apply them late.
    is_deferred: bool,
    then: AfterRestore,
    stage: RestoreStage,
    requested: Vec<Setting>,
    /// Values of ours, as they were read.
    found_ours: Vec<Setting>,
    kept: Vec<String>,
    /// Limits whose values others set.
    theirs: Vec<LimitKind>,
    current: Limits,
    /// What its engine keeps for the next run.
    record: EngineRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestoreStage {
    Reading,
    Writing,
    Verifying,
    Record,
    ReadingRecord,
    Forgetting,
}

impl Restore {
    /// Starts for a running container with this ledger. `is_deferred`: an engine or systemd writes its limits.
    pub fn begin(ledger: &Ledger, is_deferred: bool, then: AfterRestore) -> (Restore, Ask) {
        let restore = Restore::new(ledger.originals(), ledger.known(), is_deferred, then, RestoreStage::Reading);
        let (may_be_in_force, unconfirmed) = (ledger.may_be_in_force(), ledger.unconfirmed());
        (Restore { may_be_in_force, unconfirmed, ..restore }, Ask::Read)
    }

    /// Starts for a running container that is known only from the journal.
    pub fn of_journal(original: Journalled, written: Vec<Setting>, is_deferred: bool) -> (Restore, Ask) {
        (Restore::new(original, written, is_deferred, AfterRestore::Forget, RestoreStage::Reading), Ask::Read)
    }

    /// Starts for a container that does not run and is to be forgotten.
    pub fn of_record(original: Journalled, known: Vec<Setting>) -> (Restore, Ask) {
        let ask = Ask::RestoreRecord(known.clone());
        (Restore::new(original, known, true, AfterRestore::Forget, RestoreStage::Record), ask)
    }

    fn new(
        original: Journalled,
        known: Vec<Setting>,
        is_deferred: bool,
        then: AfterRestore,
        stage: RestoreStage,
    ) -> Restore {
        Restore {
            original: original.original,
            engine: original.engine.unwrap_or_default(),
            may_be_in_force: known.clone(),
            known,
            unconfirmed: Vec::new(),
            is_deferred,
            then,
            stage,
            requested: Vec::new(),
            found_ours: Vec::new(),
            kept: Vec::new(),
            theirs: Vec::new(),
            current: Limits::default(),
            record: EngineRecord::default(),
        }
    }

    /// Sorts the current values into those to write and those that others set.
    fn compare(&mut self, current: Limits) {
        self.current = current;
        for original in self.original.settings() {
            let kind = original.kind();
            let known: Vec<Setting> = self.known.iter().copied().filter(|known| known.kind() == kind).collect();
            let Some(now) = current.get(kind).filter(|_| !known.is_empty()) else { continue };
            if now == original {
                // The engine or systemd may still have our value: for later, or for the next run.
                let is_unconfirmed = self.unconfirmed.iter().any(|setting| setting.kind() == kind);
                if self.is_deferred && (is_unconfirmed || self.then != AfterRestore::Keep) {
                    self.requested.push(original);
                }
            } else if resulting_from(&self.may_be_in_force, Some(now), &self.engine).is_some() {
                self.requested.push(original);
                self.found_ours.push(now);
            } else {
                self.kept.push(format!("{now} was set by somebody else"));
                self.theirs.push(kind);
                if self.is_deferred && self.then == AfterRestore::Accept {
                    self.requested.push(now); // so that the next run, or reload, has the owner's value instead of ours
                }
            }
        }
    }

    /// Switches to the engine's record: the container ended, so none of its values can be accepted.
    fn record(mut self) -> Step<Restore> {
        self.then = AfterRestore::Forget;
        let ask = Ask::RestoreRecord(self.known.clone());
        self.ask(RestoreStage::Record, ask)
    }

    /// Ends, or checks the engine's record first if the journal is to forget.
    fn finish(self) -> Step<Restore> {
        let is_ours = |known: &&Setting| self.original.get(known.kind()).is_some_and(|original| original != **known);
        let known: Vec<Setting> = self.known.iter().filter(is_ours).copied().collect();
        if let Err(why) = check_readable(&known, &self.current) {
            return self.end(End::Failed(why));
        }
        match self.then {
            AfterRestore::Keep => self.restored(false),
            AfterRestore::Forget if self.is_deferred => self.ask(RestoreStage::ReadingRecord, Ask::ReadRecord(known)),
            AfterRestore::Forget => self.ask(RestoreStage::Forgetting, Ask::Forget),
            AfterRestore::Accept => {
                // A value that is accepted is the owner's, even if it was ours before.
                let is_accepted = |known: &Setting| has_value(&self.current, *known);
                let ours = known.into_iter().filter(|known| !is_accepted(known)).collect();
                self.ask(RestoreStage::ReadingRecord, Ask::ReadRecord(ours))
            }
        }
    }

    /// Handles what the engine keeps for the next run.
    fn check_record(mut self, record: Result<EngineRecord, String>) -> Step<Restore> {
        let why = match record {
            Ok(record) if !record.has_ours => {
                self.record = record;
                return self.ask(RestoreStage::Forgetting, Ask::Forget);
            }
            Ok(_) => "its engine keeps a value of flowcon for its next run".to_owned(),
            Err(why) => format!("its engine did not say what it keeps for its next run: {why}"),
        };
        if self.then == AfterRestore::Accept {
            return self.end(End::Failed(why));
        }
        // The owner changed only the cgroup. The engine's record for the next run is restored when this run ends.
        self.kept.push(why);
        self.restored(false)
    }

    fn restored(mut self, forgotten: bool) -> Step<Restore> {
        let (kept, theirs) = (std::mem::take(&mut self.kept), std::mem::take(&mut self.theirs));
        let found_ours = !self.found_ours.is_empty();
        self.end(End::Restored { found_ours, forgotten, kept, theirs })
    }

    fn ask(mut self, stage: RestoreStage, ask: Ask) -> Step<Restore> {
        self.stage = stage;
        Step::Ask(self, ask)
    }

    fn end(self, end: End) -> Step<Restore> {
        let current = self.requested.iter().copied().filter(|requested| has_value(&self.current, *requested)).collect();
        Step::Done(Box::new(Outcome { requested: self.requested, current, journalled: None, end }))
    }
}

impl Operation for Restore {
    fn forgotten(&self) -> &[Setting] {
        if self.then == AfterRestore::Keep { &[] } else { &self.known }
    }

    fn answer(mut self, answer: StepResult) -> Step<Restore> {
        match (self.stage, answer) {
            (RestoreStage::Reading, StepResult::Read { runs: false, .. }) if self.then == AfterRestore::Keep => {
                self.end(End::Gone)
            }
            (RestoreStage::Reading, StepResult::Read { runs: false, .. }) => self.record(),
            (RestoreStage::Reading, StepResult::Read { current, .. }) => {
                self.compare(current);
                if self.requested.is_empty() {
                    return self.finish();
                }
                let write = Ask::Write(self.requested.clone());
                self.ask(RestoreStage::Writing, write)
            }
            (RestoreStage::Writing, StepResult::Wrote(WriteResult::Gone)) => self.record(),
            (RestoreStage::Writing, StepResult::Wrote(WriteResult::Failed(why))) => self.end(End::Failed(why)),
            (RestoreStage::Writing, StepResult::Wrote(WriteResult::Done)) => {
                self.ask(RestoreStage::Verifying, Ask::Read)
            }
            (RestoreStage::Verifying, StepResult::Read { runs: false, .. }) => self.record(),
            (RestoreStage::Verifying, StepResult::Read { current, .. }) => {
                self.current = current;
                match self.found_ours.iter().find(|ours| current.get(ours.kind()) == Some(**ours)) {
                    Some(ours) => {
                        let why =
                            format!("{ours} is still in force, although the write was not refused; restore again");
                        self.end(End::Failed(why))
                    }
                    None => self.finish(),
                }
            }
            (RestoreStage::Record, StepResult::Record(RecordResult::Restored(mut by_owner))) => {
                self.kept.append(&mut by_owner);
                self.ask(RestoreStage::Forgetting, Ask::Forget)
            }
            (RestoreStage::Record, StepResult::Record(RecordResult::Failed(why))) => self.end(End::Failed(why)),
            (RestoreStage::Record, StepResult::Record(RecordResult::RunsAgain)) => self.end(End::Gone),
            (RestoreStage::ReadingRecord, StepResult::ReadRecord(record)) => self.check_record(record),
            (RestoreStage::Forgetting, StepResult::Forgot(Err(why))) => self.end(End::Failed(why)),
            (RestoreStage::Forgetting, StepResult::Forgot(Ok(()))) => {
                let accepted = Journalled { original: self.current, engine: self.record.limits };
                if self.then == AfterRestore::Accept { self.end(End::Accepted(accepted)) } else { self.restored(true) }
            }
            (_, answer) => Step::Done(Outcome::unexpected(&answer)),
        }
    }
}
