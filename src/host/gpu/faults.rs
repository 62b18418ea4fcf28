//! Faults of a GPU: Xid errors, which the driver reports as events, and memory errors, which it counts.

use nvml_wrapper::Device;
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::event::EventSet;
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of events read from one GPU per reading.
const EVENTS_AT_MOST: usize = 8;

/// A fault of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The driver reported an Xid error.
    Xid {
        /// Index of the GPU.
        gpu: u32,
        /// UUID of the GPU.
        uuid: String,
        /// Number of the error, if the driver reports it.
        code: Option<u64>,
    },
    /// Uncorrectable memory errors.
    Memory {
        /// Index of the GPU.
        gpu: u32,
        /// UUID of the GPU.
        uuid: String,
        /// Number of errors since the last reading.
        errors: u64,
    },
}

impl Fault {
    /// Returns the index of the GPU.
    pub fn gpu(&self) -> u32 {
        match self {
            Fault::Xid { gpu, .. } | Fault::Memory { gpu, .. } => *gpu,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Xid { gpu, uuid, code } => {
                write!(out, "GPU {gpu} ({uuid}): the driver reported ")?;
                match code {
                    Some(code) => write!(out, "Xid error {code}")?,
                    None => write!(out, "an Xid error without a number")?,
                }
                write!(out, "; see `dmesg` for details, and NVIDIA's list of Xid errors for its meaning")
            }
            Fault::Memory { gpu, uuid, errors } => {
                write!(out, "GPU {gpu} ({uuid}): {errors} uncorrectable memory errors; see `nvidia-smi -q -d ECC`")
            }
        }
    }
}

/// Event sets of the GPUs that support events.
#[derive(Debug, Default)]
pub(super) struct Xids<'nvml> {
    /// By UUID; `None` = the GPU does not support events.
    sets: BTreeMap<String, Option<(u32, EventSet<'nvml>)>>,
}

impl<'nvml> Xids<'nvml> {
    /// Subscribes to the events of this GPU, unless already subscribed.
    pub(crate) fn listen(&mut self, nvml: &'nvml Nvml, device: &Device<'nvml>, index: u32, uuid: &str) {
        if self.sets.contains_key(uuid) {
            return;
        }
        // The crate frees a set without checking whether this driver has the function.
        let can_free = nvml.lib().nvmlEventSetFree.is_ok();
        let supported =
            device.supported_event_types().is_ok_and(|types| types.contains(EventTypes::CRITICAL_XID_ERROR));
        let set = (can_free && supported).then(|| nvml.create_event_set().ok()).flatten();
        let registered = set.and_then(|set| device.register_events(EventTypes::CRITICAL_XID_ERROR, set).ok());
        self.sets.insert(uuid.to_owned(), registered.map(|set| (index, set)));
    }

    /// Returns the faults reported since the last call. Does not wait.
    pub(crate) fn since(&mut self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (uuid, set) in &self.sets {
            let Some((gpu, set)) = set else { continue };
            for _ in 0..EVENTS_AT_MOST {
                let Ok(event) = set.wait(0) else { break };
                let code = match event.event_data {
                    Some(XidError::Value(code)) => Some(code),
                    Some(XidError::Unknown) => None,
                    None => continue,
                };
                faults.push(Fault::Xid { gpu: *gpu, uuid: uuid.clone(), code });
            }
        }
        faults.dedup();
        faults
    }
}
