//! Recording of what a governor observed and decided, line by line, so that its decisions can be replayed elsewhere.
//!
//! A recording is text with one JSON object per line. The first line is the header; each later line is a tick or new settings. A governor
//! that starts from the header's state and sees the recorded observations must produce the recorded plans, bit for bit.

use super::{NodeObservation, NodePlan, PolicySettings};
use serde::{Deserialize, Serialize};

/// Version of the format written here. Version 1 did not distinguish an unknown limit from no limit, nor record where a container may run.
pub const RECORDING_VERSION: u32 = 2;

/// One line of a recording; `G` is the governor (or a reference to it, for writing).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordingLine<G> {
    /// The first line.
    Header(RecordingHeader<G>),
    /// New settings, in force from the next tick on.
    Settings(PolicySettings),
    /// One tick.
    Tick(Box<RecordedTick>),
}

/// The start of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordingHeader<G> {
    /// [`RECORDING_VERSION`] of the writer.
    pub version: u32,
    /// The settings in force.
    pub settings: PolicySettings,
    /// State of the governor before the first recorded tick; `None` = it had not observed anything yet.
    pub governor: Option<G>,
}

/// One tick: the observation and the decisions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedTick {
    /// Input of the tick.
    pub observation: NodeObservation,
    /// Output of the tick.
    pub plan: NodePlan,
}
