//! Which log a thread touches at the moment. A file system that does not answer holds the thread, perhaps for ever: then only another
//! thread can tell. Imports: model.

use crate::model::ContainerId;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The log being touched, and since when.
#[derive(Debug, Default)]
pub struct Touch(Mutex<Option<(ContainerId, Instant)>>);

impl Touch {
    pub(super) fn begin(&self, id: &ContainerId) {
        *self.touched() = Some((id.clone(), Instant::now()));
    }

    pub(super) fn end(&self) {
        *self.touched() = None;
    }

    /// The log that has not let go of the thread for longer than `patience`.
    pub fn held(&self, patience: Duration) -> Option<ContainerId> {
        self.touched().as_ref().filter(|(_, since)| since.elapsed() > patience).map(|(id, _)| id.clone())
    }

    fn touched(&self) -> MutexGuard<'_, Option<(ContainerId, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
