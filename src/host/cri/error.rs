//! Errors of calls to a container runtime; each message ends with the next step.

use std::path::PathBuf;

/// A failed call to the container runtime.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// No connection, or no valid response in time.
    #[error(
        "{operation}: no response from the container runtime at {}: {why}; check that it is running (systemctl status containerd) and \
         that engine.address names its socket", socket.display()
    )]
    Unreachable {
        /// The call.
        operation: &'static str,
        /// The socket of the runtime.
        socket: PathBuf,
        /// Error of the operating system or the protocol.
        why: String,
    },
    /// The runtime does not have this interface.
    #[error("the container runtime at {} has no CRI v1: {message}; use containerd 1.6 or later, or CRI-O", socket.display())]
    Unsupported {
        /// The socket of the runtime.
        socket: PathBuf,
        /// Message of the runtime.
        message: String,
    },
    /// The runtime rejected the call.
    #[error("{operation}: the container runtime rejected the call (gRPC status {status}): {message}; see its log")]
    Refused {
        /// The call.
        operation: &'static str,
        /// gRPC status.
        status: u32,
        /// Message of the runtime.
        message: String,
    },
}
