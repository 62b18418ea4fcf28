//! How a job ended: the evidence of engine, kernel and `flowctl run`, and what follows from it.
//!
//! An exit code alone does not say whether a job was killed for memory, by a person, or stopped on request: all three are often 137.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Exit codes from 129 to 192 mean, as in shells, that the first process ended by the signal with the number less 128.
const SIGNALS: std::ops::RangeInclusive<i32> = 129..=192;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It exited with code 0.
    Done,
    /// It exited with another code.
    Failed {
        /// The exit code.
        code: i32,
    },
    /// The kernel killed it, or one of its processes, for memory, and it did not exit with code 0.
    KilledForMemory,
    /// A signal killed it that does not ask a program to end.
    Signalled {
        /// Number of the signal.
        signal: i32,
    },
    /// Its engine stopped it on request, or it was sent a signal that asks a program to end.
    Stopped,
    /// Nobody reported how it ended.
    Unknown,
    /// It was stopped, because it had lost in its sweep and its label `flowcon.group-stop` asks for that.
    GroupStop,
}

impl End {
    /// Names of the kinds, for the API and metrics. The history stores indexes into this list: add only at its end.
    pub const KINDS: [&str; 7] =
        ["done", "failed", "killed-for-memory", "signalled", "stopped", "unknown", "group-stop"];

    /// Returns the name of its kind, one of [`End::KINDS`].
    pub fn kind(self) -> &'static str {
        let at = match self {
            End::Done => 0,
            End::Failed { .. } => 1,
            End::KilledForMemory => 2,
            End::Signalled { .. } => 3,
            End::Stopped => 4,
            End::Unknown => 5,
            End::GroupStop => 6,
        };
        End::KINDS[at]
    }

    /// Returns the end of this kind with this exit code; `None` if there is none.
    pub fn of_kind(kind: &str, exit_code: Option<i32>) -> Option<End> {
        match kind {
            "done" => Some(End::Done),
            "failed" => exit_code.map(|code| End::Failed { code }),
            "killed-for-memory" => Some(End::KilledForMemory),
            "signalled" => exit_code.and_then(signal_of).map(|signal| End::Signalled { signal }),
            "stopped" => Some(End::Stopped),
            "unknown" => Some(End::Unknown),
            "group-stop" => Some(End::GroupStop),
            _ => None,
        }
    }

    /// Whether the job did not do what its owner wanted, as far as is known.
    pub fn is_failure(self) -> bool {
        matches!(self, End::Failed { .. } | End::KilledForMemory | End::Signalled { .. })
    }
}

/// One or two words, for tables.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Done => f.write_str("done"),
            End::Failed { code } => write!(f, "failed {code}"),
            End::KilledForMemory => f.write_str("killed: memory"),
            End::Signalled { signal } => write!(f, "killed: signal {signal}"),
            End::Stopped => f.write_str("stopped"),
            End::Unknown => f.write_str("ended"),
            End::GroupStop => f.write_str("stopped: group-stop"),
        }
    }
}

/// What is known about the end of a job, from several sources in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndEvidence {
    /// The exit code, as shells report it.
    pub exit_code: Option<i32>,
    /// The kernel killed at least one of its processes for memory in this run.
    pub out_of_memory: bool,
    /// It was asked to stop shortly before.
    pub asked_to_stop: bool,
    /// Its engine killed it on request.
    pub killed_by_engine: bool,
    /// flowcon asked its engine to stop it, as its label `flowcon.group-stop` asks.
    pub is_group_stop: bool,
    /// Its runtime has nothing more to say.
    pub is_complete: bool,
}

impl EndEvidence {
    /// Adds a signal that its engine sent; `None` if the engine does not say which.
    pub fn signal(&mut self, signal: Option<i32>) {
        match signal {
            Some(signal) if asks_to_end(signal) => self.asked_to_stop = true,
            Some(9) | None => self.killed_by_engine = true,
            Some(_) => {}
        }
    }

    /// Whether no later report can change what follows from it.
    pub fn is_conclusive(&self) -> bool {
        // The reports that a container was stopped, or that the kernel killed it, may come after that of its end.
        let is_explained = |code| signal_of(code).is_none() || self.killed_by_engine;
        match self.exit_code {
            Some(0) => true,
            Some(_) if self.asked_to_stop || self.out_of_memory => true,
            Some(code) => self.is_complete && is_explained(code),
            None => false,
        }
    }

    /// Returns what follows from it.
    pub fn end(&self) -> End {
        let stopped = if self.is_group_stop { End::GroupStop } else { End::Stopped };
        match self.exit_code {
            _ if self.asked_to_stop => stopped,
            Some(0) => End::Done,
            _ if self.out_of_memory => End::KilledForMemory,
            Some(code) => match signal_of(code) {
                Some(signal) if asks_to_end(signal) => stopped,
                Some(signal) => End::Signalled { signal },
                None => End::Failed { code },
            },
            None => End::Unknown,
        }
    }
}

/// Returns the signal by which a process with this exit code ended.
fn signal_of(code: i32) -> Option<i32> {
    SIGNALS.contains(&code).then_some(code - 128)
}

/// Whether a signal asks a program to end: HUP, INT, QUIT and TERM.
fn asks_to_end(signal: i32) -> bool {
    matches!(signal, 1 | 2 | 3 | 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(exit_code: i32) -> EndEvidence {
        EndEvidence { exit_code: Some(exit_code), ..EndEvidence::default() }
    }

    #[test]
    fn each_exit_code_has_its_end_and_word() {
        for (code, end, word) in [
            (0, End::Done, "done"),
            (1, End::Failed { code: 1 }, "failed 1"),
            (127, End::Failed { code: 127 }, "failed 127"),
            (139, End::Signalled { signal: 11 }, "killed: signal 11"),
            (143, End::Stopped, "stopped"),
            (130, End::Stopped, "stopped"),
            (255, End::Failed { code: 255 }, "failed 255"),
            (-1, End::Failed { code: -1 }, "failed -1"),
        ] {
            let found = evidence(code).end();
            assert_eq!((found, found.to_string().as_str()), (end, word));
            assert_eq!(End::of_kind(end.kind(), Some(code)), Some(end));
        }
        assert_eq!(EndEvidence::default().end(), End::Unknown);
        assert_eq!(End::Unknown.to_string(), "ended");
        for kind in End::KINDS {
            assert_eq!(End::of_kind(kind, Some(137)).map(End::kind), Some(kind));
        }
    }

    #[test]
    fn a_group_stop_explains_an_end_only_if_the_job_was_stopped() {
        let asked = |code| EndEvidence { is_group_stop: true, ..evidence(code) };
        assert_eq!(asked(0).end(), End::Done, "it was complete before");
        assert_eq!(asked(1).end(), End::Failed { code: 1 });
        assert_eq!(asked(143).end(), End::GroupStop);
        let mut killed = asked(137);
        killed.signal(Some(15));
        assert_eq!((killed.end(), killed.end().is_failure()), (End::GroupStop, false));
        assert_eq!(End::GroupStop.to_string(), "stopped: group-stop");
    }

    #[test]
    fn a_death_by_signal_is_conclusive_only_once_it_is_explained() {
        let complete = |code| EndEvidence { is_complete: true, ..evidence(code) };
        assert!(evidence(0).is_conclusive() && complete(1).is_conclusive());
        assert!(!evidence(1).is_conclusive(), "a child may have been killed for memory");
        assert!(!EndEvidence::default().is_conclusive());
        let mut killed = complete(137);
        assert!(!killed.is_conclusive(), "the report of a stop may follow");
        killed.signal(Some(9));
        assert!(killed.is_conclusive());
        let mut stopped = evidence(143);
        stopped.signal(Some(15));
        assert!(stopped.is_conclusive());
        stopped = evidence(137);
        stopped.signal(Some(10));
        assert!(!stopped.is_conclusive(), "USR1 asks for nothing");
    }
}
