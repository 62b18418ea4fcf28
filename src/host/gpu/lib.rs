//! NVIDIA GPUs, through NVML: utilization and the use by each process.
//!
//! The library of the driver is loaded at run time, by the crate `nvml-wrapper`. Most machines do not have it: [`Library::open`] reports
//! that once and nothing else here is used. An old driver lacks functions, an older GPU lacks sensors, and a faulty one returns errors:
//! each of these is a missing value. A GPU that is lost is left out of the reading and reported. A call may block for seconds, so read in a
//! separate thread.
//!
//! This module is read-only: it never changes settings of the driver.

mod device;
mod faults;
mod library;
pub mod mps;
mod shares;

pub use faults::Fault;
pub use library::{DEFAULT, Library, NoGpu, Reader, Session};

use model::{Bytes, Gpu};
use std::fmt;

/// Maximum number of GPUs read.
const GPUS_AT_MOST: u32 = 64;
/// Maximum number of processes read per GPU or MIG instance.
const PROCESSES_AT_MOST: usize = 1024;
/// Maximum number of MIG instances read per GPU; NVIDIA currently allows 7.
const INSTANCES_AT_MOST: u32 = 16;

/// A reading of all GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuReadings {
    /// GPUs that respond, by index.
    pub gpus: Vec<GpuReading>,
    /// GPUs that do not respond.
    pub lost: Vec<LostGpu>,
    /// Faults since the last reading.
    pub faults: Vec<Fault>,
}

/// One GPU and its processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuReading {
    /// The GPU.
    pub gpu: Gpu,
    /// The processes that use it.
    pub processes: Vec<GpuProcess>,
}

/// The use of a GPU by one process.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuProcess {
    /// Process id.
    pub pid: u32,
    /// Index of the instance, on a divided GPU.
    pub instance: Option<u32>,
    /// Fraction of the GPU's time, 0 ..= 1.
    pub share: Option<f64>,
    /// GPU memory.
    pub memory: Option<Bytes>,
}

/// A GPU that does not respond.
#[derive(Clone, Debug, PartialEq)]
pub struct LostGpu {
    /// Its last index.
    pub index: u32,
    /// UUID of the GPU; empty = it has not responded since the start.
    pub uuid: String,
    /// Model of the GPU; empty like the UUID.
    pub name: String,
    /// Error of the driver.
    pub why: String,
}

impl LostGpu {
    /// Returns a GPU that has not responded since the start.
    fn unknown(index: u32, why: String) -> LostGpu {
        LostGpu { index, uuid: String::new(), name: String::new(), why }
    }
}

impl fmt::Display for LostGpu {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostGpu { index, uuid, name, why } = self;
        if uuid.is_empty() {
            write!(out, "GPU {index} does not answer: {why}")
        } else {
            write!(out, "GPU {index} ({name}, {uuid}) does not answer any more: {why}")
        }
    }
}
