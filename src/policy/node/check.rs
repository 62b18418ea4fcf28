//! A linter over finished plans: rules that hold for every policy and every observation.
//!
//! Property tests run it over random observations. The daemon runs it over each plan.

use super::allocation::{free_weight, scale};
use super::domain::{Domain, domains};
use super::memory;
use model::{
    ContainerId, ContainerObservation, ContainerPlan, Limits, NodeObservation, NodePlan, Reason, RunState, Share,
};
use std::fmt;

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    /// The plan's containers are not exactly the observed ones in the same order.
    OtherContainers,
    /// The next tick is not after this one.
    NextTickNotLater,
    /// Shares add up to more than the node.
    SharesExceedNode(f64),
    /// The plan would write limits of a held container.
    HeldTouched(ContainerId),
    /// The reason of a held or frozen container does not name the hold or the pause.
    ReasonMissing(ContainerId),
    /// A running container would get no share.
    Starved(ContainerId),
    /// A frozen container holds a share that others could use.
    FrozenShare(ContainerId),
    /// More than the owner's upper bound.
    AboveBound(ContainerId, Share),
    /// Less than the owner's lower bound although all lower bounds fit.
    BelowBound(ContainerId, Share),
    /// A limit was planned in a control period, other than for a fixed share.
    PlainTouched(ContainerId),
    /// The weight does not match the share.
    WeightNotShare(ContainerId),
    /// `memory.high` although pressure is not known to be low, or below the working set with its margin, or below the owner's floor.
    UnsafeSqueeze(ContainerId),
    /// A job would be stopped that does not ask for it, is held, or does not run; or in a control period.
    StoppedUnasked(ContainerId),
    /// More memory protected than the node has.
    OverProtected,
}

impl Violation {
    /// The container that breaks the rule; `None` if the plan as a whole does.
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
            | Violation::UnsafeSqueeze(id)
            | Violation::StoppedUnasked(id) => Some(id),
        }
    }
}

/// Removes the limits and stops of the containers that break a rule, so that the rest of the plan can be applied. Returns these containers with the
/// rule, or `None` if the plan as a whole breaks one.
pub fn drop_violating(plan: &mut NodePlan, violations: &[Violation]) -> Option<Vec<(ContainerId, String)>> {
    let broken: Option<Vec<_>> =
        violations.iter().map(|violation| Some((violation.container()?.clone(), violation.to_string()))).collect();
    let broken = broken?;
    for planned in &mut plan.containers {
        if broken.iter().any(|(id, _)| planned.id == *id) {
            planned.limits = None;
        }
    }
    plan.stops.retain(|stop| !broken.iter().any(|(id, _)| stop.id == *id));
    Some(broken)
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Returns every violation in `plan`, which was made from `observation`; none for a plan of [`super::Governor::tick`].
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
    check_stops(plan, observation, &mut violations);
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

fn check_stops(plan: &NodePlan, observation: &NodeObservation, violations: &mut Vec<Violation>) {
    let asks = |container: &ContainerObservation| {
        container.trial.as_ref().is_some_and(|trial| trial.stop_at.is_some())
            && container.hold.is_none()
            && container.state == RunState::Running
            && !observation.is_plain()
    };
    for stop in &plan.stops {
        if !observation.containers.iter().any(|container| container.id == stop.id && asks(container)) {
            violations.push(Violation::StoppedUnasked(stop.id.clone()));
        }
    }
}

/// The combined bounds of a domain's containers.
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
    let reason_matches = match (&container.hold, container.state) {
        (Some(_), _) => matches!(planned.reason, Reason::Held { .. }),
        (None, RunState::Paused) => matches!(planned.reason, Reason::Paused),
        (None, RunState::Running) => !matches!(planned.reason, Reason::Held { .. } | Reason::Paused),
    };
    if !reason_matches {
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
            Limits { cpu_weight: limits.cpu_weight.filter(|_| !fixed), ..limits } != Limits::default()
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
    limits: &Limits,
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
    limits: &Limits,
    observation: &NodeObservation,
    violations: &mut Vec<Violation>,
) {
    let Some(high) = limits.memory_high.flatten() else { return };
    let known = observation.pressure.memory.is_some() && container.usage.pressure.memory.is_some();
    let roomy = memory::least_high(observation, container).is_some_and(|least| high >= least);
    if !known || !roomy {
        violations.push(Violation::UnsafeSqueeze(container.id.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::{container, node};
    use crate::{Governor, diff};
    use model::{Bytes, CpuTime, Gain, Millis, PolicyName, PolicySettings};

    /// Two converged jobs with one GiB each.
    fn converged() -> NodeObservation {
        let job = |id| {
            let mut job = container(id);
            job.usage.working_set = Some(Bytes(1 << 30));
            job.usage.pressure.memory = Some(0.0);
            job
        };
        node(vec![job("a"), job("b")])
    }

    /// The plan of the first tick that squeezes converged jobs.
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
        panic!("no container is squeezed");
    }

    #[test]
    fn an_absurd_memory_floor_does_not_invalidate_the_plan() {
        let mut observation = converged();
        observation.containers[0].memory_floor = Some(Bytes(u64::MAX));
        let plan = squeezed(&mut observation);
        assert_eq!(check(&plan, &observation), vec![]);
        let high = |at: usize| plan.containers[at].limits.and_then(|limits| limits.memory_high);
        assert_eq!((high(0), high(1)), (None, Some(Some(Bytes(1280 << 20)))));
    }

    #[test]
    fn a_violation_by_one_container_leaves_the_plan_of_the_others_in_force() {
        let mut observation = converged();
        let mut plan = squeezed(&mut observation);
        let limits = plan.containers[0].limits.as_mut().expect("it is governed");
        limits.memory_high = Some(Some(Bytes(1 << 20)));
        let violations = check(&plan, &observation);
        assert_eq!(violations, vec![Violation::UnsafeSqueeze(observation.containers[0].id.clone())]);
        let left = drop_violating(&mut plan, &violations).expect("the others have a plan");
        assert_eq!(left.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(check(&plan, &observation), vec![]);
        let changes = diff(&plan, &observation);
        assert!(!changes.is_empty() && changes.iter().all(|change| change.id.as_str() == "b"), "{changes:?}");
    }

    #[test]
    fn a_plan_that_breaks_a_rule_as_a_whole_is_rejected() {
        let mut observation = converged();
        let mut plan = squeezed(&mut observation);
        plan.next_tick = plan.at;
        let violations = check(&plan, &observation);
        assert_eq!(drop_violating(&mut plan, &violations), None);
    }
}
