//! The node's GPUs, and their use by a container.

use super::finite_option;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One GPU, as last reported by its driver; null = not reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Gpu {
    /// Index in the driver; may change at a reboot.
    pub index: u32,
    /// UUID.
    pub uuid: String,
    /// Model name.
    pub name: String,
    /// Age of these values.
    #[serde(default)]
    pub age_s: f64,
    /// Fraction of time in which a kernel ran.
    pub busy: Option<f64>,
    /// Memory in use by all processes.
    pub memory_used_bytes: Option<u64>,
    /// Total memory.
    pub memory_total_bytes: Option<u64>,
    /// Power draw.
    pub power_watts: Option<f64>,
    /// Power limit.
    pub power_limit_watts: Option<f64>,
    /// Temperature of the chip.
    pub temperature_celsius: Option<f64>,
    /// SM clock.
    pub sm_clock_mhz: Option<f64>,
    /// Memory clock.
    pub memory_clock_mhz: Option<f64>,
    /// Uncorrected memory errors since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
    /// MIG instances; empty if the GPU is not partitioned.
    #[serde(default)]
    pub instances: Vec<GpuInstance>,
}

/// One MIG instance of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuInstance {
    /// Index on its GPU.
    pub index: u32,
    /// UUID.
    pub uuid: String,
    /// Memory in use.
    pub memory_used_bytes: Option<u64>,
    /// Total memory.
    pub memory_total_bytes: Option<u64>,
}

/// Use of one GPU, or of one MIG instance, by a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuUse {
    /// Index of the GPU.
    pub gpu: u32,
    /// Index of the MIG instance, if the GPU is partitioned.
    pub instance: Option<u32>,
    /// UUID of the GPU or the instance.
    pub uuid: String,
    /// Fraction of the GPU's time; null if the driver does not report it, as with MIG.
    pub share: Option<f64>,
    /// GPU memory held by its processes.
    pub memory_bytes: Option<u64>,
    /// Number of its processes that use the GPU.
    #[serde(default)]
    pub processes: u32,
}

impl Gpu {
    pub(super) fn of(gpu: &model::Gpu) -> Gpu {
        Gpu {
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            name: gpu.name.clone(),
            age_s: gpu.age.as_secs_f64(),
            busy: finite_option(gpu.busy),
            memory_used_bytes: gpu.memory_used.map(|bytes| bytes.0),
            memory_total_bytes: gpu.memory_total.map(|bytes| bytes.0),
            power_watts: finite_option(gpu.power),
            power_limit_watts: finite_option(gpu.power_limit),
            temperature_celsius: finite_option(gpu.temperature),
            sm_clock_mhz: finite_option(gpu.sm_clock),
            memory_clock_mhz: finite_option(gpu.memory_clock),
            uncorrected_errors: gpu.uncorrected_errors,
            instances: gpu.instances.iter().map(GpuInstance::of).collect(),
        }
    }
}

impl GpuInstance {
    fn of(instance: &model::GpuInstance) -> GpuInstance {
        GpuInstance {
            index: instance.index,
            uuid: instance.uuid.clone(),
            memory_used_bytes: instance.memory_used.map(|bytes| bytes.0),
            memory_total_bytes: instance.memory_total.map(|bytes| bytes.0),
        }
    }
}

impl GpuUse {
    pub(super) fn of(part: &model::GpuUse) -> GpuUse {
        GpuUse {
            gpu: part.gpu,
            instance: part.instance,
            uuid: part.uuid.clone(),
            share: finite_option(part.share),
            memory_bytes: part.memory.map(|bytes| bytes.0),
            processes: part.processes,
        }
    }

    /// Returns `0`, or `0:3` for instance 3 of GPU 0.
    pub fn place(&self) -> String {
        self.instance.map_or_else(|| self.gpu.to_string(), |instance| format!("{}:{instance}", self.gpu))
    }
}
