//! What the watcher reports to the daemon.

use crate::container::EngineContainer;
use crate::engine::EngineInfo;
use model::ContainerId;

/// Events from the engine's watcher to the daemon.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineEvent {
    /// Connected or reconnected. A [`EngineEvent::Listed`] follows.
    Connected(EngineInfo),
    /// The connection was lost or could not be established; sent once until the next `Connected`. The message includes the next step.
    Lost(String),
    /// All wanted containers that are running or paused. A container that is missing has ended.
    Listed(Vec<EngineContainer>),
    /// A container started, possibly again with a known id.
    Started(EngineContainer),
    /// A container ended, with this exit code if the engine reported it.
    Ended(ContainerId, Option<i32>),
    /// A container was paused (`true`) or resumed.
    Paused(ContainerId, bool),
    /// A container was renamed.
    Renamed(ContainerId, String),
    /// A container's limits were changed through the engine, by someone else or by our own update.
    Updated(ContainerId),
    /// The engine sent a signal to a container, as it does before it stops one. Podman may report only the end.
    Signalled(ContainerId),
    /// An adopted container does not exist any more.
    Removed(ContainerId),
    /// A wanted container is running but cannot be inspected; sent once per error. A list still has it as it was last inspected.
    Unreadable(ContainerId, String),
    /// A container that could not be inspected can be inspected again, or has ended.
    Readable(ContainerId),
}
