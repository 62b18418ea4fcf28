//! What the watcher reports to the daemon.

use crate::container::EngineContainer;
use crate::info::EngineInfo;
use crate::mislabelled::Mislabelled;
use model::ContainerId;

/// What an engine reports about a container that is about to end, or has just ended, besides its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSign {
    /// The engine sent it a signal, as it does before it stops one; the number, if it was reported. Podman may report only the stop.
    Signal(Option<i32>),
    /// The engine stopped it on request. Comes after the end.
    Stopped,
    /// The kernel killed a process in it for memory. May come after the end.
    OutOfMemory,
}

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
    /// A sign of the end of a container, or of how it ended.
    Sign(ContainerId, EndSign),
    /// An adopted container does not exist any more.
    Removed(ContainerId),
    /// A wanted container is running but cannot be inspected; sent once per error. A list still has it as it was last inspected.
    Unreadable(ContainerId, String),
    /// A container that could not be inspected can be inspected again, or has ended.
    Readable(ContainerId),
    /// The labels of a running container do not have it governed; sent once.
    Mislabelled(Mislabelled),
}
