//! The closed set of things that can happen to the loop. Commands and signals have channels of their own.

use super::adoption::Candidate;
use super::logs::LogChunk;
use super::piece::Came;
use super::restore::Restored;
use super::scopes::ScopeEvent;
use crate::host::docker::EngineEvent;
use crate::model::{Adoption, ContainerId};
use crate::progress::claim::Claim;

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
    Claims { id: ContainerId, run: (u32, u64), claims: Vec<Claim> },
    /// What became of some containers' limits; more of the same order will follow.
    Written(Vec<Came>),
    /// The rest of it: the actuator has done what one order asked, as far as it could.
    Actuated(Vec<Came>),
    /// What became of an order to restore everything.
    Restored(Restored),
    /// The engine said what the container is that somebody wants to adopt.
    Candidate(Box<Candidate>),
    /// The journal remembers an adopted container, unless there was a problem.
    Adopted { id: ContainerId, adoption: Adoption, problem: Option<String> },
    /// A container has its originals and is no longer adopted, unless there was a problem.
    Disowned { id: ContainerId, problem: Option<String> },
    /// What is wrong with a part of the daemon now; `None` = it is well again.
    Health(Part, Option<String>),
}

/// A part of the daemon that goes on, somehow, when something is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    History,
    /// Watching the logs.
    Watch,
}
