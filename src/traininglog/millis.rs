//! Time, as the caller measures it.

use serde::{Deserialize, Serialize};

/// Milliseconds on the caller's monotonic clock: an instant or a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(pub u64);

impl Millis {
    /// A duration of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Millis(secs * 1000)
    }

    /// Returns the duration in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Returns the time since `earlier`; zero if the clock went backwards.
    pub fn since(self, earlier: Millis) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `duration` later.
    pub fn after(self, duration: Millis) -> Millis {
        Millis(self.0.saturating_add(duration.0))
    }
}
