//! The log that a thread is accessing. A file system that does not respond blocks the thread, perhaps for ever; only another thread can
//! then report it.

use model::ContainerId;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The log being accessed, and the start of the access.
#[derive(Debug, Default)]
pub struct Touch(Mutex<Option<(ContainerId, Instant)>>);

impl Touch {
    pub(super) fn begin(&self, id: &ContainerId) {
        *self.touched() = Some((id.clone(), Instant::now()));
    }

    pub(super) fn end(&self) {
        *self.touched() = None;
    }

    /// Returns the log whose access has blocked the thread for longer than `patience`.
    pub fn held(&self, patience: Duration) -> Option<ContainerId> {
        self.touched().as_ref().filter(|(_, since)| since.elapsed() > patience).map(|(id, _)| id.clone())
    }

    fn touched(&self) -> MutexGuard<'_, Option<(ContainerId, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
