//! Changing the limits of one container: journal the change, read the current values, write, and read back.
//!
//! Nothing is written before it is durable in the journal. A value that the owner set since the decision is not overwritten. A value
//! that is read back counts as ours only if it results from this write, so an owner's change during a slow write stays.

use super::equal::{resulting_from, results_from};
use super::ledger::Ledger;
use super::step::{Ask, End, Journalled, Operation, Outcome, Step, StepResult, WriteResult, check_readable};
use model::{Limits, Setting};

/// A change of one container's limits in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    settings: Vec<Setting>,
    /// Values written by flowcon that may be in force already.
    known: Vec<Setting>,
    journalled: Journalled,
    stage: ChangeStage,
}

#[derive(Clone, Debug, PartialEq)]
enum ChangeStage {
    Journalling,
    Reading,
    Writing,
    ReadingBack(WriteResult),
}

impl Change {
    /// Starts to write `settings`, with the ledger as it was when they were decided.
    pub fn begin(ledger: &Ledger, settings: Vec<Setting>) -> (Change, Ask) {
        let ask = Ask::Journal(ledger.to_journal(&settings));
        let journalled = Journalled::default();
        (Change { settings, known: ledger.may_be_in_force(), journalled, stage: ChangeStage::Journalling }, ask)
    }

    /// Returns a current value that is neither the original nor ours. A change in the few milliseconds between this check and the write
    /// goes unnoticed: kernels and engines offer no compare-and-set.
    fn foreign_value(&self, current: &Limits) -> Option<Setting> {
        self.settings.iter().filter_map(|setting| current.get(setting.kind())).find(|now| {
            let is_original = self.journalled.original.get(now.kind()).is_none_or(|original| original == *now);
            let engine = self.journalled.engine.unwrap_or_default();
            !is_original && resulting_from(&self.known, Some(*now), &engine).is_none()
        })
    }

    fn ask(mut self, stage: ChangeStage, ask: Ask) -> Step<Change> {
        self.stage = stage;
        Step::Ask(self, ask)
    }

    fn end(self, current: Vec<Setting>, end: End, is_journalled: bool) -> Step<Change> {
        let journalled = is_journalled.then_some(self.journalled);
        Step::Done(Box::new(Outcome { requested: self.settings, current, journalled, end }))
    }
}

impl Operation for Change {
    fn answer(mut self, answer: StepResult) -> Step<Change> {
        match (self.stage.clone(), answer) {
            (ChangeStage::Journalling, StepResult::Journalled(Err(why))) => {
                let why = format!("no new limits are set while the journal cannot be written: {why}");
                self.end(Vec::new(), End::NotBegun(why), false)
            }
            (ChangeStage::Journalling, StepResult::Journalled(Ok(journalled))) => {
                self.journalled = journalled;
                self.ask(ChangeStage::Reading, Ask::Read)
            }
            // The engine addresses containers by id, so a write would change the next run.
            (ChangeStage::Reading, StepResult::Read { runs: false, .. }) => self.end(Vec::new(), End::Gone, true),
            (ChangeStage::Reading, StepResult::Read { current, .. }) => {
                match (check_readable(&self.settings, &current), self.foreign_value(&current)) {
                    (Err(why), _) => self.end(Vec::new(), End::Failed(why), true),
                    (_, Some(foreign_value)) => self.end(Vec::new(), End::ChangedByOthers(foreign_value), true),
                    _ => {
                        let write = Ask::Write(self.settings.clone());
                        self.ask(ChangeStage::Writing, write)
                    }
                }
            }
            (ChangeStage::Writing, StepResult::Wrote(wrote)) => self.ask(ChangeStage::ReadingBack(wrote), Ask::Read),
            (ChangeStage::ReadingBack(wrote), StepResult::Read { current, runs }) => {
                let engine = self.journalled.engine.unwrap_or_default();
                let is_result = |requested: &Setting| {
                    current.get(requested.kind()).filter(|now| results_from(*requested, *now, &engine))
                };
                let results = self.settings.iter().filter_map(is_result).collect();
                let end = match wrote {
                    WriteResult::Gone => End::Gone,
                    _ if !runs => End::Gone,
                    WriteResult::Done => {
                        check_readable(&self.settings, &current).map_or_else(End::Failed, |()| End::Written)
                    }
                    WriteResult::Failed(why) => End::Failed(why),
                };
                self.end(results, end, true)
            }
            (_, answer) => Step::Done(Outcome::unexpected(&answer)),
        }
    }
}
