//! Events that the loop handles. Commands and signals have channels of their own.

use cgroup::MemoryRecord;
use cri::WorkloadEvent;
use docker::{EngineEnd, EngineEvent};
use limits::machine::{Candidate, ContainerOutcome, RequestId, Restored, Run};
use model::{Adoption, ContainerId, LogOrigin, Refusal};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use store::{Freezable, LogPlace, ScopeRecord};
use traininglog::claim::Claim;

/// An event outside of the loop.
#[derive(Debug)]
pub(super) enum Event {
    /// Event of the engine's watcher.
    Engine(EngineEvent),
    /// Event of the watcher of pods and containers, whose runtime has this socket.
    Workloads(WorkloadEvent, Arc<Path>),
    /// Event of a command of `flowctl run`.
    Scope(ScopeEvent),
    /// Log bytes were read.
    Logs(Vec<LogChunk>),
    /// The current problem with a log; `None` if there is none.
    LogHealth(ContainerId, Option<String>),
    /// Claims in the command of a container, for the run in which they were read.
    Claims { id: ContainerId, run: Run, claims: Vec<Claim> },
    /// The engine's answer about the end of a run of a container; `None` if it did not answer in time, or does not know.
    EndDescribed { id: ContainerId, run: Run, end: Option<EngineEnd> },
    /// An engine could not stop a trial that has lost.
    NotStopped { id: ContainerId, run: Run, problem: String },
    /// Outcomes for some containers; more of the same request will follow.
    Written(Vec<ContainerOutcome>),
    /// The last outcomes of a request: the actuator has completed it.
    Actuated(Vec<ContainerOutcome>),
    /// Result of restoring everything.
    Restored(Restored),
    /// The engine's answer about a container that an operator wants to adopt.
    Candidate { found: Result<Candidate, Refusal>, labels: BTreeMap<String, String>, request: RequestId },
    /// An adoption was written to the journal, unless there was a problem.
    Adopted { id: ContainerId, adoption: Adoption, problem: Option<String> },
    /// A container is restored and no longer adopted, unless there was a problem.
    Disowned { id: ContainerId, problem: Option<String> },
    /// The journal records that a job may be frozen, unless there was a problem.
    MayFreeze(Freezable, Option<String>),
    /// The current problem of a component; `None` if there is none.
    Health(Component, Option<String>),
}

/// A component without which the daemon can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Component {
    History,
    /// Watching of log files.
    Watch,
    /// The GPU driver.
    GpuDriver,
    /// Whether the GPU with this index answers.
    Gpu(u32),
    /// Faults of the GPU with this index.
    GpuFault(u32),
    /// Thawing of jobs that an earlier daemon left frozen.
    Thaw,
    /// Freezing of jobs.
    Freeze,
    /// Whether `gpu.control` can have an effect.
    GpuControl,
    /// The last reload of the configuration.
    Configuration,
    /// The restore of all containers.
    Restore,
    /// Whether all containers can be governed.
    Capacity,
    /// Whether CPU weights have an effect.
    Weights,
}

/// Bytes from a job's log.
#[derive(Debug)]
pub(super) struct LogChunk {
    pub id: ContainerId,
    /// Serial number of the follow request that they belong to.
    pub serial: u64,
    pub bytes: Vec<u8>,
    /// Position after these bytes.
    pub place: Option<LogPlace>,
}

/// A command's output, handed over by its owner.
#[derive(Debug)]
pub(super) struct Output {
    pub file: File,
    /// Where the same log can be read by users with permission.
    pub origin: Option<LogOrigin>,
}

/// A command started, ended, or handed over its output later.
#[derive(Debug)]
pub(super) enum ScopeEvent {
    Started(Box<ScopeRecord>, Option<Output>),
    Output(ContainerId, Output),
    /// All its processes are gone; with the exit code that its `flowctl run` reported, and the memory of its cgroup.
    Ended(ContainerId, Option<i32>, MemoryRecord),
}
