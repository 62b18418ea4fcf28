//! The end of one run of a job, in the words that people read.

use super::{Bytes, End, GroupStop, Millis, Runtime};
use std::fmt;

/// Exit code of a process that was killed with SIGKILL, as the kernel does for memory.
const KILLED: i32 = 137;
/// The command was found but could not be run, and the command was not found.
const NOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

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
    /// The result for which it was stopped, after [`End::GroupStop`].
    pub group_stop: Option<GroupStop>,
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
            End::GroupStop => {
                let result = self.group_stop.map_or_else(String::new, |result| format!(" {result}"));
                with_code(format!("stopped by group-stop{result}"))
            }
        }
    }

    /// Returns the end in sentences, with the next step, for a job with this name and runtime.
    pub fn story(&self, name: &str, runtime: Runtime) -> String {
        let logs = match runtime {
            Runtime::Docker | Runtime::Pod | Runtime::Containerd => {
                format!("`flowctl logs {name}` shows its last lines")
            }
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
                Runtime::Pod => "It ended, and its container runtime did not report its exit code: `kubectl describe pod` may.".to_owned(),
                Runtime::Containerd => "It ended, and containerd has no exit code: its task was deleted, or its label is gone.".to_owned(),
            },
            End::GroupStop => {
                let result = self.group_stop.map_or_else(String::new, |result| format!(" {result} trials"));
                format!(
                    "It was stopped{result}, and its label flowcon.group-stop asks for that. `docker start {name}` runs it again."
                )
            }
        }
    }

    fn memory_story(&self, runtime: Runtime, logs: &str) -> String {
        let what = match self.exit_code {
            None | Some(KILLED) => "The kernel killed it".to_owned(),
            Some(code) => format!("The kernel killed one of its processes, and it ended with exit code {code}"),
        };
        let peak = self.memory_peak.map_or_else(String::new, |peak| format!(" (it used {})", short(peak)));
        let raise = match runtime {
            Runtime::Docker => "Raise --memory",
            Runtime::Scope => "Raise the limit of its cgroup",
            Runtime::Pod => "Raise resources.limits.memory",
            Runtime::Containerd => "Raise its memory limit",
        };
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
    use crate::EndEvidence;

    fn evidence(exit_code: i32) -> EndEvidence {
        EndEvidence { exit_code: Some(exit_code), ..EndEvidence::default() }
    }

    fn job_end(evidence: &EndEvidence, memory_limit: Option<Bytes>) -> JobEnd {
        let EndEvidence { exit_code, killed_by_engine, .. } = *evidence;
        JobEnd {
            end: evidence.end(),
            unix_ms: 0,
            exit_code,
            killed_by_engine,
            memory_limit,
            memory_peak: None,
            group_stop: None,
        }
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
    fn a_group_stop_names_the_result() {
        let mut stopped = EndEvidence { is_group_stop: true, ..evidence(143) };
        stopped.signal(Some(15));
        let group_stop = Some(GroupStop { rung: 1, rank: 7, of: 9 });
        let end = JobEnd { group_stop, ..job_end(&stopped, None) };
        assert_eq!(end.summary(), "stopped by group-stop at rung 1: rank 7 of 9; exit code 143");
        let story = end.story("rate-7", Runtime::Docker);
        assert!(story.starts_with("It was stopped at rung 1: rank 7 of 9 trials, and its label"), "{story}");
        assert!(story.ends_with("`docker start rate-7` runs it again."), "{story}");
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
    fn restarts_are_counted_within_ten_minutes() {
        let last = Some(job_end(&evidence(1), None));
        let restarts = Restarts { count: 9, recent_ends: 4, last };
        let words = "restarted by its engine 4 times in 10 min; its last run: failed with exit code 1";
        assert_eq!(restarts.to_string(), words);
        let found = Restarts { count: 1, recent_ends: 0, last: None };
        assert_eq!(found.to_string(), "restarted by its engine once in all");
    }
}
