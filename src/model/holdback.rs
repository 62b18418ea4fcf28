//! Blocks of time of the holdback experiment: in control periods every job has its original limits, so that the effect of governing can be
//! measured.

use super::Millis;
use serde::{Deserialize, Serialize};

/// The current block of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldbackBlock {
    /// Whether it is a control period: every job has its original limits.
    pub plain: bool,
    /// Start of the block, Unix time in milliseconds.
    pub from_unix_ms: u64,
    /// Start of the measurement, after the wash-out of the previous block's effects, Unix time in milliseconds.
    pub washed_unix_ms: u64,
    /// End of the block, Unix time in milliseconds.
    pub until_unix_ms: u64,
    /// End of the block, on the observer's clock.
    pub until: Millis,
}
