//! Watches that the actuator makes progress: calls to engines and D-Bus have their own deadlines, calls to files have none.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// No call takes this long: a task that still waits is blocked by a disk or a control file, and will stay so.
pub(super) const SILENT_AT_MOST: Duration = Duration::from_secs(180);

/// Time of the last activity of a working task.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse {
    last: Arc<Mutex<Option<Instant>>>,
}

impl Pulse {
    /// Records that a call begins or has ended.
    pub(crate) fn beat(&self) {
        self.set(Some(Instant::now()));
    }

    /// Records that there is nothing to do.
    pub(crate) fn rest(&self) {
        self.set(None);
    }

    /// Returns the duration of the current call; zero if there is none.
    pub(crate) fn silent_for(&self) -> Duration {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).map_or(Duration::ZERO, |last| last.elapsed())
    }

    #[cfg(test)]
    pub(crate) fn beat_at(&self, last: Instant) {
        self.set(Some(last));
    }

    fn set(&self, last: Option<Instant>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }
}
