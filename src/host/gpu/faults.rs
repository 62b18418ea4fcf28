//! What breaks on a GPU: Xid errors, which the driver tells as events, and errors of its memory, which it counts.

use nvml_wrapper::Device;
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::event::EventSet;
use std::collections::BTreeMap;
use std::fmt;

/// Events that are taken from one GPU between two readings.
const EVENTS_AT_MOST: usize = 8;

/// Something broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The driver reported an Xid error.
    Xid {
        /// The GPU's number.
        gpu: u32,
        /// Its identity.
        uuid: String,
        /// Which error, where the driver says so.
        code: Option<u64>,
    },
    /// Memory errors that could not be corrected.
    Memory {
        /// The GPU's number.
        gpu: u32,
        /// Its identity.
        uuid: String,
        /// How many since the last reading.
        errors: u64,
    },
}

impl Fault {
    /// The GPU's number.
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
                write!(out, "GPU {gpu} ({uuid}): its driver reported ")?;
                match code {
                    Some(code) => write!(out, "Xid error {code}")?,
                    None => write!(out, "an Xid error of unknown number")?,
                }
                write!(out, "; `dmesg` has the details, and NVIDIA's list of Xid errors says what it means")
            }
            Fault::Memory { gpu, uuid, errors } => write!(
                out,
                "GPU {gpu} ({uuid}): {errors} memory errors that could not be corrected; look at `nvidia-smi -q -d ECC`"
            ),
        }
    }
}

/// The events of each GPU that can tell any.
#[derive(Debug, Default)]
pub(super) struct Xids<'nvml> {
    /// By identity; `None` = that one tells none.
    sets: BTreeMap<String, Option<(u32, EventSet<'nvml>)>>,
}

impl<'nvml> Xids<'nvml> {
    /// Listens to this GPU, if not yet.
    pub fn listen(&mut self, nvml: &'nvml Nvml, device: &Device<'nvml>, index: u32, uuid: &str) {
        if self.sets.contains_key(uuid) {
            return;
        }
        // The crate frees a set without asking whether this driver has the call.
        let can_free = nvml.lib().nvmlEventSetFree.is_ok();
        let supported =
            device.supported_event_types().is_ok_and(|types| types.contains(EventTypes::CRITICAL_XID_ERROR));
        let set = (can_free && supported).then(|| nvml.create_event_set().ok()).flatten();
        let registered = set.and_then(|set| device.register_events(EventTypes::CRITICAL_XID_ERROR, set).ok());
        self.sets.insert(uuid.to_owned(), registered.map(|set| (index, set)));
    }

    /// What was reported since the last time. Does not wait.
    pub fn since(&mut self) -> Vec<Fault> {
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
