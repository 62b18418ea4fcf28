//! The second runtime, for machines without an engine: a command in its own cgroup, registered with the daemon.
//!
//! `flowctl run` places the command into its cgroup, connects to the daemon's socket for commands, which is open to all users, and sends
//! two descriptors: the process and its output. It works without a running daemon: it retries until one responds. The caller, the process
//! and its location are always determined by the kernel, never by what the caller claims.

mod handshake;
mod listener;
mod name;
pub mod output;
pub mod protocol;
mod session;

pub use handshake::{Admitted, HandshakeSocket, NotBegun, enter};
pub use listener::{Asked, Call, Caller, Incoming, Pidfd, serve};
pub use name::ScopeName;
pub use output::Output;
pub use session::Session;

use std::io;
use std::path::{Path, PathBuf};

/// Returns the socket for commands of the daemon whose API is at `socket`: `flowcond.sock` → `flowcond-run.sock`.
pub fn socket_of(socket: &Path) -> PathBuf {
    let stem = socket.file_stem().unwrap_or_default().to_string_lossy();
    socket.with_file_name(format!("{stem}-run.sock"))
}

/// Why a command could not be run as a scope.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// The name is invalid.
    #[error(
        "`{0}` is not a valid scope name; use 1 to 64 letters, digits, `.`, `_` and `-`, starting with a letter or digit"
    )]
    BadName(String),
    /// The daemon rejected the request.
    #[error("{message}; {next}")]
    Refused {
        /// The cause.
        message: String,
        /// The next step.
        next: String,
    },
    /// The daemon did not make the cgroup that the command needs.
    #[error("{message}; {next}")]
    NoCgroup {
        /// The cause.
        message: String,
        /// The next step.
        next: String,
    },
    /// No daemon responds.
    #[error("{path}: no flowcond answers: {source}; start one with `systemctl start flowcond`")]
    NoDaemon {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The output of a scope cannot be read.
    #[error("{path}: {source}; it can only be read while its `flowctl run` is running, by the same user or root")]
    Output {
        /// Path of the output.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The command could not be started.
    #[error("starting the command: {0}; try `flowctl doctor`")]
    Start(String),
}
