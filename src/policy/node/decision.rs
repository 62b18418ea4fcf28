//! A policy's decision for one container, before bounds and rounding are applied.

use super::memory::MemoryRole;
use model::{GpuPlan, HoldbackBlock, List, Reason};

/// A policy's decision for one container.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// Its list.
    pub(super) list: List,
    /// FlowCon's limit L in (0, 1]; under the default policy, a claim of which only the proportions between containers matter.
    pub(super) limit: f64,
    /// How to treat its memory.
    pub(super) role: MemoryRole,
    /// Why.
    pub(super) reason: Reason,
    /// Its planned share of each of its GPUs.
    pub(super) gpus: Vec<GpuPlan>,
}

impl Decision {
    /// A decision that only maintains the list and changes no limit.
    pub(super) fn listed(list: List) -> Self {
        Decision { list, limit: 1.0, role: MemoryRole::Leave, reason: Reason::ObserveOnly, gpus: Vec::new() }
    }

    /// The same decision in a control period, where nothing but the list is applied.
    pub(super) fn held_back(self, block: &HoldbackBlock) -> Self {
        let reason = Reason::PlainBlock { until_unix_ms: block.until_unix_ms };
        Decision { limit: 1.0, role: MemoryRole::Leave, reason, ..self }
    }
}
