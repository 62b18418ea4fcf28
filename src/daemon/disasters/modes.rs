//! What engine, disk and owners of the simulation do.

use super::values::is_recorded;
use docker::{Conversion, Recorded, recorded};
use model::{EngineLimits, LimitKind, Setting};

/// How the engine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineMode {
    Answers,
    Refuses,
    /// It does not reply in time, and executes the request later.
    Late,
    /// It does not reply, and never executes the request.
    Silent,
    /// Another engine answers, which does not know the container.
    Missing,
}

/// Identifies one of two engines, of which one answers at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineId {
    One,
    Other,
}

/// How the disk handles a write to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Works,
    /// Nothing is written.
    Full,
    /// The data is written, and an error is reported.
    Lies,
}

/// Where the processes of a container are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processes {
    InItsCgroup,
    /// Its owner has moved them to other cgroups: of version 1's CPU hierarchy only, or of all.
    ElsewhereForCpu,
    Elsewhere,
}

/// A request to the engine.
#[derive(Clone)]
pub(super) struct Update {
    pub asked_at: u64,
    pub settings: Vec<Setting>,
    /// Limits before the daemon's first change, and the exact numbers of values that are not ours.
    pub original: EngineLimits,
    pub exact: EngineLimits,
    /// Whether it names what it does not change.
    pub is_complete: bool,
}

impl Update {
    /// Whether it goes through the engine of a container: a quota only where its owner had set one with the engine.
    pub(super) fn asks_engine(&self, setting: Setting) -> bool {
        let is_updated = |limits| recorded(setting, limits, Conversion::Shares, limits) != Recorded::Never;
        match setting.kind() {
            LimitKind::CpuQuota => is_updated(&self.original) && is_updated(&self.exact),
            kind => is_recorded(kind),
        }
    }
}
