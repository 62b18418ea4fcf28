//! The GPUs of a node, and what a job has of them. Missing is a value: an old driver does not know each number.

use super::{Bytes, Millis};
use serde::{Deserialize, Serialize};

/// One GPU, as its driver last described it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// The driver's number; another boot may count differently.
    pub index: u32,
    /// Its identity.
    pub uuid: String,
    /// Its model: `NVIDIA A100-SXM4-40GB`.
    pub name: String,
    /// How old this reading is.
    pub age: Millis,
    /// Part of the time in which a kernel ran, 0 ..= 1.
    pub busy: Option<f64>,
    /// Memory in use, by whomever.
    pub memory_used: Option<Bytes>,
    /// Memory in all.
    pub memory_total: Option<Bytes>,
    /// Power drawn, in watts.
    pub power: Option<f64>,
    /// Power that it may draw, in watts.
    pub power_limit: Option<f64>,
    /// Temperature of the chip, in degrees Celsius.
    pub temperature: Option<f64>,
    /// Clock of its processors, in MHz.
    pub sm_clock: Option<f64>,
    /// Clock of its memory, in MHz.
    pub memory_clock: Option<f64>,
    /// Memory errors that could not be corrected, since the driver was loaded: a counter.
    pub uncorrected_errors: Option<u64>,
    /// The instances that it is divided into (MIG); empty = it is whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<GpuInstance>,
}

/// One part of a divided GPU (MIG).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// Its number on its GPU.
    pub index: u32,
    /// Its identity.
    pub uuid: String,
    /// Memory in use.
    pub memory_used: Option<Bytes>,
    /// Memory in all.
    pub memory_total: Option<Bytes>,
}

/// What one job has of one GPU, or of one instance of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuUse {
    /// The GPU's number.
    pub gpu: u32,
    /// The instance's number, on a divided GPU.
    pub instance: Option<u32>,
    /// Identity of the GPU or the instance.
    pub uuid: String,
    /// Part of the GPU's time, 0 ..= 1; all jobs' together are at most what the GPU was busy. Unknown on a divided GPU.
    pub share: Option<f64>,
    /// The GPU's memory that its processes hold.
    pub memory: Option<Bytes>,
    /// Its processes that use the GPU.
    pub processes: u32,
}

impl GpuUse {
    /// These parts together: GPU time as a number of whole GPUs, where it is known of each, and memory.
    pub fn sum(parts: &[GpuUse]) -> (Option<f64>, Option<Bytes>) {
        let time = parts.iter().map(|part| part.share).collect::<Option<Vec<f64>>>();
        let held: Vec<u64> = parts.iter().filter_map(|part| Some(part.memory?.0)).collect();
        let memory = held.iter().fold(0, |sum: u64, held| sum.saturating_add(*held));
        let time = time.filter(|shares| !shares.is_empty()).map(|shares| shares.iter().sum());
        (time, (!held.is_empty()).then_some(Bytes(memory)))
    }
}
