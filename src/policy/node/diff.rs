//! The writes that turn the current limits into the planned ones.
//!
//! The plan is compared with the *observed* limits, not with an earlier plan, so that a limit which the system reverted is written again.
//! Kernels and engines round (v1 shares, Docker's conversion to `cpu.weight`, pages): differences within their rounding are ignored, or
//! every tick would write again. A setting that the kernel lacks is not written, nor one whose original is unknown: it could not be
//! restored.

use model::{ContainerObservation, ContainerPlan, LimitChange, LimitKind, NodeObservation, NodePlan, Setting};

/// Relative differences up to this value are rounding.
const TOLERANCE: f64 = 0.01;

/// Docker's `blkio-weight` and BFQ's weights count up to 1000 where `io.weight` counts up to 10,000.
const IO_WEIGHT_STEP: f64 = 11.0;

/// A large page: 64 KiB.
const MEMORY_STEP: f64 = 65_536.0;

/// `cpu.max` is set in whole milliseconds of 100 by some engines.
const QUOTA_STEP: f64 = 10.0;

/// Returns the changes to write, loosening before tightening. Plan and observation must list their containers in the same order, as a tick
/// does; a container that is in only one of them is not written.
pub fn diff(plan: &NodePlan, observation: &NodeObservation) -> Vec<LimitChange> {
    let (mut changes, mut tightening) = (Vec::new(), Vec::new());
    for (planned, container) in pairs(plan, observation) {
        for (from, to) in differences(planned, container) {
            let change = LimitChange { id: container.id.clone(), from, to };
            if change.loosens() { changes.push(change) } else { tightening.push(change) }
        }
    }
    changes.append(&mut tightening);
    changes
}

/// Whether [`diff`] returns any change.
pub(super) fn differs(plan: &NodePlan, observation: &NodeObservation) -> bool {
    pairs(plan, observation).any(|(planned, container)| differences(planned, container).next().is_some())
}

/// The containers that are in both, with their plans.
fn pairs<'a>(
    plan: &'a NodePlan,
    observation: &'a NodeObservation,
) -> impl Iterator<Item = (&'a ContainerPlan, &'a ContainerObservation)> {
    let mut observed = observation.containers.as_slice();
    plan.containers.iter().filter_map(move |planned| {
        let at = observed.iter().position(|container| container.id == planned.id)?;
        let container = &observed[at];
        observed = &observed[at + 1..];
        Some((planned, container))
    })
}

/// The current and the planned value of each limit to write.
fn differences(planned: &ContainerPlan, container: &ContainerObservation) -> impl Iterator<Item = (Setting, Setting)> {
    LimitKind::ALL.into_iter().filter_map(move |kind| {
        let wanted = planned.limits.as_ref()?;
        let (from, original) = (container.limits.get(kind)?, container.original.get(kind)?);
        let to = wanted.get(kind).unwrap_or(original);
        (!is_equal(from, to)).then_some((from, to))
    })
}

/// Whether two values of one limit differ by no more than rounding.
fn is_equal(a: Setting, b: Setting) -> bool {
    if a == b {
        return true;
    }
    let step = match a.kind() {
        LimitKind::CpuWeight => 1.0,
        LimitKind::CpuQuota => QUOTA_STEP,
        LimitKind::MemoryLow | LimitKind::MemoryHigh => MEMORY_STEP,
        LimitKind::IoWeight => IO_WEIGHT_STEP,
    };
    match (a.number(), b.number()) {
        (Some(a), Some(b)) => {
            let (a, b) = (a as f64, b as f64);
            (a - b).abs() <= (TOLERANCE * a.max(b)).max(step)
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::{container, node};
    use model::{Bytes, CpuWeight, GrowthEfficiency, Limits, Millis, Reason, Share};

    fn plan(limits: Vec<(&str, Option<Limits>)>) -> NodePlan {
        let containers = limits
            .into_iter()
            .map(|(id, limits)| ContainerPlan {
                id: container(id).id,
                list: None,
                contention: Default::default(),
                growth: GrowthEfficiency::default(),
                limit: Share::ALL,
                share: Share::ALL,
                gpus: Vec::new(),
                limits,
                reason: Reason::ObserveOnly,
            })
            .collect();
        NodePlan { at: Millis(0), containers, next_tick: Millis(1), interval: Millis(1), stops: Vec::new() }
    }

    fn weight(number: f64) -> Option<Limits> {
        Some(Limits { cpu_weight: Some(CpuWeight::clamped(number)), ..Limits::default() })
    }

    #[test]
    fn loosening_comes_before_tightening() {
        let observed = node(vec![container("a"), container("b"), container("c")]);
        let changes = diff(&plan(vec![("a", weight(20.0)), ("b", weight(180.0)), ("c", weight(100.0))]), &observed);
        let ids: Vec<&str> = changes.iter().map(|change| change.id.as_str()).collect();
        assert_eq!(ids, ["b", "a"]);
    }

    #[test]
    fn rounding_is_not_a_difference() {
        let mut observed = node(vec![container("a"), container("b")]);
        observed.containers[0].limits.cpu_weight = Some(CpuWeight::clamped(7.0));
        observed.containers[1].limits.cpu_weight = Some(CpuWeight::clamped(1990.0));
        assert!(diff(&plan(vec![("a", weight(8.0)), ("b", weight(2005.0))]), &observed).is_empty());
        assert_eq!(diff(&plan(vec![("a", weight(9.0)), ("b", weight(2100.0))]), &observed).len(), 2);
    }

    #[test]
    fn an_empty_plan_restores_the_original_and_no_plan_changes_nothing() {
        let mut observed = node(vec![container("a"), container("b")]);
        for container in &mut observed.containers {
            container.limits.cpu_weight = Some(CpuWeight::clamped(30.0));
            container.limits.memory_high = Some(Some(Bytes(1 << 30)));
        }
        let changes = diff(&plan(vec![("a", None), ("b", Some(Limits::default()))]), &observed);
        let to: Vec<Setting> = changes.iter().map(|change| change.to).collect();
        assert_eq!(to, [Setting::CpuWeight(CpuWeight::DEFAULT), Setting::MemoryHigh(None)]);
        assert!(changes.iter().all(|change| change.id.as_str() == "b"));
    }

    #[test]
    fn a_setting_that_the_kernel_lacks_is_not_written() {
        let mut observed = node(vec![container("a")]);
        observed.containers[0].limits.cpu_weight = None;
        assert!(diff(&plan(vec![("a", weight(20.0))]), &observed).is_empty());
    }

    #[test]
    fn a_setting_whose_original_is_unknown_is_not_written() {
        let mut observed = node(vec![container("a")]);
        observed.containers[0].original.cpu_weight = None;
        assert!(diff(&plan(vec![("a", weight(20.0))]), &observed).is_empty());
    }

    #[test]
    fn a_removed_container_is_not_written() {
        let observed = node(vec![container("b")]);
        assert_eq!(diff(&plan(vec![("a", weight(20.0)), ("b", weight(20.0))]), &observed).len(), 1);
    }
}
