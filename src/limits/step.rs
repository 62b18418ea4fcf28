//! What a change or a return asks for, one step at a time, and what is answered. Imports: model.

use crate::model::{EngineLimits, Limits, Setting};

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Read what stands in its cgroup.
    Read,
    /// Make durable, in one step, its original (unless one is known) and these values as all that may stand of these kinds by our hand.
    Promise(Vec<Setting>),
    /// Write these, by whichever way belongs to the container.
    Write(Vec<Setting>),
    /// It does not run: put back what its engine keeps for the next run of these, which may be ours.
    ReturnRecord(Vec<Setting>),
    /// It runs: see whether its engine keeps one of these for the next run.
    LookAtRecord(Vec<Setting>),
    /// Forget its original: nothing of ours is left.
    Forget,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What stands, and whether it still has processes.
    Read {
        /// In its cgroup.
        stands: Limits,
        /// Whether it runs.
        runs: bool,
    },
    /// The original that the journal holds, or why nothing is durable.
    Promised(Result<Promised, String>),
    /// Of writing.
    Wrote(Wrote),
    /// Of returning a record.
    Record(Record),
    /// Whether the engine keeps one of them; also where it cannot be asked.
    Kept(bool),
    /// Of forgetting.
    Forgot(Result<(), String>),
}

/// An original that is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Promised {
    /// As its cgroup had it.
    pub original: Limits,
    /// In the engine's own numbers.
    pub engine: Option<EngineLimits>,
}

/// What came of writing.
#[derive(Clone, Debug, PartialEq)]
pub enum Wrote {
    /// Whoever was asked says that it is done.
    Done,
    /// It was refused, or nobody answered in time: then it may still be done.
    Failed(String),
    /// The container ended.
    Gone,
}

/// What became of the engine's record of a container that does not run.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Nothing of ours is in it any more; with what its owner has put there since, in words.
    Back(Vec<String>),
    /// It is as we left it, and why.
    NotNow(String),
    /// The container runs again: its limits are the new run's.
    RunsAgain,
}

/// A change or a return.
pub trait Operation: Sized {
    /// What to do after this answer.
    fn answer(self, answer: Answer) -> Step<Self>;
}

/// Go on, or it has ended.
#[derive(Debug, PartialEq)]
pub enum Step<T> {
    /// Do this, and tell what came of it.
    Ask(T, Ask),
    /// It has ended.
    Done(Box<Outcome>),
}

/// What a change or a return came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What was asked for; of a return, the originals that were written.
    pub asked: Vec<Setting>,
    /// Which of these kinds stand afterwards by this write.
    pub stands: Vec<Setting>,
    /// The original that the journal holds, where it was asked.
    pub promised: Option<Promised>,
    /// How it ended.
    pub end: End,
}

/// How a change or a return ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// What was asked for was written.
    Written,
    /// Somebody else set this value since it was decided: nothing was written.
    Theirs(Setting),
    /// Nothing of ours stands.
    Returned {
        /// Something of ours stood until now.
        stood: bool,
        /// The journal has forgotten it.
        forgotten: bool,
        /// What somebody else has set, and was left to them, in words.
        left: Vec<String>,
    },
    /// What stands is its original from now on, and the journal has forgotten the other.
    Accepted(Limits),
    /// Nothing was written, and why.
    NotBegun(String),
    /// It failed, with the next step; what was asked for may still come into force.
    Failed(String),
    /// The container ended meanwhile: no fault.
    Gone,
}

impl Outcome {
    /// Of a container of which nothing is remembered.
    pub fn forgotten() -> Outcome {
        let end = End::Returned { stood: false, forgotten: true, left: Vec::new() };
        Outcome { asked: Vec::new(), stands: Vec::new(), promised: None, end }
    }

    /// An answer to a question that was not asked: the caller's mistake, of which no limit may be the victim.
    pub(super) fn out_of_step(answer: &Answer) -> Box<Outcome> {
        let end = End::Failed(format!("{answer:?} answers another question"));
        Box::new(Outcome { asked: Vec::new(), stands: Vec::new(), promised: None, end })
    }
}
