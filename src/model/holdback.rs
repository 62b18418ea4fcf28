//! The blocks of time of a holdback: in plain ones every job has what plain sharing gives it, so that governing can be measured.

use super::Millis;
use serde::{Deserialize, Serialize};

/// The block of time that is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldbackBlock {
    /// Whether every job has its original limits in it.
    pub plain: bool,
    /// When it began, Unix time in milliseconds.
    pub from_unix_ms: u64,
    /// From here on it is measured: what the block before left behind is over.
    pub washed_unix_ms: u64,
    /// When it ends, Unix time in milliseconds.
    pub until_unix_ms: u64,
    /// When it ends, on the observer's clock.
    pub until: Millis,
}
