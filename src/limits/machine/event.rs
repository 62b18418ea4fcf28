//! Events and effects of the machine, and the data that they carry.

use crate::{Ask, Change, Journalled, Outcome, Restore};
use model::{
    Adoption, ContainerId, EngineLimits, EngineMark, EventKind, LimitChange, Limits, Millis, Refusal, Runtime, Setting,
};
use std::collections::{BTreeMap, BTreeSet};

/// Identifies a run of a container: its process id and its start time.
pub type Run = (u32, u64);

/// Current limits of some containers, as just read.
pub type Readings = Vec<(ContainerId, Limits)>;

/// Time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Time on the daemon's monotonic clock.
    pub now: Millis,
    /// Wall-clock time, for the journal and for display.
    pub unix_ms: u64,
}

/// Identifies the client that waits for the reply to a command; the runner keeps the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// An event outside of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An engine is connected.
    Connected(EngineMark),
    /// A container, or another run of it, was found and is to be governed.
    Found(Box<Found>),
    /// A container that was found cannot be governed.
    CannotGovern(ContainerId),
    /// A run has ended.
    Ended(ContainerId),
    /// The complete list of wanted containers that run; ends were reported one by one before.
    Listed(BTreeSet<ContainerId>),
    /// The engine has removed the container.
    Removed(ContainerId),
    /// The container was renamed.
    Renamed(ContainerId, String),
    /// The containers whose processes were moved out of their cgroups, each with the cgroup where they are; of all others they were not.
    Moved(BTreeMap<ContainerId, String>),
    /// The current limits of all containers, read before a decision, and before a command of an operator.
    LimitsRead(Readings),
    /// The engine reported that somebody updated the container, with its current limits.
    Updated(ContainerId, Limits),
    /// Changes that the policy decided.
    Decided(Vec<LimitChange>),
    /// Outcomes of operations. `is_last`: one [`Work`] is complete.
    Outcomes {
        /// One for each container.
        outcomes: Vec<ContainerOutcome>,
        /// Current limits of these containers.
        readings: Readings,
        /// Whether no more outcomes of the same work follow.
        is_last: bool,
    },
    /// Result of restoring everything, and the current limits of all containers.
    Restored(Restored, Readings),
    /// The engine's answer about a container that an operator wants to adopt.
    Candidate {
        /// The container, or why it cannot be adopted.
        found: Result<Candidate, Refusal>,
        /// Labels that the operator gave.
        labels: BTreeMap<String, String>,
        /// Client that waits for the reply.
        request: RequestId,
    },
    /// An adoption was written to the journal, unless there was a problem.
    Adopted {
        /// The container.
        id: ContainerId,
        /// As stored.
        adoption: Adoption,
        /// Why it is not stored.
        problem: Option<String>,
    },
    /// The originals of a container are restored and its adoption is removed, unless there was a problem.
    Disowned {
        /// The container.
        id: ContainerId,
        /// Why it is still adopted.
        problem: Option<String>,
    },
    /// A command of an operator.
    Command(Command, RequestId),
    /// New intervals apply from now on.
    Reconfigured(Intervals),
    /// Time has passed.
    TimePassed,
    /// The daemon is to stop.
    Stop {
        /// Whether to restore all originals first.
        restore: bool,
    },
}

/// Commands about limits. A name is a name, an id, or the beginning of an id.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Restore one container, or all, and leave it alone.
    Release(Option<String>),
    /// Govern one container, or all, again.
    Govern(Option<String>),
    /// Restore everything and release it.
    Restore,
    /// Govern a container that has no label.
    Adopt {
        /// Name or id in the engine.
        name: String,
        /// Labels that count before those of the container.
        labels: BTreeMap<String, String>,
    },
    /// Restore an adopted container and forget the adoption.
    Disown(String),
}

/// The intervals of the policy that matter for limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Usual interval between two decisions.
    pub usual: Millis,
    /// Longest interval between two decisions.
    pub longest: Millis,
}

/// A container that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Id of the container.
    pub id: ContainerId,
    /// Name, for display.
    pub name: String,
    /// Kind of runtime.
    pub runtime: Runtime,
    /// Its current run.
    pub run: Run,
    /// Engine that runs it.
    pub mark: Option<EngineMark>,
    /// Whether writes go through an engine or systemd, which may apply them late.
    pub is_deferred: bool,
    /// Whether it ran before the daemon started.
    pub ran_before: bool,
    /// Whether it existed when a journal was damaged, so that its original limits may be lost.
    pub existed_at_loss: bool,
    /// Current limits.
    pub current: Limits,
    /// The limits in the engine's units.
    pub engine: Option<EngineLimits>,
}

/// A container that an operator wants to adopt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Id of the container.
    pub id: ContainerId,
    /// Name, for display.
    pub name: String,
    /// Label that makes it governed without an adoption.
    pub label: Option<String>,
}

/// A container in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// Kind of runtime.
    pub runtime: Runtime,
    /// Engine that runs it.
    pub mark: Option<EngineMark>,
    /// Original limits.
    pub original: Journalled,
    /// Values of ours that may be in force.
    pub written: Vec<Setting>,
}

/// State that an earlier daemon left behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Containers in the journal.
    pub originals: BTreeMap<ContainerId, Remembered>,
    /// Containers whose rows are damaged.
    pub damaged: BTreeSet<ContainerId>,
    /// Containers that an operator adopted.
    pub adopted: BTreeMap<ContainerId, Adoption>,
}

/// An operation on one container, as part of a work item.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<T> {
    /// Id of the container.
    pub id: ContainerId,
    /// Run of the container; `None` if any run, or none, is meant.
    pub run: Option<Run>,
    /// Its original, as far as is known; the journal may know an earlier one.
    pub original: Journalled,
    /// State of the operation.
    pub operation: T,
    /// Its next step.
    pub ask: Ask,
}

/// Outcome of an operation on one container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerOutcome {
    /// Id of the container.
    pub id: ContainerId,
    /// Run of the container; `None` if all runs have ended.
    pub run: Option<Run>,
    /// Outcome of the operation.
    pub outcome: Box<Outcome>,
}

/// Result of restoring everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Names of containers whose limits were restored.
    pub back: Vec<String>,
    /// Number of containers without values of ours, or that are gone.
    pub nothing_to_do: usize,
    /// Limits that others have set since, and that were kept.
    pub left: Vec<String>,
    /// Names of containers that were forgotten because their engine no longer exists.
    pub missing: Vec<String>,
    /// What failed, with the next step; it stays in the journal.
    pub failed: Vec<String>,
    /// Containers without any value of ours, which the journal has forgotten.
    pub settled: BTreeSet<ContainerId>,
}

/// Work on limits. Each item ends in one event: `Outcomes` with `is_last`, `Restored`, `Adopted` or `Disowned`.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Change limits.
    Change {
        /// Changes that loosen, written first.
        loosen: Vec<Piece<Change>>,
        /// Changes that tighten.
        tighten: Vec<Piece<Change>>,
    },
    /// Restore the originals of these containers where values of ours are in force.
    Restore(Vec<Piece<Restore>>),
    /// The container ended: restore the engine's record of it, and forget it.
    Ended(ContainerId),
    /// The engine does not list the container among the wanted ones: restore it, running or not, and forget it.
    Unlisted(ContainerId),
    /// Store in the journal that this container is adopted.
    Adopt(ContainerId, Adoption),
    /// Restore the originals of a container, running or not, and remove its adoption.
    Disown {
        /// Id of the container.
        id: ContainerId,
        /// The restore, if it runs.
        running: Option<Box<Piece<Restore>>>,
    },
    /// Restore everything in the journal that can be restored until then.
    RestoreAll {
        /// Deadline on the daemon's clock.
        until: Millis,
    },
}

/// A notice about the limits of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitNotice {
    /// They could not be written.
    Write,
    /// Somebody else changed them, or moved its processes.
    Others,
}

/// An effect for the runner to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Carry out work on limits or on the journal.
    Do(Work),
    /// Publish an event.
    Emit {
        /// Kind of event.
        kind: EventKind,
        /// Id and name of the container that it is about.
        about: Option<(ContainerId, String)>,
        /// Text of the event.
        text: String,
    },
    /// Replace a notice about the limits of a container; `None` removes it.
    Notice(ContainerId, LimitNotice, Option<String>),
    /// Replace the node's warning that not everything could be restored; `None` removes it.
    RestoreProblem(Option<String>),
    /// Reply to a command.
    Reply {
        /// Client that waits for the reply.
        request: RequestId,
        /// Id and name of the container that it is about.
        about: Option<(ContainerId, String)>,
        /// What was done, or why not.
        result: Result<String, Refusal>,
    },
    /// Ask the engine for a container to adopt; answered by [`Event::Candidate`].
    AskEngine {
        /// Name or id of the container.
        name: String,
        /// Labels that the operator gave.
        labels: BTreeMap<String, String>,
        /// Client that waits for the reply.
        request: RequestId,
    },
    /// The adopted containers, which the engine's watcher must follow.
    Watch(BTreeSet<ContainerId>),
    /// This container is no longer governed.
    Dismiss(ContainerId),
    /// Make the next decision now.
    DecideNow,
    /// Everything is done: the daemon may end.
    Stopped,
}

impl Work {
    /// Returns the containers whose cgroups the work needs.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerId> {
        let (changes, returns): (Vec<&Piece<Change>>, Vec<&Piece<Restore>>) = match self {
            Work::Change { loosen, tighten } => (loosen.iter().chain(tighten).collect(), Vec::new()),
            Work::Restore(pieces) => (Vec::new(), pieces.iter().collect()),
            Work::Disown { running, .. } => (Vec::new(), running.as_deref().into_iter().collect()),
            Work::Ended(_) | Work::Unlisted(_) | Work::Adopt(..) | Work::RestoreAll { .. } => (Vec::new(), Vec::new()),
        };
        changes.into_iter().map(|piece| &piece.id).chain(returns.into_iter().map(|piece| &piece.id))
    }
}
