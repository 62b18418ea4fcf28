//! Exit codes, and failures that always name a next step.

use super::hint::{OTHERS_JOBS, START_DAEMON};
use api::client::ClientError;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit codes of `flowctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// The command failed.
    Failed = 1,
    /// The command line, or a file it names, is invalid.
    Usage = 2,
    /// The daemon cannot be reached.
    Unreachable = 3,
    /// No such container.
    NotFound = 4,
    /// Permission denied.
    Denied = 5,
    /// The daemon rejected the request: invalid in the current state, or ambiguous.
    Refused = 6,
    /// The daemon did not reply in time.
    Timeout = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Failure of a command, and the next step.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The error message.
    pub message: String,
    /// The next step, usually a command.
    pub next: String,
}

impl Failure {
    /// Creates a failure with its next step.
    pub fn new(exit: Exit, message: impl Into<String>, next: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), next: next.into() }
    }

    /// Whether the reader closed the output, which is no failure: `flowctl ps | head -1`.
    pub fn is_closed_pipe(&self) -> bool {
        self.exit == Exit::Ok
    }
}

/// Prints clap's help, version or usage error, and returns the exit code.
pub fn rejected(program: &str, rejection: &clap::Error) -> ExitCode {
    let printed = rejection.print().and_then(|()| io::stdout().flush());
    if rejection.use_stderr() {
        return Exit::Usage.into();
    }
    let Err(failure) = printed.map_err(Failure::from) else { return Exit::Ok.into() };
    if !failure.is_closed_pipe() {
        let _ = writeln!(io::stderr(), "{program}: {failure}\nnext: {}", failure.next);
    }
    failure.exit.into()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Exit::Ok, "", ""),
            _ => Failure::new(
                Exit::Failed,
                format!("cannot write the output: {error}"),
                "check the destination of the output",
            ),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::new(Exit::Failed, format!("{error:#}"), "run `flowctl doctor` to find the cause")
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let message = error.to_string();
        match error {
            ClientError::Unreachable { .. } => Failure::new(
                Exit::Unreachable,
                message,
                format!(
                    "start it with {START_DAEMON}, or name its socket with --socket; `flowctl doctor` finds the cause"
                ),
            ),
            ClientError::PermissionDenied { .. } => {
                Failure::new(Exit::Denied, message, format!("`flowctl ps` shows your own commands; {OTHERS_JOBS}"))
            }
            ClientError::Busy { .. } => Failure::new(
                Exit::Refused,
                message,
                "try again in a second; `ss -xp` lists the programs that are connected",
            ),
            ClientError::Timeout { .. } => Failure::new(
                Exit::Timeout,
                message,
                "wait longer with --timeout SECONDS; `journalctl -u flowcond` shows what the daemon is doing",
            ),
            ClientError::InvalidResponse { .. } => Failure::new(
                Exit::Failed,
                message,
                "compare `flowctl --version` with `flowcond --version`, or name the daemon's socket with --socket",
            ),
            ClientError::Refused { status, problem } => {
                Failure::new(exit_of(status, &problem.code), message, problem.next)
            }
        }
    }
}

fn exit_of(status: u16, code: &str) -> Exit {
    match (status, code) {
        (404, "not-found") => Exit::NotFound,
        (403, _) => Exit::Denied,
        (408 | 504, _) => Exit::Timeout,
        (400 | 409 | 413 | 503, _) => Exit::Refused,
        _ => Exit::Failed,
    }
}
