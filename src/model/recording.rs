//! What a governor saw and decided, line by line, so that the same decisions can be made again elsewhere.
//!
//! A recording is text: one JSON object a line. The first is the header; each later line is a tick or new settings. A governor that
//! is given the header's memory and the recorded observations must make the recorded plans, bit for bit.
//! Imports: std and serde only.

use super::{NodeObservation, NodePlan, PolicySettings};
use serde::{Deserialize, Serialize};

/// Version of the format that is written here. Version 1 did not tell an unknown limit from none, nor where a container may run.
pub const RECORDING_VERSION: u32 = 2;

/// One line of a recording; `G` is the governor (or a reference to it, for writing).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordingLine<G> {
    /// The first line.
    Header(RecordingHeader<G>),
    /// The settings that hold from the next tick on.
    Settings(PolicySettings),
    /// One tick.
    Tick(Box<RecordedTick>),
}

/// Where a recording begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordingHeader<G> {
    /// [`RECORDING_VERSION`] of the writer.
    pub version: u32,
    /// The settings in force.
    pub settings: PolicySettings,
    /// What the governor remembered before the first recorded tick; `None` = it had seen nothing yet.
    pub governor: Option<G>,
}

/// One tick: what was seen and what was decided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedTick {
    /// The tick's argument.
    pub observation: NodeObservation,
    /// The tick's answer.
    pub plan: NodePlan,
}
