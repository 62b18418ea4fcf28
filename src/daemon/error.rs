//! Errors that keep the daemon from starting, or end it.

use api::BindError;
use docker::AddressError;
use store::StoreError;

/// An error that keeps the daemon from starting, or ends it.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The API's socket cannot be bound.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// The state directory cannot be used, or belongs to another daemon.
    #[error(transparent)]
    State(#[from] StoreError),
    /// The engine's address is invalid.
    #[error(transparent)]
    Engine(#[from] AddressError),
    /// A task that the daemon needs has ended.
    #[error(
        "{task} has failed: {why}; the service restarts flowcond; \
         without a service, `flowcond restore` restores the original limits"
    )]
    Died {
        /// Name of the task.
        task: &'static str,
        /// Why it ended.
        why: String,
    },
}
