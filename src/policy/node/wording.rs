//! Reasons that do not come from a policy: a hold, a pause, and an owner's bound that overrides the policy.
//!
//! Imports: the allocation, decisions.

use super::allocation::Allocation;
use super::decision::Decision;
use crate::model::{ContainerObservation, Hold, Reason, RunState, Share};

/// Replaces the reason of each container whose share an owner's bound decided.
pub(super) fn explain_bounds(
    decisions: &mut [Decision],
    allocations: &[Allocation],
    containers: &[ContainerObservation],
) {
    for ((decision, allocation), container) in decisions.iter_mut().zip(allocations).zip(containers) {
        let at = |bound: Share| (allocation.share - bound.fraction()).abs() < 0.005;
        let (min, max) = (container.bounds.min, container.bounds.max);
        let raised = at(min) && min > Share::NONE && allocation.share > allocation.wanted + 0.01;
        let lowered = at(max) && max < Share::ALL && allocation.share < allocation.wanted - 0.01;
        if raised || lowered {
            let bound = if raised { min } else { max };
            decision.reason = Reason::Bounded { wanted: Share::clamped(allocation.wanted), bound };
        }
    }
}

pub(super) fn reason_of(container: &ContainerObservation, policy: Reason) -> Reason {
    match (&container.hold, container.state) {
        (Some(hold), _) => Reason::Held { why: why_held(hold) },
        (None, RunState::Paused) => Reason::Paused,
        (None, RunState::Running) => policy,
    }
}

fn why_held(hold: &Hold) -> String {
    match hold {
        Hold::Operator => "paused by an operator".to_owned(),
        Hold::Foreign(what) => format!("somebody else changed a limit: {what}"),
        Hold::Settling => "observing a full interval first".to_owned(),
        Hold::Unwritable(what) => format!("limits cannot be written: {what}"),
    }
}
