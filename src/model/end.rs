//! How a job ended: the evidence of engine, kernel and `flowctl run`, what follows from it, and what people read of it.
//!
//! An exit code alone does not say whether a job was killed for memory, by a person, or stopped on request: all three are often 137.

use super::{Bytes, JobStatus, Millis, Runtime};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Exit codes from 129 to 192 mean, as in shells, that the first process ended by the signal with the number less 128.
const SIGNALS: std::ops::RangeInclusive<i32> = 129..=192;
/// Exit code of a process that was killed with SIGKILL, as the kernel does for memory.
const KILLED: i32 = 137;
/// The command was found but could not be run, and the command was not found.
const NOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

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
}

impl End {
    /// Names of the kinds, for the API and metrics. The history stores indexes into this list: add only at its end.
    pub const KINDS: [&str; 6] = ["done", "failed", "killed-for-memory", "signalled", "stopped", "unknown"];

    /// Returns the name of its kind, one of [`End::KINDS`].
    pub fn kind(self) -> &'static str {
        let at = match self {
            End::Done => 0,
            End::Failed { .. } => 1,
            End::KilledForMemory => 2,
            End::Signalled { .. } => 3,
            End::Stopped => 4,
            End::Unknown => 5,
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
        match self.exit_code {
            _ if self.asked_to_stop => End::Stopped,
            Some(0) => End::Done,
            _ if self.out_of_memory => End::KilledForMemory,
            Some(code) => match signal_of(code) {
                Some(signal) if asks_to_end(signal) => End::Stopped,
                Some(signal) => End::Signalled { signal },
                None => End::Failed { code },
            },
            None => End::Unknown,
        }
    }
}

/// The end of one run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// How it ended.
    pub end: End,
    /// When, Unix time in milliseconds.
    pub unix_ms: u64,
    /// The exit code, as shells report it.
    pub exit_code: Option<i32>,
    /// Whether its engine killed it on request.
    pub killed_by_engine: bool,
    /// The memory limit of its cgroup; `None` = it had none, or it is unknown.
    pub memory_limit: Option<Bytes>,
    /// The most memory that it used, as far as it was observed.
    pub memory_peak: Option<Bytes>,
}

impl JobEnd {
    /// Returns the end in a few words, to follow `NAME ended: `.
    pub fn summary(&self) -> String {
        let with_code = |words: String| match self.exit_code {
            Some(code) if code != KILLED => format!("{words}; exit code {code}"),
            _ => words,
        };
        match self.end {
            End::Done => "exit code 0".to_owned(),
            End::Failed { code } => format!("failed with exit code {code}"),
            End::KilledForMemory => with_code(match (self.memory_limit, self.memory_peak) {
                (Some(limit), _) => format!("killed for memory (limit {})", short(limit)),
                (None, Some(peak)) => format!("killed for memory (no limit of its own; it used {})", short(peak)),
                (None, None) => "killed for memory".to_owned(),
            }),
            End::Signalled { signal } => {
                let by = if self.killed_by_engine { ", sent through its engine" } else { "" };
                format!("killed by {}{by}", signal_name(signal))
            }
            End::Stopped => with_code("stopped on request".to_owned()),
            End::Unknown => "its exit code is unknown".to_owned(),
        }
    }

    /// Returns the end in sentences, with the next step, for a job with this name and runtime.
    pub fn story(&self, name: &str, runtime: Runtime) -> String {
        let logs = match runtime {
            Runtime::Docker => format!("`flowctl logs {name}` shows its last lines"),
            Runtime::Scope => "its last lines are in the output of its `flowctl run`".to_owned(),
        };
        match self.end {
            End::Done => "It completed with exit code 0.".to_owned(),
            End::Failed { code: code @ NOT_FOUND } => {
                format!("Its command was not found (exit code {code}): check the spelling, and the image; {logs}.")
            }
            End::Failed { code: code @ NOT_RUN } => {
                format!("Its command could not be run (exit code {code}): check its permissions; {logs}.")
            }
            End::Failed { code } => format!("It failed with exit code {code}; {logs}."),
            End::KilledForMemory => self.memory_story(runtime, &logs),
            End::Signalled { signal } => signal_story(signal, self.killed_by_engine, &logs),
            End::Stopped if self.exit_code == Some(KILLED) => {
                "It was asked to stop, did not end within its grace period, and was killed: its last state may not be saved. \
                 `docker stop -t SECONDS` gives it more time."
                    .to_owned()
            }
            End::Stopped => "It was asked to stop, and ended.".to_owned(),
            End::Unknown => match runtime {
                Runtime::Docker => format!(
                    "It ended, and its engine did not report its exit code. `docker inspect {name}` shows it unless the \
                     container was removed."
                ),
                Runtime::Scope => "It ended, and its `flowctl run` did not report its exit code.".to_owned(),
            },
        }
    }

    fn memory_story(&self, runtime: Runtime, logs: &str) -> String {
        let what = match self.exit_code {
            None | Some(KILLED) => "The kernel killed it".to_owned(),
            Some(code) => format!("The kernel killed one of its processes, and it ended with exit code {code}"),
        };
        let peak = self.memory_peak.map_or_else(String::new, |peak| format!(" (it used {})", short(peak)));
        let raise = if runtime == Runtime::Docker { "Raise --memory" } else { "Raise the limit of its cgroup" };
        match self.memory_limit {
            Some(limit) => format!(
                "{what}, because it needed more memory than its limit of {}. {raise}, or lower the batch size; {logs}.",
                short(limit)
            ),
            None => format!(
                "{what}, because memory ran out outside of any limit of its own{peak}. Run fewer jobs at a time, or lower the \
                 batch size; {logs}."
            ),
        }
    }
}

/// A job that ended lately.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedJob {
    /// Its last status.
    pub job: Arc<JobStatus>,
    /// Its end.
    pub end: JobEnd,
    /// When it ended, on the daemon's clock.
    pub at: Millis,
    /// How often it ended within [`ENDS_WITHIN`], this end included.
    pub recent_ends: u32,
}

/// Restarts of a running job by its engine, after ends that its restart policy does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restarts {
    /// Restarts that its engine counts since it was last started by somebody.
    pub count: u32,
    /// How often it ended within [`ENDS_WITHIN`], as far as it was observed.
    pub recent_ends: u32,
    /// Its last end, if it was observed.
    pub last: Option<JobEnd>,
}

/// Ended jobs are shown, and ends are counted, for this time.
pub const ENDS_WITHIN: Millis = Millis::from_secs(600);

impl Restarts {
    /// Returns restarts of which only the number is known; `None` if there are none.
    pub fn counted(count: u32) -> Option<Restarts> {
        (count > 0).then_some(Restarts { count, recent_ends: 0, last: None })
    }
}

/// `restarted 4 times in 10 min; its last run failed with exit code 1`.
impl fmt::Display for Restarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |count: u32| if count == 1 { "once".to_owned() } else { format!("{count} times") };
        match self.recent_ends {
            0 => write!(f, "restarted by its engine {} in all", times(self.count))?,
            recent => write!(f, "restarted by its engine {} in {} min", times(recent), ENDS_WITHIN.0 / 60_000)?,
        }
        match &self.last {
            Some(last) => write!(f, "; its last run: {}", last.summary()),
            None => Ok(()),
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

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

fn signal_story(signal: i32, by_engine: bool, logs: &str) -> String {
    let name = signal_name(signal);
    match signal {
        9 if by_engine => {
            format!("It was killed by {name}, sent through its engine, as by `docker kill` or `docker rm -f`.")
        }
        9 => format!(
            "It was killed by {name}, which its engine did not send: `dmesg` shows whether the kernel did, for memory; {logs}."
        ),
        4 | 6 | 7 | 8 | 11 => format!(
            "It crashed with {name}: an error in native code, such as a library or a driver, or a failed assertion; {logs}."
        ),
        _ => format!("It was killed by {name}; {logs}."),
    }
}

/// Without `.0`, which limits usually have.
fn short(bytes: Bytes) -> String {
    bytes.to_string().replace(".0 ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(exit_code: i32) -> EndEvidence {
        EndEvidence { exit_code: Some(exit_code), ..EndEvidence::default() }
    }

    fn job_end(evidence: &EndEvidence, memory_limit: Option<Bytes>) -> JobEnd {
        let EndEvidence { exit_code, killed_by_engine, .. } = *evidence;
        JobEnd { end: evidence.end(), unix_ms: 0, exit_code, killed_by_engine, memory_limit, memory_peak: None }
    }

    #[test]
    fn the_code_137_has_four_causes() {
        let killed = evidence(137);
        let for_memory = EndEvidence { out_of_memory: true, ..killed };
        let (mut by_docker_kill, mut by_docker_stop) = (killed, killed);
        by_docker_kill.signal(Some(9));
        by_docker_stop.signal(Some(15));
        by_docker_stop.signal(Some(9));
        let of = |evidence: &EndEvidence| (evidence.end(), job_end(evidence, Some(Bytes(512 << 20))).summary());
        let signalled = End::Signalled { signal: 9 };
        for (evidence, end, summary) in [
            (killed, signalled, "killed by signal 9 (SIGKILL)"),
            (for_memory, End::KilledForMemory, "killed for memory (limit 512 MiB)"),
            (by_docker_kill, signalled, "killed by signal 9 (SIGKILL), sent through its engine"),
            (by_docker_stop, End::Stopped, "stopped on request"),
        ] {
            assert_eq!(of(&evidence), (end, summary.to_owned()));
        }
        let story = |evidence| job_end(evidence, None).story("a", Runtime::Docker);
        assert!(story(&by_docker_stop).contains("grace period"));
        assert!(story(&killed).contains("dmesg"));
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
    fn a_child_that_was_killed_for_memory_explains_a_failure_and_not_a_success() {
        let with_child = |code| EndEvidence { out_of_memory: true, ..evidence(code) };
        assert_eq!(with_child(0).end(), End::Done);
        assert_eq!(with_child(1).end(), End::KilledForMemory);
        let end = job_end(&with_child(1), Some(Bytes(3 << 29)));
        assert_eq!(end.summary(), "killed for memory (limit 1.5 GiB); exit code 1");
        let story = end.story("lroom", Runtime::Docker);
        assert!(story.contains("one of its processes") && story.contains("exit code 1"), "{story}");
        assert!(story.contains("limit of 1.5 GiB. Raise --memory, or lower the batch size"), "{story}");
        assert!(story.contains("`flowctl logs lroom` shows its last lines"), "{story}");
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

    #[test]
    fn restarts_are_counted_within_ten_minutes() {
        let last = Some(job_end(&evidence(1), None));
        let restarts = Restarts { count: 9, recent_ends: 4, last };
        let words = "restarted by its engine 4 times in 10 min; its last run: failed with exit code 1";
        assert_eq!(restarts.to_string(), words);
        let found = Restarts { count: 1, recent_ends: 0, last: None };
        assert_eq!(found.to_string(), "restarted by its engine once in all");
    }
}
