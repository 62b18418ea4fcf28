//! NVIDIA GPUs, by NVML: how busy each is, and which process has what of it.
//!
//! The library of the driver is loaded at run time, by the crate `nvml-wrapper`. Most machines have none: then [`Library::open`] says so
//! once and nothing else here is used. A driver older than a call lacks the symbol, a GPU of an older generation lacks the sensor, and a
//! sick one gives errors: each is a missing value, and a GPU that is lost is left out of the reading and told of. A call may block for
//! seconds: whoever reads does it in a thread of its own.
//!
//! Nothing is set here, and the driver's settings are never touched. Imports: model only.

mod device;
mod faults;
mod library;
pub mod mps;
mod shares;

pub use faults::Fault;
pub use library::{DEFAULT, Library, NoGpu, Reader, Session};

use crate::model::{Bytes, Gpu};

/// GPUs that are looked at.
const GPUS_AT_MOST: u32 = 64;
/// Processes that are looked at on one GPU, or on one instance of it.
const PROCESSES_AT_MOST: usize = 1024;
/// Instances that are looked at on one GPU; NVIDIA allows 7 at present.
const INSTANCES_AT_MOST: u32 = 16;

/// What all GPUs say at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Those that answer, by their number.
    pub gpus: Vec<GpuReading>,
    /// Those that do not answer any more.
    pub lost: Vec<LostGpu>,
    /// What broke since the last reading.
    pub faults: Vec<Fault>,
}

/// One GPU and who uses it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuReading {
    /// The GPU itself.
    pub gpu: Gpu,
    /// The processes that have something of it.
    pub processes: Vec<GpuProcess>,
}

/// What one process has of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuProcess {
    /// The process.
    pub pid: u32,
    /// On which instance of a divided GPU.
    pub instance: Option<u32>,
    /// Part of the GPU's time, 0 ..= 1.
    pub share: Option<f64>,
    /// Memory of the GPU.
    pub memory: Option<Bytes>,
}

/// A GPU that answered before and does not now.
#[derive(Clone, Debug, PartialEq)]
pub struct LostGpu {
    /// Its number when it answered last.
    pub index: u32,
    /// Its identity.
    pub uuid: String,
    /// Its model.
    pub name: String,
    /// The driver's words.
    pub why: String,
}
