//! A container as the watcher last inspected it.

use crate::container::{EngineContainer, Listed};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A container as last inspected.
pub(super) struct Known {
    pub container: EngineContainer,
    /// `/proc/PID/stat` of its first process, which stays readable as long as the process exists, even if its id is reused; `None` if the
    /// process is not visible.
    process: Option<File>,
}

impl Known {
    pub(super) fn new(container: EngineContainer) -> Known {
        Known { process: File::open(format!("/proc/{}/stat", container.pid)).ok(), container }
    }

    /// Whether it is the same run in the known state.
    pub(super) fn is_still(&self, listed: &Listed) -> bool {
        let lives = |process: &File| process.read_at(&mut [0], 0).is_ok_and(|read| read > 0);
        listed.agrees_with(&self.container) && self.process.as_ref().is_some_and(lives)
    }
}
