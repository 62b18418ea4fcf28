//! Container engines with the Docker Engine API: Docker 20.10 and later, and Podman's compatible socket.
//!
//! [`watch`] keeps the list of labelled containers correct despite lost events and engine restarts, [`Engine`] makes the calls, [`logs`]
//! reads output that is not in a json-file.

mod address;
mod api_version;
mod apply;
mod bundle;
mod connection;
mod container;
mod cpu_shares;
#[cfg(test)]
mod docker_29_tests;
mod engine;
mod error;
mod info;
mod log_messages;
mod log_pieces;
mod logs;
mod lost_policy;
mod mislabelled;
mod sent_updates;
mod stop;
mod transport;
mod update;
mod watch;

pub use address::{AddressError, EngineAddress};
pub use api_version::ApiVersion;
pub use bundle::shares_at_start;
pub use container::{EngineContainer, EngineEnd, EngineMount, Listed, LogSource};
pub use cpu_shares::{Conversion, SHARES_DEFAULT};
pub use engine::Engine;
pub use error::EngineError;
pub use info::EngineInfo;
pub use log_pieces::{LogFormat, LogMark, LogPiece, LogPosition};
pub use logs::{logs, logs_so_far};
pub use lost_policy::LostPolicy;
pub use mislabelled::Mislabelled;
#[doc(hidden)]
pub use update::updated;
pub use update::{Recorded, recorded};
pub use watch::{EndSign, EngineEvent, Wanted, watch};

use std::time::Duration;

/// Kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// Docker, or Moby under another name.
    Docker,
    /// Podman's compatible service.
    Podman,
}

/// Time limit of a single call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a single call of the watcher to an engine that is too slow for [`CALL_TIMEOUT`]; time after which an update or an
/// inspection that goes on without its caller is given up.
const CALL_TIMEOUT_MOST: Duration = Duration::from_secs(120);

/// Maximum number of concurrent calls.
const CALLS_AT_ONCE: usize = 8;

/// Maximum number of concurrent inspections by the watcher.
const INSPECTS_AT_ONCE: usize = 4;
