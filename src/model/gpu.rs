//! The GPUs of a node, and their use by each job. Readings are optional because old drivers lack some of them.

use super::{Bytes, Millis};
use serde::{Deserialize, Serialize};

/// One GPU, as last reported by its driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Index given by the driver; it may differ after a reboot.
    pub index: u32,
    /// UUID of the GPU.
    pub uuid: String,
    /// Model of the GPU, for example `NVIDIA A100-SXM4-40GB`.
    pub name: String,
    /// Age of this reading.
    pub age: Millis,
    /// Fraction of time in which a kernel ran, 0 ..= 1.
    pub busy: Option<f64>,
    /// Memory in use by all processes.
    pub memory_used: Option<Bytes>,
    /// Free memory: less than the rest, because the driver reserves some.
    pub memory_free: Option<Bytes>,
    /// Total memory.
    pub memory_total: Option<Bytes>,
    /// Power drawn, in watts.
    pub power: Option<f64>,
    /// Power limit, in watts.
    pub power_limit: Option<f64>,
    /// Temperature of the chip, in degrees Celsius.
    pub temperature: Option<f64>,
    /// SM clock, in MHz.
    pub sm_clock: Option<f64>,
    /// Memory clock, in MHz.
    pub memory_clock: Option<f64>,
    /// Memory errors that could not be corrected, since the driver was loaded: a counter.
    pub uncorrected_errors: Option<u64>,
    /// Its MIG instances; empty = the GPU is not divided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<GpuInstance>,
}

/// One MIG instance of a divided GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// Index of the instance on its GPU.
    pub index: u32,
    /// UUID of the instance.
    pub uuid: String,
    /// Memory in use.
    pub memory_used: Option<Bytes>,
    /// Free memory.
    pub memory_free: Option<Bytes>,
    /// Total memory.
    pub memory_total: Option<Bytes>,
}

/// What one job uses of one GPU, or of one MIG instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuUse {
    /// Index of the GPU.
    pub gpu: u32,
    /// Index of the instance, on a divided GPU.
    pub instance: Option<u32>,
    /// UUID of the GPU or of the instance.
    pub uuid: String,
    /// Fraction of the GPU's time, 0 ..= 1; the sum over all jobs is at most the GPU's busy time. Unknown on a divided GPU.
    pub share: Option<f64>,
    /// GPU memory held by the job's processes.
    pub memory: Option<Bytes>,
    /// Number of the job's processes that use the GPU.
    pub processes: u32,
}

impl GpuUse {
    /// Returns the sum of these parts: GPU time as a number of whole GPUs, if it is known for every part, and memory.
    pub fn sum(parts: &[GpuUse]) -> (Option<f64>, Option<Bytes>) {
        let time = parts.iter().map(|part| part.share).collect::<Option<Vec<f64>>>();
        let held: Vec<u64> = parts.iter().filter_map(|part| Some(part.memory?.0)).collect();
        let memory = held.iter().fold(0, |sum: u64, held| sum.saturating_add(*held));
        let time = time.filter(|shares| !shares.is_empty()).map(|shares| shares.iter().sum());
        (time, (!held.is_empty()).then_some(Bytes(memory)))
    }
}
