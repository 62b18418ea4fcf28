//! Steps of a change or a restore, and their results.

use model::{EngineLimits, LimitKind, Limits, Setting};

/// A step for the runner to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Read the current values from the cgroup.
    Read,
    /// Make durable, in one transaction, the original (unless one is stored) and these values as all of ours that may be in force.
    Journal(Vec<Setting>),
    /// Write these values through the engine, systemd or the cgroup, whichever the container needs.
    Write(Vec<Setting>),
    /// The container does not run: restore these values in the record that its engine keeps for the next run, if they are ours.
    RestoreRecord(Vec<Setting>),
    /// The container runs: read what its engine keeps for the next run, and whether one of these values is in it.
    ReadRecord(Vec<Setting>),
    /// Remove the container from the journal: nothing of ours is left.
    Forget,
}

/// Result of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepResult {
    /// The current values, and whether the cgroup has processes.
    Read {
        /// Values in its cgroup.
        current: Limits,
        /// Whether it runs.
        runs: bool,
    },
    /// The original that the journal holds, or why nothing is durable.
    Journalled(Result<Journalled, String>),
    /// Result of a write.
    Wrote(WriteResult),
    /// Result of restoring the engine's record.
    Record(RecordResult),
    /// What the engine keeps for the next run, or why it cannot be asked.
    ReadRecord(Result<EngineRecord, String>),
    /// Result of removing the container from the journal.
    Forgot(Result<(), String>),
}

/// An original that is durable in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Journalled {
    /// As read from the cgroup.
    pub original: Limits,
    /// In the engine's units.
    pub engine: Option<EngineLimits>,
}

/// What follows when nothing of ours is in force any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRestore {
    /// The journal keeps the original: the container will be governed again.
    Keep,
    /// The journal forgets the container.
    Forget,
    /// The current values become its original, because they were set on purpose.
    Accept,
}

/// What an engine keeps for the next run of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineRecord {
    /// All limits; `None` without an engine.
    pub limits: Option<EngineLimits>,
    /// Whether one of our values is among them.
    pub has_ours: bool,
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteResult {
    /// The engine, systemd or the kernel reported success.
    Done,
    /// It was refused, or there was no reply in time: then it may still take effect.
    Failed(String),
    /// The container ended.
    Gone,
}

/// Result of restoring the engine's record of a container that does not run.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordResult {
    /// Nothing of ours is in the record any more; the texts list values that its owner has set since.
    Restored(Vec<String>),
    /// The record is unchanged; the text says why.
    Failed(String),
    /// The container runs again: its limits belong to the new run.
    RunsAgain,
}

/// A change or a restore, as a sequence of steps.
pub trait Operation: Sized {
    /// Returns the next step after this result.
    fn answer(self, answer: StepResult) -> Step<Self>;

    /// Returns values of ours that the journal forgets at the end, so that the engine's record must not keep one for the next run.
    fn forgotten(&self) -> &[Setting] {
        &[]
    }
}

/// The next step of an operation, or its outcome.
#[derive(Debug, PartialEq)]
pub enum Step<T> {
    /// Carry out this step and pass its result to the operation.
    Ask(T, Ask),
    /// The operation has ended.
    Done(Box<Outcome>),
}

/// Outcome of a change or a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The requested values; of a restore, the originals that were written.
    pub requested: Vec<Setting>,
    /// Values of these kinds that are in force as a result of this write.
    pub current: Vec<Setting>,
    /// The original in the journal, where it was read.
    pub journalled: Option<Journalled>,
    /// How it ended.
    pub end: End,
}

/// How a change or a restore ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The requested values were written.
    Written,
    /// Others set this value since the decision: nothing was written.
    ChangedByOthers(Setting),
    /// Nothing of ours is in force.
    Restored {
        /// A value of ours was in force before.
        found_ours: bool,
        /// The journal has forgotten the container.
        forgotten: bool,
        /// What was kept, in words: values that others set, and a value of ours in the engine's record.
        kept: Vec<String>,
        /// Limits whose values others set: nothing was written there, so a late update of ours may still overwrite them.
        theirs: Vec<LimitKind>,
    },
    /// The current values, and the engine's record of them, are the original from now on, and the journal has forgotten the old one.
    Accepted(Journalled),
    /// Nothing was written; the text says why.
    NotBegun(String),
    /// It failed; the text says why. The requested values may still take effect.
    Failed(String),
    /// The container ended meanwhile; not an error.
    Gone,
}

/// What to report about an outcome.
#[derive(Clone, Debug, PartialEq)]
pub enum OutcomeReport {
    /// Nothing.
    Quiet,
    /// These values are in force now.
    Wrote(Vec<Setting>),
    /// The values could not be written; these limits are left alone for a while.
    Failed(String),
    /// The current values are the original from now on.
    Accepted,
}

/// Returns an error if one of these limits cannot be read: then nobody knows what is in force.
pub(super) fn check_readable(settings: &[Setting], current: &Limits) -> Result<(), String> {
    match settings.iter().find(|setting| current.get(setting.kind()).is_none()) {
        Some(unread) => Err(format!(
            "the limit of which {unread} is a value cannot be read in its cgroup; check that its controller is there, then try again"
        )),
        None => Ok(()),
    }
}

impl Outcome {
    /// Returns the outcome for a container that the journal does not know.
    pub fn forgotten() -> Outcome {
        let end = End::Restored { found_ours: false, forgotten: true, kept: Vec::new(), theirs: Vec::new() };
        Outcome { requested: Vec::new(), current: Vec::new(), journalled: None, end }
    }

    /// Ends an operation that received the result of another step: a bug in the caller, which must not affect limits.
    pub(super) fn unexpected(answer: &StepResult) -> Box<Outcome> {
        let end = End::Failed(format!("unexpected result of a step: {answer:?}"));
        Box::new(Outcome { requested: Vec::new(), current: Vec::new(), journalled: None, end })
    }
}
