//! Changing limits: first the promise, then a last look, the write, and a reading of what stands.
//!
//! Nothing is written that is not durable; a value that its owner set since the decision is not overwritten; what is read back counts as
//! ours only where it came of this write: an owner who changed the limit while an engine took its time keeps it. Imports: model.

use super::equal::{came_of, standing_of};
use super::ledger::Ledger;
use super::step::{Answer, Ask, End, Operation, Outcome, Promised, Step, Wrote};
use crate::model::{Limits, Setting};

/// One container's limits on their way to new values.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    settings: Vec<Setting>,
    /// Values that may stand by our hand already.
    known: Vec<Setting>,
    promised: Promised,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Promising,
    Looking,
    Writing,
    ReadingBack(Wrote),
}

impl Change {
    /// Begins to write `settings`, as the ledger stood when that was decided.
    pub fn begin(ledger: &Ledger, settings: Vec<Setting>) -> (Change, Ask) {
        let promise = Ask::Promise(ledger.promise(&settings));
        let promised = Promised::default();
        (Change { settings, known: ledger.known(), promised, stage: Stage::Promising }, promise)
    }

    /// A last look before writing: what stands and is neither the original nor ours. A change in the few milliseconds between this look
    /// and the write is lost to us: kernels and engines have no write that compares.
    fn theirs(&self, stands: &Limits) -> Option<Setting> {
        self.settings.iter().filter_map(|setting| stands.get(setting.kind())).find(|now| {
            let is_original = self.promised.original.get(now.kind()).is_none_or(|original| original == *now);
            let engine = self.promised.engine.unwrap_or_default();
            !is_original && standing_of(&self.known, Some(*now), &engine).is_none()
        })
    }

    fn ask(mut self, stage: Stage, ask: Ask) -> Step<Change> {
        self.stage = stage;
        Step::Ask(self, ask)
    }

    fn ends(self, stands: Vec<Setting>, end: End, is_promised: bool) -> Step<Change> {
        let promised = is_promised.then_some(self.promised);
        Step::Done(Box::new(Outcome { asked: self.settings, stands, promised, end }))
    }
}

impl Operation for Change {
    fn answer(mut self, answer: Answer) -> Step<Change> {
        match (self.stage.clone(), answer) {
            (Stage::Promising, Answer::Promised(Err(why))) => {
                let why = format!("nothing is changed without a journal: {why}");
                self.ends(Vec::new(), End::NotBegun(why), false)
            }
            (Stage::Promising, Answer::Promised(Ok(promised))) => {
                self.promised = promised;
                self.ask(Stage::Looking, Ask::Read)
            }
            // An engine that is asked by id would change the next run.
            (Stage::Looking, Answer::Read { runs: false, .. }) => self.ends(Vec::new(), End::Gone, true),
            (Stage::Looking, Answer::Read { stands, .. }) => match self.theirs(&stands) {
                Some(theirs) => self.ends(Vec::new(), End::Theirs(theirs), true),
                None => {
                    let write = Ask::Write(self.settings.clone());
                    self.ask(Stage::Writing, write)
                }
            },
            (Stage::Writing, Answer::Wrote(wrote)) => self.ask(Stage::ReadingBack(wrote), Ask::Read),
            (Stage::ReadingBack(wrote), Answer::Read { stands, runs }) => {
                let engine = self.promised.engine.unwrap_or_default();
                let came_of_it =
                    |asked: &Setting| stands.get(asked.kind()).filter(|now| came_of(*asked, *now, &engine));
                let stands = self.settings.iter().filter_map(came_of_it).collect();
                let end = match wrote {
                    Wrote::Gone => End::Gone,
                    _ if !runs => End::Gone,
                    Wrote::Done => End::Written,
                    Wrote::Failed(why) => End::Failed(why),
                };
                self.ends(stands, end, true)
            }
            (_, answer) => Step::Done(Outcome::out_of_step(&answer)),
        }
    }
}
