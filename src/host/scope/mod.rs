//! The second runtime, for machines without an engine: a command in a cgroup of its own, told to the daemon by a folder.
//!
//! `flowctl run` makes `SOCKET.scopes/NAME/` with the command's output (`output.log`, bounded, one rotated file beside it) and
//! then `scope.json`; it works whether a daemon runs or not, and the daemon adopts what it finds. The folder is locked as long
//! as its `flowctl` lives, so that one left behind by a crash is known for what it is: by the daemon, which removes it once its
//! cgroup is empty, and by the next command of that name.
//!
//! The folder is its owner's, so the daemon believes nothing in it that the kernel does not confirm; see `watch`.
//!
//! Imports: model only.

mod folder;
mod gate;
mod output;
mod record;
mod registration;
mod watch;

pub use gate::{Admitted, Gate, NotBegun, enter};
pub use output::OutputLog;
pub use record::{Placement, Scope, ScopeName};
pub use registration::{Registration, prepare_directory};
pub use watch::{ScopeEvent, ScopeWatch};

use std::io;
use std::path::{Path, PathBuf};

/// Where the scopes of the daemon at `socket` are registered.
pub fn directory_of(socket: &Path) -> PathBuf {
    socket.with_extension("scopes")
}

/// Why a command could not be run as a scope.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// A name that is no name.
    #[error("`{0}` cannot be a scope's name; use 1 to 64 letters, digits, `.`, `_` and `-`, a letter or digit first")]
    BadName(String),
    /// A scope of that name runs.
    #[error("a scope named `{name}` runs already; choose another --name, or see `flowctl ps`")]
    NameTaken {
        /// The name.
        name: ScopeName,
    },
    /// The labels do not fit.
    #[error("the labels of a scope may have {most} bytes together, and these have {bytes}; leave some out")]
    TooMuch {
        /// Bytes wanted.
        bytes: usize,
        /// Bytes allowed.
        most: usize,
    },
    /// A file or folder of the registration.
    #[error("{operation} {path}: {source}; {advice}")]
    Registration {
        /// What was done.
        operation: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What to do about it.
        advice: &'static str,
    },
    /// The command could not be started.
    #[error("starting the command: {0}; try `flowctl doctor`")]
    Start(String),
}

impl ScopeError {
    fn registration(operation: &'static str, path: &Path, source: io::Error) -> ScopeError {
        let advice = match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "run it as root (sudo), start flowcond first (it makes the folder for everybody), \
                 or name a socket in a folder of yours with --socket"
            }
            io::ErrorKind::StorageFull => "free some space there",
            _ => "check that folder, or choose another socket with --socket",
        };
        ScopeError::Registration { operation, path: path.to_owned(), source, advice }
    }
}
