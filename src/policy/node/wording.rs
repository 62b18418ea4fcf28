//! Reasons that do not come from a policy: a hold, a pause, and an owner's bound that overrides the policy.

use super::allocation::Allocation;
use super::decision::Decision;
use model::{ContainerObservation, Reason, RunState, Share};

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
        (Some(hold), _) => Reason::Held { why: hold.to_string() },
        (None, RunState::Paused) => Reason::Paused,
        (None, RunState::Running) => policy,
    }
}
