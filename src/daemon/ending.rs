//! What is known about the end of a job, before and after it: reports of its engine, and the memory of its cgroup.

use cgroup::MemoryRecord;
use docker::{EndSign, EngineEnd};
use model::{Bytes, End, EndEvidence, GroupStop, JobEnd, Millis};

/// After a signal, which usually is the first step of its stop, a job has this time to end: it is not frozen and has its plain share.
const SIGNALLED_WITHIN: Millis = Millis::from_secs(3600);

/// The exit code of a process that SIGKILL ended, as that of a kill for memory.
const KILLED: i32 = 128 + 9;

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
    /// Processes that were killed for memory in and below the cgroup around its own, at the last two looks.
    around: [Option<u64>; 2],
    /// Whether there were more of them after it ended, and its own cgroup could not be asked.
    killed_around: bool,
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

    /// Adds a look at the cgroup around its own: systemd removes that with the last process, before anybody can ask it.
    pub(crate) fn look_around(&mut self, kills: Option<u64>) {
        self.around = [self.around[1], kills];
    }

    /// Adds a reading after its end, empty if its cgroup is gone, and the last look around it.
    pub(crate) fn read_at_end(&mut self, read: MemoryRecord, around: Option<u64>) {
        self.read_memory(read);
        if read.kills.is_some() {
            self.around = [None; 2]; // its own cgroup has answered
        }
        // A look may have come between the kill and the report of the end, so the one before counts.
        let before = self.around[0].or(self.around[1]);
        self.killed_around = around.zip(before).is_some_and(|(after, before)| after > before);
    }

    /// Adds its end, as first reported.
    pub(crate) fn ended(&mut self, exit_code: Option<i32>, now: Millis) {
        if !self.may_be_near(now) {
            // It went on for long after the signal, which therefore did not end it.
            (self.evidence.asked_to_stop, self.evidence.killed_by_engine) = (false, false);
        }
        self.evidence.exit_code = exit_code;
        self.evidence.out_of_memory |= self.killed_around && exit_code == Some(KILLED);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a command with this exit code was killed for memory, by these looks around its cgroup and its own last reading.
    fn is_for_memory(looks: [Option<u64>; 2], own_kills: Option<u64>, after: Option<u64>, exit_code: i32) -> bool {
        let mut ending = Ending::default();
        ending.read_memory(MemoryRecord { kills: Some(0), ..MemoryRecord::default() });
        for kills in looks {
            ending.look_around(kills);
        }
        ending.read_at_end(MemoryRecord { kills: own_kills, ..MemoryRecord::default() }, after);
        ending.ended(Some(exit_code), Millis(0));
        ending.evidence.out_of_memory
    }

    #[test]
    fn where_its_cgroup_is_gone_the_one_around_says_that_a_command_was_killed_for_memory() {
        assert!(is_for_memory([Some(4), Some(4)], None, Some(5), KILLED));
        assert!(is_for_memory([Some(4), Some(5)], None, Some(5), KILLED), "a look came in between");
        assert!(is_for_memory([None, Some(4)], None, Some(5), KILLED), "there was one look");
        assert!(!is_for_memory([Some(4), Some(4)], None, Some(4), KILLED), "by somebody else");
        assert!(!is_for_memory([Some(4), Some(4)], None, Some(5), 1), "another one was killed");
        assert!(!is_for_memory([Some(4), Some(4)], Some(0), Some(5), KILLED), "its own cgroup knows better");
        assert!(!is_for_memory([None, None], None, Some(5), KILLED), "it was never looked at");
        assert!(!is_for_memory([Some(4), Some(4)], None, None, KILLED), "version 1");
    }
}
