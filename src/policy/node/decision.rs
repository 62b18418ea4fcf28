//! What every policy answers for one container, before bounds and integers.

use super::memory::MemoryRole;
use crate::model::{GpuPlan, HoldbackBlock, List, Reason};

/// A policy's answer for one container.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// Its list.
    pub(super) list: List,
    /// The limit L in (0, 1]: only proportions between containers matter.
    pub(super) limit: f64,
    /// What its memory is worth.
    pub(super) role: MemoryRole,
    /// Why.
    pub(super) reason: Reason,
    /// What it gets of its GPUs.
    pub(super) gpus: Vec<GpuPlan>,
}

impl Decision {
    /// The policy only watches.
    pub(super) fn listed(list: List) -> Self {
        Decision { list, limit: 1.0, role: MemoryRole::Leave, reason: Reason::ObserveOnly, gpus: Vec::new() }
    }

    /// The policy decided, and nothing of it counts in a control period.
    pub(super) fn held_back(self, block: &HoldbackBlock) -> Self {
        let reason = Reason::PlainBlock { until_unix_ms: block.until_unix_ms };
        Decision { limit: 1.0, role: MemoryRole::Leave, reason, ..self }
    }
}
