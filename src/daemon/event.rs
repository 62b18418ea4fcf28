//! The closed set of things that can happen to the loop. Commands and signals have channels of their own. Imports: host, limits, model,
//! progress's claims.

use crate::host::docker::EngineEvent;
use crate::host::store::{Freezable, LogPlace, ScopeRecord};
use crate::limits::machine::{Asker, Came, Candidate, Restored, Run};
use crate::model::{Adoption, ContainerId, LogOrigin, Refusal};
use crate::progress::claim::Claim;
use std::collections::BTreeMap;
use std::fs::File;

/// Something happened outside.
#[derive(Debug)]
pub(super) enum Event {
    /// From the engine's watcher.
    Engine(EngineEvent),
    /// About a command of `flowctl run`.
    Scope(ScopeEvent),
    /// Log bytes were read.
    Logs(Vec<LogChunk>),
    /// What is wrong with a log now; `None` = it is well again.
    LogHealth(ContainerId, Option<String>),
    /// What the command of a container claims. `run`: of which run.
    Claims { id: ContainerId, run: Run, claims: Vec<Claim> },
    /// What became of some containers' limits; more of the same order will follow.
    Written(Vec<Came>),
    /// The rest of it: the actuator has done what one order asked, as far as it could.
    Actuated(Vec<Came>),
    /// What became of an order to restore everything.
    Restored(Restored),
    /// The engine said what the container is that somebody wants to adopt.
    Candidate { found: Result<Candidate, Refusal>, labels: BTreeMap<String, String>, asker: Asker },
    /// The journal remembers an adopted container, unless there was a problem.
    Adopted { id: ContainerId, adoption: Adoption, problem: Option<String> },
    /// A container has its originals and is no longer adopted, unless there was a problem.
    Disowned { id: ContainerId, problem: Option<String> },
    /// The journal knows that a job may be frozen, unless there was a problem.
    MayFreeze(Freezable, Option<String>),
    /// What is wrong with a part of the daemon now; `None` = it is well again.
    Health(Part, Option<String>),
}

/// A part of the daemon that goes on, somehow, when something is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    History,
    /// Watching the logs.
    Watch,
    /// The driver of the GPUs.
    GpuDriver,
    /// The GPU of this number: whether it answers.
    Gpu(u32),
    /// The GPU of this number: what broke on it.
    GpuFault(u32),
    /// What an earlier daemon left frozen.
    Thaw,
    /// Freezing jobs.
    Freeze,
}

/// Bytes that a job wrote.
#[derive(Debug)]
pub(super) struct LogChunk {
    pub id: ContainerId,
    /// Of the following that it belongs to.
    pub serial: u64,
    pub bytes: Vec<u8>,
    /// Where to go on after these bytes.
    pub place: Option<LogPlace>,
}

/// A command's output, as its owner handed it over.
#[derive(Debug)]
pub(super) struct Output {
    pub file: File,
    /// Where whoever may can read it again.
    pub origin: Option<LogOrigin>,
}

/// A command came, went, or handed over its output later.
#[derive(Debug)]
pub(super) enum ScopeEvent {
    Started(Box<ScopeRecord>, Option<Output>),
    Output(ContainerId, Output),
    /// All its processes are gone; with the exit code that its owner told.
    Ended(ContainerId, Option<i32>),
}
