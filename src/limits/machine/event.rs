//! What the machine is told, what it asks for, and what travels in between. Imports: the operations, model.

use crate::limits::{Ask, Change, Outcome, Promised, Return};
use crate::model::{
    Adoption, ContainerId, EngineLimits, EngineMark, EventKind, LimitChange, Limits, Millis, NoticeLevel, Refusal,
    Runtime, Setting,
};
use std::collections::{BTreeMap, BTreeSet};

/// Which run of a container: its process id and its start.
pub type Run = (u32, u64);

/// What stands in some containers, as just read.
pub type Readings = Vec<(ContainerId, Limits)>;

/// The moment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// On the daemon's clock.
    pub now: Millis,
    /// For people and the journal.
    pub unix_ms: u64,
}

/// Who waits for an answer to a command; the runner knows the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asker(pub u64);

/// Something happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An engine answers.
    Connected(EngineMark),
    /// A container, or another run of it, is governed from now on.
    Found(Box<Found>),
    /// A container that was found cannot be governed.
    CannotGovern(ContainerId),
    /// A run has ended.
    Ended(ContainerId),
    /// The engine told of all that run; those that ended were told one by one.
    Listed(BTreeSet<ContainerId>),
    /// The engine has removed it.
    Removed(ContainerId),
    /// It has another name.
    Renamed(ContainerId, String),
    /// A decision is due, and this stands everywhere.
    Looked(Readings),
    /// The engine says that somebody updated it.
    Updated(ContainerId, Limits),
    /// What the policy wants changed.
    Decided(Vec<LimitChange>),
    /// What came of limits. `is_last`: the whole of one [`Work`] is done.
    Came {
        /// Of each container.
        came: Vec<Came>,
        /// What stands there now.
        readings: Readings,
        /// Nothing more comes of the same work.
        is_last: bool,
    },
    /// What came of a restore of everything, and what stands everywhere.
    Restored(Restored, Readings),
    /// The engine said which container somebody wants to adopt.
    Candidate {
        /// Which, or why it is none.
        found: Result<Candidate, Refusal>,
        /// What the operator wants of it.
        labels: BTreeMap<String, String>,
        /// Who.
        asker: Asker,
    },
    /// The journal remembers an adopted container, unless there was a problem.
    Adopted {
        /// Which.
        id: ContainerId,
        /// As it is remembered.
        adoption: Adoption,
        /// Why it is not.
        problem: Option<String>,
    },
    /// A container has its originals and is no longer adopted, unless there was a problem.
    Disowned {
        /// Which.
        id: ContainerId,
        /// Why it is not.
        problem: Option<String>,
    },
    /// An operator wants something.
    Asked(Command, Asker),
    /// Other intervals hold from now on.
    Reconfigured(Intervals),
    /// Time has passed.
    Passed,
    /// The daemon is to end. `restore`: with all originals back.
    Stop {
        /// As configured.
        restore: bool,
    },
}

/// What an operator may ask about limits. Names are names, ids, or the beginning of ids.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Leave one alone, or all.
    Pause(Option<String>),
    /// Govern one again, or all.
    Resume(Option<String>),
    /// Put everything back and pause.
    Restore,
    /// Govern one without the label.
    Adopt {
        /// As its engine knows it.
        name: String,
        /// Instead of its own.
        labels: BTreeMap<String, String>,
    },
    /// Put an adopted one back and forget it.
    Disown(String),
}

/// The policy's intervals, as far as limits go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Between two decisions.
    pub usual: Millis,
    /// The longest of them.
    pub longest: Millis,
}

/// A container as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Which.
    pub id: ContainerId,
    /// For people.
    pub name: String,
    /// Of which kind.
    pub runtime: Runtime,
    /// Which run.
    pub run: Run,
    /// In which engine.
    pub mark: Option<EngineMark>,
    /// Whoever is asked to write its limits may do it late: an engine or systemd.
    pub is_late: bool,
    /// It ran before the daemon did.
    pub ran_before: bool,
    /// What stands.
    pub stands: Limits,
    /// The same in the engine's own numbers.
    pub engine: Option<EngineLimits>,
}

/// A container that somebody wants to adopt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub id: ContainerId,
    /// For people.
    pub name: String,
    /// The label for which it is governed without being adopted.
    pub label: Option<String>,
}

/// What the journal says of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// Of which kind.
    pub runtime: Runtime,
    /// In which engine.
    pub mark: Option<EngineMark>,
    /// Its original.
    pub original: Promised,
    /// What may stand by our hand.
    pub written: Vec<Setting>,
}

/// What an earlier daemon left behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Originals.
    pub originals: BTreeMap<ContainerId, Remembered>,
    /// Containers whose rows are damaged.
    pub damaged: BTreeSet<ContainerId>,
    /// Everything was damaged: what runs already has unknown originals.
    pub lost: bool,
    /// Containers without the label that are governed by an operator's word.
    pub adopted: BTreeMap<ContainerId, Adoption>,
}

/// An operation on one container.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<T> {
    /// Which container.
    pub id: ContainerId,
    /// Which run; `None`: whichever runs, or none.
    pub run: Option<Run>,
    /// Its original, as far as is known; the journal may know an earlier one.
    pub original: Promised,
    /// How far it is.
    pub operation: T,
    /// What it asks for next.
    pub ask: Ask,
}

/// What became of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct Came {
    /// Which container.
    pub id: ContainerId,
    /// Of which run; `None`: of all that have ended.
    pub run: Option<Run>,
    /// What came of it.
    pub outcome: Box<Outcome>,
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Names of containers whose limits were put back.
    pub back: Vec<String>,
    /// Containers that had nothing of ours, or are gone.
    pub nothing_to_do: usize,
    /// Limits that somebody else has set since: left to them.
    pub left: Vec<String>,
    /// What could not be done, and the next step; it stays in the journal.
    pub failed: Vec<String>,
    /// In which nothing of ours is left, and which the journal has forgotten.
    pub settled: BTreeSet<ContainerId>,
}

/// What is to be done about limits. Each ends in one event: `Came` with `is_last`, `Restored`, `Adopted` or `Disowned`.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Write these; the first list loosens and goes first.
    Change {
        /// First.
        loosen: Vec<Piece<Change>>,
        /// Then.
        tighten: Vec<Piece<Change>>,
    },
    /// Put the originals of these back, as far as what stands is still ours.
    Return(Vec<Piece<Return>>),
    /// The container ended: put the engine's record of it back, and forget it.
    Ended(ContainerId),
    /// Remember that this container is governed without the label.
    Adopt(ContainerId, Adoption),
    /// Put its originals back, running or not, and forget that it was adopted.
    Disown {
        /// Which.
        id: ContainerId,
        /// Where it runs.
        running: Option<Box<Piece<Return>>>,
    },
    /// Put everything in the journal back, as far as it can be done by then.
    RestoreAll {
        /// On the daemon's clock.
        until: Millis,
    },
}

/// What the runner has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Change limits, or what is remembered of them.
    Do(Work),
    /// Tell whoever watches.
    Emit {
        /// What kind of event.
        kind: EventKind,
        /// About which container, with its name.
        about: Option<(ContainerId, String)>,
        /// In words.
        text: String,
    },
    /// Say something about one container.
    Notice(ContainerId, NoticeLevel, String),
    /// Say something about the node.
    Warn(String),
    /// Answer a command.
    Answer {
        /// To whom.
        asker: Asker,
        /// About which container, with its name.
        about: Option<(ContainerId, String)>,
        /// What was done, in words.
        done: Result<String, Refusal>,
    },
    /// Ask the engine which container this is; answered by [`Event::Candidate`].
    AskEngine {
        /// Name or id.
        name: String,
        /// What the operator wants of it.
        labels: BTreeMap<String, String>,
        /// Who.
        asker: Asker,
    },
    /// These are adopted: the engine's watcher is to follow them.
    Watch(BTreeSet<ContainerId>),
    /// This one is no longer governed.
    Left(ContainerId),
    /// The next decision is due now.
    DecideNow,
    /// Everything is done: the daemon may end.
    Stopped,
}

impl Work {
    /// The containers on whose cgroups it is done.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerId> {
        let (changes, returns): (Vec<&Piece<Change>>, Vec<&Piece<Return>>) = match self {
            Work::Change { loosen, tighten } => (loosen.iter().chain(tighten).collect(), Vec::new()),
            Work::Return(pieces) => (Vec::new(), pieces.iter().collect()),
            Work::Disown { running, .. } => (Vec::new(), running.as_deref().into_iter().collect()),
            Work::Ended(_) | Work::Adopt(..) | Work::RestoreAll { .. } => (Vec::new(), Vec::new()),
        };
        changes.into_iter().map(|piece| &piece.id).chain(returns.into_iter().map(|piece| &piece.id))
    }
}
