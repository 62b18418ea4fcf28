//! What is known about the end of a job, before and after it: reports of its engine, and the memory of its cgroup.

use cgroup::MemoryRecord;
use docker::{EndSign, EngineEnd};
use model::{Bytes, End, EndEvidence, GroupStop, JobEnd, Millis};

/// After a signal, which usually is the first step of its stop, a job has this time to end: it is not frozen and has its plain share.
const SIGNALLED_WITHIN: Millis = Millis::from_secs(3600);

/// What is known about the end of a job, before and after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    pub evidence: EndEvidence,
    /// When its engine last sent it a signal.
    pub signalled: Option<Millis>,
    /// The result for which its engine was asked to stop it.
    pub group_stop: Option<GroupStop>,
    /// Memory of its cgroup, as last read.
    memory: MemoryRecord,
}

impl Ending {
    /// Whether it may be about to end by a signal.
    pub(crate) fn may_be_near(&self, now: Millis) -> bool {
        self.signalled.is_some_and(|at| now.since(at) < SIGNALLED_WITHIN)
    }

    /// Adds what its engine reports besides the end.
    pub(crate) fn sign(&mut self, sign: EndSign, now: Millis) {
        match sign {
            EndSign::Signal(signal) => {
                self.signalled = Some(now);
                self.evidence.signal(signal);
            }
            EndSign::Stopped => self.evidence.asked_to_stop = true,
            EndSign::OutOfMemory => self.evidence.out_of_memory = true,
        }
    }

    /// Adds that its engine is asked to stop it, as its label asks.
    pub(crate) fn stop_as_asked(&mut self, why: GroupStop, now: Millis) {
        self.signalled = Some(now);
        self.group_stop = Some(why);
        self.evidence.is_group_stop = true;
    }

    /// Adds that its engine could not do that.
    pub(crate) fn is_not_stopped(&mut self) {
        self.signalled = None;
        self.evidence.is_group_stop = false;
    }

    /// Adds a reading of the memory of its cgroup.
    pub(crate) fn read_memory(&mut self, read: MemoryRecord) {
        self.memory = read.or(self.memory);
        self.evidence.out_of_memory |= self.memory.kills.is_some_and(|kills| kills > 0);
    }

    /// Adds its end, as first reported.
    pub(crate) fn ended(&mut self, exit_code: Option<i32>, now: Millis) {
        if !self.may_be_near(now) {
            // It went on for long after the signal, which therefore did not end it.
            (self.evidence.asked_to_stop, self.evidence.killed_by_engine) = (false, false);
        }
        self.evidence.exit_code = exit_code;
    }

    /// Adds the answer of its engine about the end, if there is one; its runtime has nothing more to say then.
    pub(crate) fn described(&mut self, end: Option<EngineEnd>) {
        if let Some(EngineEnd { exit_code, out_of_memory }) = end {
            self.evidence.exit_code = self.evidence.exit_code.or(Some(exit_code));
            self.evidence.out_of_memory |= out_of_memory;
        }
        self.evidence.is_complete = true;
    }

    /// The memory limit of its cgroup, as last read.
    pub(crate) fn memory_limit(&self) -> Option<Bytes> {
        self.memory.limit
    }

    /// Returns the end that follows from what is known.
    pub(crate) fn end(&self, ended_unix_ms: u64) -> JobEnd {
        let EndEvidence { exit_code, killed_by_engine, .. } = self.evidence;
        let end = self.evidence.end();
        JobEnd {
            end,
            unix_ms: ended_unix_ms,
            exit_code,
            killed_by_engine,
            memory_limit: self.memory.limit,
            memory_peak: self.memory.peak,
            group_stop: self.group_stop.filter(|_| end == End::GroupStop),
        }
    }
}
