//! The node's GPUs, and what a container has of them. Imports: model, sibling wire types.

use super::finite_option;
use crate::model;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One GPU, as its driver last described it; null = the driver does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Gpu {
    /// The driver's number; another boot may count differently.
    pub index: u32,
    /// Its identity.
    pub uuid: String,
    /// Its model.
    pub name: String,
    /// How old these numbers are.
    #[serde(default)]
    pub age_s: f64,
    /// Part of the time in which a kernel ran.
    #[serde(default)]
    pub busy: Option<f64>,
    /// Memory in use, by whomever.
    #[serde(default)]
    pub memory_used_bytes: Option<u64>,
    /// Memory in all.
    #[serde(default)]
    pub memory_total_bytes: Option<u64>,
    /// Power drawn.
    #[serde(default)]
    pub power_watts: Option<f64>,
    /// Power that it may draw.
    #[serde(default)]
    pub power_limit_watts: Option<f64>,
    /// Temperature of the chip.
    #[serde(default)]
    pub temperature_celsius: Option<f64>,
    /// Clock of its processors.
    #[serde(default)]
    pub sm_clock_mhz: Option<f64>,
    /// Clock of its memory.
    #[serde(default)]
    pub memory_clock_mhz: Option<f64>,
    /// Memory errors that could not be corrected, since the driver was loaded.
    #[serde(default)]
    pub uncorrected_errors: Option<u64>,
    /// The instances that it is divided into (MIG); empty = it is whole.
    #[serde(default)]
    pub instances: Vec<GpuInstance>,
}

/// One part of a divided GPU (MIG).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuInstance {
    /// Its number on its GPU.
    pub index: u32,
    /// Its identity.
    pub uuid: String,
    /// Memory in use.
    #[serde(default)]
    pub memory_used_bytes: Option<u64>,
    /// Memory in all.
    #[serde(default)]
    pub memory_total_bytes: Option<u64>,
}

/// What a container has of one GPU, or of one instance of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuUse {
    /// The GPU's number.
    pub gpu: u32,
    /// The instance's number, on a divided GPU.
    #[serde(default)]
    pub instance: Option<u32>,
    /// Identity of the GPU or the instance.
    pub uuid: String,
    /// Part of the GPU's time; null where the driver does not say, as on a divided GPU.
    #[serde(default)]
    pub share: Option<f64>,
    /// The GPU's memory that its processes hold.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Its processes that use the GPU.
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

    /// `0`, or `0:3` for instance 3 of GPU 0.
    pub fn place(&self) -> String {
        self.instance.map_or_else(|| self.gpu.to_string(), |instance| format!("{}:{instance}", self.gpu))
    }
}
