//! Whether the actuator gets on: calls to engines and D-Bus have deadlines of their own, files have none. Imports: nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// No call takes as long as this: whoever still waits is held by a disk or a control file, and will be.
pub(super) const SILENT_AT_MOST: Duration = Duration::from_secs(180);

/// When a task that is at work did something last.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse {
    last: Arc<Mutex<Option<Instant>>>,
}

impl Pulse {
    /// A call begins or has ended.
    pub fn beat(&self) {
        self.set(Some(Instant::now()));
    }

    /// There is nothing to do.
    pub fn rests(&self) {
        self.set(None);
    }

    /// How long a call has lasted by now; none, where there is none.
    pub fn silent_for(&self) -> Duration {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).map_or(Duration::ZERO, |last| last.elapsed())
    }

    #[cfg(test)]
    pub fn beat_at(&self, last: Instant) {
        self.set(Some(last));
    }

    fn set(&self, last: Option<Instant>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }
}
