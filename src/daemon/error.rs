//! Why the daemon could not start, or ended without being told to. Imports: api, host.

use crate::api::BindError;
use crate::host::docker::AddressError;
use crate::host::store::StoreError;
use crate::host::users;

/// Why the daemon could not start, or ended without being told to.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The API's socket.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// The state directory belongs to another daemon.
    #[error(transparent)]
    State(#[from] StoreError),
    /// The engine's address.
    #[error(transparent)]
    Engine(#[from] AddressError),
    /// A user in `api.admins`.
    #[error("api.admins: {0}")]
    Admin(#[from] users::UnknownName),
    /// A part without which limits are neither decided nor put back.
    #[error(
        "{task} has failed: {why}; the service starts again, and without a service `flowcond restore` puts original limits back"
    )]
    Died {
        /// Which part.
        task: &'static str,
        /// What is known of it.
        why: String,
    },
}
