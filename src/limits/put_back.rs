//! Putting limits back: what of ours stands becomes the original again, and what somebody else set stays.
//!
//! An engine carries out the updates of one container in the order in which they were asked for. So where it may still have one of ours
//! that nobody saw come into force, the original is asked for although it stands: whatever comes late comes before it. "If a change ever
//! started, its undoing must succeed": what cannot be undone now stays in the journal for the next try. Imports: model.

use super::equal::{standing_of, stands_in};
use super::ledger::Ledger;
use super::step::{Answer, Ask, End, Operation, Outcome, Promised, Record, Step, Wrote};
use crate::model::{EngineLimits, Limits, Setting};

/// What follows when nothing of ours stands any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The journal keeps the original: it will be governed again.
    Keep,
    /// The journal forgets it.
    Forget,
    /// What stands then is its original, because somebody set it on purpose.
    Accept,
}

/// One container's limits on their way back.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    original: Limits,
    /// The same in the engine's own numbers.
    engine: EngineLimits,
    /// Values that may stand by our hand.
    known: Vec<Setting>,
    /// Those of them of which nobody said that they were done.
    doubts: Vec<Setting>,
    /// Whoever is asked to write may do it late.
    is_late: bool,
    then: Then,
    stage: Stage,
    asked: Vec<Setting>,
    /// Of ours, as it was read.
    stood: Vec<Setting>,
    left: Vec<String>,
    /// Values of ours in the place of which somebody else's stand.
    theirs: Vec<Setting>,
    stands: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Looking,
    Writing,
    Verifying,
    Record,
    LookingAtRecord,
    Forgetting,
}

impl Return {
    /// Of a container that runs, as its ledger stands. `is_late`: an engine or systemd writes its limits.
    pub fn begin(ledger: &Ledger, is_late: bool, then: Then) -> (Return, Ask) {
        let back = Return::new(ledger.to_promise(), ledger.known(), is_late, then, Stage::Looking);
        (Return { doubts: ledger.doubts(), ..back }, Ask::Read)
    }

    /// Of one that runs and of which nothing is known but what the journal has.
    pub fn of_journal(original: Promised, written: Vec<Setting>, is_late: bool) -> (Return, Ask) {
        (Return::new(original, written, is_late, Then::Forget, Stage::Looking), Ask::Read)
    }

    /// Of one that does not run, and is to be forgotten.
    pub fn of_record(original: Promised, known: Vec<Setting>) -> (Return, Ask) {
        let ask = Ask::ReturnRecord(known.clone());
        (Return::new(original, known, true, Then::Forget, Stage::Record), ask)
    }

    fn new(original: Promised, known: Vec<Setting>, is_late: bool, then: Then, stage: Stage) -> Return {
        Return {
            original: original.original,
            engine: original.engine.unwrap_or_default(),
            known,
            doubts: Vec::new(),
            is_late,
            then,
            stage,
            asked: Vec::new(),
            stood: Vec::new(),
            left: Vec::new(),
            theirs: Vec::new(),
            stands: Limits::default(),
        }
    }

    /// What is to be written, and what is somebody else's.
    fn look(&mut self, stands: Limits) {
        self.stands = stands;
        for original in self.original.settings() {
            let kind = original.kind();
            let known: Vec<Setting> = self.known.iter().copied().filter(|known| known.kind() == kind).collect();
            let Some(now) = stands.get(kind).filter(|_| !known.is_empty()) else { continue };
            if now == original {
                // Whoever writes it may have ours yet: for later, or for the next run.
                let is_in_doubt = self.doubts.iter().any(|doubt| doubt.kind() == kind);
                if self.is_late && (is_in_doubt || self.then != Then::Keep) {
                    self.asked.push(original);
                }
            } else if standing_of(&known, Some(now), &self.engine).is_some() {
                self.asked.push(original);
                self.stood.push(now);
            } else {
                self.left.push(format!("{now} is neither ours nor the original"));
                self.theirs.extend(known);
                if self.is_late && self.then == Then::Accept {
                    self.asked.push(now); // whoever keeps ours for the next run, or the next reload, keeps theirs instead
                }
            }
        }
    }

    /// It does not run any more: nothing of it can be accepted.
    fn record(mut self) -> Step<Return> {
        self.then = Then::Forget;
        let ask = Ask::ReturnRecord(self.known.clone());
        self.ask(Stage::Record, ask)
    }

    fn finish(mut self) -> Step<Return> {
        match self.then {
            Then::Keep => self.returned(false),
            Then::Forget if self.is_late && !self.theirs.is_empty() => {
                let kept = Ask::LookAtRecord(std::mem::take(&mut self.theirs));
                self.ask(Stage::LookingAtRecord, kept)
            }
            Then::Forget | Then::Accept => self.ask(Stage::Forgetting, Ask::Forget),
        }
    }

    fn returned(mut self, forgotten: bool) -> Step<Return> {
        let left = std::mem::take(&mut self.left);
        let stood = !self.stood.is_empty();
        self.ends(End::Returned { stood, forgotten, left })
    }

    fn ask(mut self, stage: Stage, ask: Ask) -> Step<Return> {
        self.stage = stage;
        Step::Ask(self, ask)
    }

    fn ends(self, end: End) -> Step<Return> {
        let stands = self.asked.iter().copied().filter(|asked| stands_in(&self.stands, *asked)).collect();
        Step::Done(Box::new(Outcome { asked: self.asked, stands, promised: None, end }))
    }
}

impl Operation for Return {
    fn answer(mut self, answer: Answer) -> Step<Return> {
        match (self.stage, answer) {
            (Stage::Looking, Answer::Read { runs: false, .. }) if self.then == Then::Keep => self.ends(End::Gone),
            (Stage::Looking, Answer::Read { runs: false, .. }) => self.record(),
            (Stage::Looking, Answer::Read { stands, .. }) => {
                self.look(stands);
                if self.asked.is_empty() {
                    return self.finish();
                }
                let write = Ask::Write(self.asked.clone());
                self.ask(Stage::Writing, write)
            }
            (Stage::Writing, Answer::Wrote(Wrote::Gone)) => self.record(),
            (Stage::Writing, Answer::Wrote(Wrote::Failed(why))) => self.ends(End::Failed(why)),
            (Stage::Writing, Answer::Wrote(Wrote::Done)) => self.ask(Stage::Verifying, Ask::Read),
            (Stage::Verifying, Answer::Read { runs: false, .. }) => self.record(),
            (Stage::Verifying, Answer::Read { stands, .. }) => {
                self.stands = stands;
                match self.stood.iter().find(|ours| stands.get(ours.kind()) == Some(**ours)) {
                    Some(ours) => {
                        let why = format!("{ours} still stands, though nobody refused to change it; restore again");
                        self.ends(End::Failed(why))
                    }
                    None => self.finish(),
                }
            }
            (Stage::Record, Answer::Record(Record::Back(mut theirs))) => {
                self.left.append(&mut theirs);
                self.ask(Stage::Forgetting, Ask::Forget)
            }
            (Stage::Record, Answer::Record(Record::NotNow(why))) => self.ends(End::Failed(why)),
            (Stage::Record, Answer::Record(Record::RunsAgain)) => self.ends(End::Gone),
            // Its owner changed the cgroup alone. What the engine keeps for the next run goes back when this one ends.
            (Stage::LookingAtRecord, Answer::Kept(true)) => self.returned(false),
            (Stage::LookingAtRecord, Answer::Kept(false)) => self.ask(Stage::Forgetting, Ask::Forget),
            (Stage::Forgetting, Answer::Forgot(Err(why))) => self.ends(End::Failed(why)),
            (Stage::Forgetting, Answer::Forgot(Ok(()))) => {
                let stands = self.stands;
                if self.then == Then::Accept { self.ends(End::Accepted(stands)) } else { self.returned(true) }
            }
            (_, answer) => Step::Done(Outcome::out_of_step(&answer)),
        }
    }
}
