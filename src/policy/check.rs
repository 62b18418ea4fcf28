//! A linter over finished plans: what must hold whatever the policy and whatever was observed.
//!
//! Property tests run it over random observations, and the daemon runs it over each plan in debug builds.

use super::allocation::{free_weight, scale};
use super::domain::{Domain, domains};
use super::memory;
use crate::model::{
    ContainerId, ContainerObservation, ContainerPlan, NodeObservation, NodePlan, PlannedLimits, Reason, RunState, Share,
};
use std::fmt;

/// Something that no plan may contain.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    /// The plan does not speak of exactly the observed containers, in their order.
    OtherContainers,
    /// The next decision lies not after this one.
    NextTickNotLater,
    /// Shares add up to more than the node.
    SharesExceedNode(f64),
    /// A held container's limits would be written.
    HeldTouched(ContainerId),
    /// A held or frozen container's reason does not say so.
    ReasonMissing(ContainerId),
    /// A running container would get nothing.
    Starved(ContainerId),
    /// A frozen container holds a share that others could use.
    FrozenShare(ContainerId),
    /// More than the owner's upper bound.
    AboveBound(ContainerId, Share),
    /// Less than the owner's lower bound although all lower bounds fit.
    BelowBound(ContainerId, Share),
    /// Something was planned in a plain block, and not to keep a fixed share.
    PlainTouched(ContainerId),
    /// The weight does not say the same as the share.
    WeightNotShare(ContainerId),
    /// `memory.high` without known and low pressure, or into the working set, or below the owner's floor.
    UnsafeSqueeze(ContainerId),
    /// More memory protected than the node has.
    OverProtected,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Every violation in `plan`, which was made from `observation`; none for a plan of [`super::Governor::tick`].
pub fn check(plan: &NodePlan, observation: &NodeObservation) -> Vec<Violation> {
    let ids = |a: &ContainerPlan, b: &ContainerObservation| a.id == b.id;
    let same = plan.containers.len() == observation.containers.len()
        && plan.containers.iter().zip(&observation.containers).all(|(a, b)| ids(a, b));
    if !same {
        return vec![Violation::OtherContainers];
    }
    let mut violations = Vec::new();
    if plan.next_tick <= plan.at {
        violations.push(Violation::NextTickNotLater);
    }
    check_sums(plan, observation, &mut violations);
    for domain in domains(observation) {
        let bounds = SharedBounds::of(&domain, observation);
        for &index in &domain.members {
            let (planned, container) = (&plan.containers[index], &observation.containers[index]);
            check_one(planned, container, &bounds, observation, &mut violations);
        }
    }
    violations
}

fn check_sums(plan: &NodePlan, observation: &NodeObservation, violations: &mut Vec<Violation>) {
    let shares: f64 = plan.containers.iter().map(|planned| planned.share.fraction()).sum();
    if shares > 1.0 + 1e-6 {
        violations.push(Violation::SharesExceedNode(shares));
    }
    let limits = plan.containers.iter().filter_map(|planned| planned.limits);
    let protected: u64 = limits.filter_map(|limits| limits.memory_low).map(|low| low.0).sum();
    if protected > observation.memory.0 {
        violations.push(Violation::OverProtected);
    }
}

/// What the owners' bounds of a domain's containers mean together.
struct SharedBounds {
    scale: f64,
    /// The domain's part of the node.
    part: f64,
    lower_bounds_fit: bool,
}

impl SharedBounds {
    fn of(domain: &Domain, observation: &NodeObservation) -> Self {
        let (scale, part) = (scale(domain.containers(observation)), domain.part);
        let free = domain.containers(observation).filter(|c| c.state == RunState::Running && c.hold.is_none());
        let least: f64 = free.map(|c| (c.bounds.min.fraction() / part).min(1.0) + 1.0 / scale).sum();
        let lower_bounds_fit = scale > 0.0 && least <= free_weight(domain.containers(observation)) / scale;
        SharedBounds { scale, part, lower_bounds_fit }
    }
}

fn check_one(
    planned: &ContainerPlan,
    container: &ContainerObservation,
    bounds: &SharedBounds,
    observation: &NodeObservation,
    violations: &mut Vec<Violation>,
) {
    let id = || container.id.clone();
    if container.hold.is_some() && planned.limits.is_some() {
        violations.push(Violation::HeldTouched(id()));
    }
    let says_so = match (&container.hold, container.state) {
        (Some(_), _) => matches!(planned.reason, Reason::Held { .. }),
        (None, RunState::Paused) => matches!(planned.reason, Reason::Paused),
        (None, RunState::Running) => !matches!(planned.reason, Reason::Held { .. } | Reason::Paused),
    };
    if !says_so {
        violations.push(Violation::ReasonMissing(id()));
    }
    match container.state {
        RunState::Running if planned.share <= Share::NONE => violations.push(Violation::Starved(id())),
        RunState::Paused if planned.share > Share::NONE => violations.push(Violation::FrozenShare(id())),
        _ => {}
    }
    if observation.is_plain() {
        let fixed = container.bounds.fixed().is_some();
        let touched = planned.limits.is_some_and(|limits| {
            PlannedLimits { cpu_weight: limits.cpu_weight.filter(|_| !fixed), ..limits } != PlannedLimits::default()
        });
        if touched {
            violations.push(Violation::PlainTouched(id()));
        }
        return;
    }
    if let (None, RunState::Running, Some(limits)) = (&container.hold, container.state, &planned.limits) {
        check_cpu(planned, container, limits, bounds, violations);
        check_memory(container, limits, observation, violations);
    }
}

fn check_cpu(
    planned: &ContainerPlan,
    container: &ContainerObservation,
    limits: &PlannedLimits,
    bounds: &SharedBounds,
    violations: &mut Vec<Violation>,
) {
    let Some(weight) = limits.cpu_weight else { return };
    let share = planned.share.fraction() / bounds.part;
    let unit = 1.0 / bounds.scale;
    if (f64::from(weight.number()) - share * bounds.scale).abs() > 1.0 + 1e-6 {
        violations.push(Violation::WeightNotShare(container.id.clone()));
    }
    let inside = |bound: Share| (bound.fraction() / bounds.part).min(1.0);
    let (min, max) = (inside(container.bounds.min), inside(container.bounds.max));
    if share > max.max(min) + unit + 1e-6 {
        violations.push(Violation::AboveBound(container.id.clone(), planned.share));
    }
    let reachable = min.min(10_000.0 * unit);
    if bounds.lower_bounds_fit && share < reachable - unit - 1e-6 {
        violations.push(Violation::BelowBound(container.id.clone(), planned.share));
    }
}

fn check_memory(
    container: &ContainerObservation,
    limits: &PlannedLimits,
    observation: &NodeObservation,
    violations: &mut Vec<Violation>,
) {
    let Some(high) = limits.memory_high else { return };
    let known = observation.pressure.memory.is_some() && container.usage.pressure.memory.is_some();
    let roomy = memory::least_high(container).is_some_and(|least| high >= least);
    if !known || !roomy {
        violations.push(Violation::UnsafeSqueeze(container.id.clone()));
    }
}
