//! How a command ends: eight exit codes, and failures that always say what to do next. Imports: the API's client.

use crate::api::client::ClientError;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit codes of `flowctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// Tried and failed.
    Failed = 1,
    /// The command line, or a file it names, cannot be understood.
    Usage = 2,
    /// No daemon answers.
    Unreachable = 3,
    /// No such container.
    NotFound = 4,
    /// This user may not.
    Denied = 5,
    /// The daemon refused: it makes no sense now, or is ambiguous.
    Refused = 6,
    /// No answer in time.
    Timeout = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command failed and what to try next.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong.
    pub message: String,
    /// The next thing to do, usually a command.
    pub next: String,
}

impl Failure {
    /// A failure with its next step.
    pub fn new(exit: Exit, message: impl Into<String>, next: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), next: next.into() }
    }

    /// Whether the output's reader went away, which is no failure: `flowctl ps | head -1`.
    pub fn is_closed_pipe(&self) -> bool {
        self.exit == Exit::Ok
    }
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
            _ => Failure::new(Exit::Failed, format!("cannot write the output: {error}"), "check where the output goes"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::new(Exit::Failed, format!("{error:#}"), "`flowctl doctor` looks for the cause")
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let message = error.to_string();
        match error {
            ClientError::Unreachable { .. } => Failure::new(
                Exit::Unreachable,
                message,
                "`sudo systemctl start flowcond` (or `sudo flowcond &`), another socket with --socket; `flowctl doctor` looks for the cause",
            ),
            ClientError::PermissionDenied { .. } => Failure::new(
                Exit::Denied,
                message,
                "`flowctl ps` tells about your own commands; for all: `sudo flowctl …`, or join the reading group: \
                 `sudo usermod -aG flowcon $USER` and log in again",
            ),
            ClientError::Timeout { .. } => Failure::new(
                Exit::Timeout,
                message,
                "wait longer with --timeout SECONDS; `journalctl -u flowcond` shows what it is doing",
            ),
            ClientError::InvalidResponse { .. } => Failure::new(
                Exit::Failed,
                message,
                "compare `flowctl --version` with `flowcond --version`; --socket chooses another daemon",
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
