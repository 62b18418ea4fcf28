//! Subjects of notices about a job.

use model::NoticeLevel;

/// What a notice is about that is removed when it does not hold any more. A job has at most one notice about each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A problem with its log.
    Log,
    /// Parts of its log were skipped, because it costs too much to read.
    LogCost,
    /// A problem with its GPU.
    Gpu,
    /// Its engine restarts it again and again.
    Restarts,
    /// Its label flowcon.notify names a target that does not exist.
    Notify,
    /// Its limits could not be written.
    Write,
    /// Somebody else changed its limits.
    OtherLimits,
    /// It is frozen for part of the time, or exempt.
    Freezing,
    /// A problem with freezing it.
    FreezeProblem,
    /// The journal cannot record that it may be frozen.
    FreezeRecord,
    /// It could not be thawed.
    Thaw,
}

impl Subject {
    pub(crate) fn level(self) -> NoticeLevel {
        match self {
            Subject::OtherLimits | Subject::Freezing => NoticeLevel::Info,
            _ => NoticeLevel::Warning,
        }
    }
}
