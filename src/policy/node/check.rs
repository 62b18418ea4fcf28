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
    /// Something was planned in a control period, and not to keep a fixed share.
    PlainTouched(ContainerId),
    /// The weight does not say the same as the share.
    WeightNotShare(ContainerId),
    /// `memory.high` without known and low pressure, or into the working set, or below the owner's floor.
    UnsafeSqueeze(ContainerId),
    /// More memory protected than the node has.
    OverProtected,
}

impl Violation {
    /// The container that alone breaks the rule; `None` = the plan does as a whole.
    fn container(&self) -> Option<&ContainerId> {
        match self {
            Violation::OtherContainers
            | Violation::NextTickNotLater
            | Violation::SharesExceedNode(_)
            | Violation::OverProtected => None,
            Violation::HeldTouched(id)
            | Violation::ReasonMissing(id)
            | Violation::Starved(id)
            | Violation::FrozenShare(id)
            | Violation::AboveBound(id, _)
            | Violation::BelowBound(id, _)
            | Violation::PlainTouched(id)
            | Violation::WeightNotShare(id)
            | Violation::UnsafeSqueeze(id) => Some(id),
        }
    }
}

/// Takes from a plan what breaks a rule: the limits of a container that does are left as they are, and nobody else pays for it. `None`
/// where the plan as a whole breaks one; otherwise the containers that are left alone, with the rule.
pub fn leave_out(plan: &mut NodePlan, violations: &[Violation]) -> Option<Vec<(ContainerId, String)>> {
    let broken: Option<Vec<_>> =
        violations.iter().map(|violation| Some((violation.container()?.clone(), violation.to_string()))).collect();
    let broken = broken?;
    for planned in &mut plan.containers {
        if broken.iter().any(|(id, _)| planned.id == *id) {
            planned.limits = None;
        }
    }
    Some(broken)
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
    let roomy = memory::least_high(observation, container).is_some_and(|least| high >= least);
    if !known || !roomy {
        violations.push(Violation::UnsafeSqueeze(container.id.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, CpuTime, Gain, Millis, PolicyName, PolicySettings};
    use crate::policy::node::testing::{container, node};
    use crate::policy::{Governor, diff};

    /// Two converged jobs that have a gibibyte each.
    fn converged() -> NodeObservation {
        let job = |id| {
            let mut job = container(id);
            job.usage.working_set = Some(Bytes(1 << 30));
            job.usage.pressure.memory = Some(0.0);
            job
        };
        node(vec![job("a"), job("b")])
    }

    /// The plan of a tick at which converged jobs are squeezed.
    fn squeezed(observation: &mut NodeObservation) -> NodePlan {
        let mut governor = Governor::new(PolicySettings { policy: PolicyName::Flowcon, ..PolicySettings::default() });
        for tick in 1..20 {
            let last = std::mem::replace(&mut observation.now, Millis::from_secs(20 * tick));
            for job in &mut observation.containers {
                job.usage.cpu = Some(CpuTime(20_000_000 * tick));
                job.learning.evaluations = tick;
                job.learning.gain = (tick > 1).then_some(Gain { amount: 0.0, from: last, to: observation.now });
            }
            let plan = governor.tick(observation);
            if plan.containers.iter().any(|job| job.limits.is_some_and(|limits| limits.memory_high.is_some())) {
                return plan;
            }
        }
        panic!("nobody is squeezed");
    }

    #[test]
    fn an_absurd_memory_floor_costs_nobody_a_plan() {
        let mut observation = converged();
        observation.containers[0].memory_floor = Some(Bytes(u64::MAX));
        let plan = squeezed(&mut observation);
        assert_eq!(check(&plan, &observation), vec![]);
        let high = |at: usize| plan.containers[at].limits.and_then(|limits| limits.memory_high);
        assert_eq!((high(0), high(1)), (None, Some(Bytes(1280 << 20))));
    }

    #[test]
    fn a_plan_that_breaks_a_rule_for_one_container_is_carried_out_for_the_others() {
        let mut observation = converged();
        let mut plan = squeezed(&mut observation);
        let limits = plan.containers[0].limits.as_mut().expect("it is governed");
        limits.memory_high = Some(Bytes(1 << 20));
        let violations = check(&plan, &observation);
        assert_eq!(violations, vec![Violation::UnsafeSqueeze(observation.containers[0].id.clone())]);
        let left = leave_out(&mut plan, &violations).expect("the others have a plan");
        assert_eq!(left.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(check(&plan, &observation), vec![]);
        let changes = diff(&plan, &observation);
        assert!(!changes.is_empty() && changes.iter().all(|change| change.id.as_str() == "b"), "{changes:?}");
    }

    #[test]
    fn of_a_plan_that_breaks_a_rule_as_a_whole_nothing_is_carried_out() {
        let mut observation = converged();
        let mut plan = squeezed(&mut observation);
        plan.next_tick = plan.at;
        let violations = check(&plan, &observation);
        assert_eq!(leave_out(&mut plan, &violations), None);
    }
}
