//! The second runtime, for machines without an engine: a command in a cgroup of its own, registered with the daemon.
//!
//! `flowctl run` puts the command into its cgroup, connects to the daemon's socket for commands, which is everybody's, and hands
//! over two descriptors: the process and its output. It works whether a daemon runs or not: it asks again until one answers. Who
//! the caller is, which process is meant and where that lives is the kernel's word, never the caller's.
//!
//! Imports: model only.

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

/// Where the daemon whose API is at `socket` takes commands: `flowcond.sock` → `flowcond-run.sock`.
pub fn socket_of(socket: &Path) -> PathBuf {
    let stem = socket.file_stem().unwrap_or_default().to_string_lossy();
    socket.with_file_name(format!("{stem}-run.sock"))
}

/// Why a command could not be run as a scope.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// A name that is no name.
    #[error("`{0}` cannot be a scope's name; use 1 to 64 letters, digits, `.`, `_` and `-`, a letter or digit first")]
    BadName(String),
    /// The daemon said no.
    #[error("{message}; {next}")]
    Refused {
        /// What is wrong.
        message: String,
        /// What to do about it.
        next: String,
    },
    /// No daemon answers.
    #[error("{path}: no flowcond answers: {source}; start one with `systemctl start flowcond`")]
    NoDaemon {
        /// Where it was looked for.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Somebody's output that is none.
    #[error("{path}: {source}; it can be read while its `flowctl run` runs, by the same user or root")]
    Output {
        /// Where it was looked for.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The command could not be started.
    #[error("starting the command: {0}; try `flowctl doctor`")]
    Start(String),
}
