//! From limits to shares of a contention domain, and to integer weights.
//!
//! ## Problem
//!
//! A policy decides in what proportion the governed containers share the CPU. The kernel takes an integer weight for each cgroup, and
//! divides among *all* siblings that want CPU, governed or not. Owners set bounds. Some containers must be left alone.
//!
//! ## Units
//!
//! - *importance*: the owner's weight times the container's original weight; only proportions matter.
//! - *claim*: what the budget is divided in proportion to. Under the default policy it is the policy's number times the importance.
//! - *limit* L: the most that a container gets when all want CPU, as FlowCon sets it; see [`Demand::Limits`].
//! - *share*: part of the domain's CPU that the container gets when every governed container there wants more than its share. Bounds and
//!   displayed shares are parts of the node: share × the domain's part of the node.
//! - *weight*: `cpu.weight`; weight = share × scale, scale = sum of the weights of all governed containers of the domain that run.
//!
//! ## Approach
//!
//! The free containers of a domain divide the sum of their original weights; a held container keeps its current weight, which counts in the
//! scale. The budget is distributed in proportion to the claims; a container that reaches a bound stays there and the rest flows to the
//! others (water-filling). A limit is an upper bound on a claim by importance alone: 0.25 beside 1 gives 25 and 75 %. Limits that leave
//! something over together are exceeded in proportion, because unused CPU flows to others. Integers by largest remainder.
//!
//! ## Properties
//!
//! - Σ weights of a domain is kept, unless owners' upper bounds leave something over: ungoverned neighbours neither gain nor lose.
//! - Every weight is in 1 ..= 10,000, and shares lie within the owner's bounds to the precision of one weight unit.
//! - Lower bounds that exceed the domain together are scaled down together; a lower bound above the upper one wins.
//! - Among containers of the same importance, one with a limit of at least 1/(β·n) gets 1/(β·n) for any β ≥ 1, whatever the limits' sum.
//! - An invalid number of a policy counts as 1.

use super::domain::Domain;
use super::importance;
use model::{Bounds, ContainerObservation, CpuWeight, NodeObservation, RunState, Share};

const GREATEST_WEIGHT: f64 = 10_000.0;

/// The greatest I/O weight that every kernel keeps: with BFQ, version 1 writes 1000 for any greater one, and what is read back would look
/// like somebody else's.
const GREATEST_IO_WEIGHT: f64 = 1_000.0;

/// Maximum total of the fixed shares in a control period.
const FIXED_AT_MOST: f64 = 0.95;

/// What a policy asks for its containers: one number each, in the order of the node's containers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Demand<'a> {
    /// Relative claims: only their proportions matter.
    Claims(&'a [f64]),
    /// FlowCon's L: upper limits, as parts of the node. An owner's weight multiplies the limit, compared with the mean of the others.
    Limits(&'a [f64]),
}

/// The allocation of one container.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allocation {
    /// Part of the node.
    pub(super) share: f64,
    /// The most that the container may use while others leave CPU idle, as a part of the node; the share, unless limits were given.
    pub(super) limit: f64,
    /// Part of the node by the claims alone, without bounds.
    pub(super) wanted: f64,
    /// The weight to set; the current one for a container that is held or frozen.
    pub(super) weight: CpuWeight,
    /// `io.weight` in the same proportion.
    pub(super) io_weight: u16,
}

/// How a container takes part in the division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Free,
    Held,
    Frozen,
}

/// One container's claim.
#[derive(Clone, Copy, Debug)]
struct Claim {
    amount: f64,
    /// The policy's upper limit; infinite = none.
    limit: f64,
    /// The owner's bounds.
    least: f64,
    most: f64,
}

/// A rule for the division within one domain.
type Division<'a> = &'a dyn Fn(&Domain, &[&ContainerObservation]) -> Vec<Allocation>;

/// Divides each domain separately; the result is in the order of the node's containers.
fn divide(node: &NodeObservation, domains: &[Domain], division: Division<'_>) -> Vec<Allocation> {
    let nothing = Allocation { share: 0.0, limit: 0.0, wanted: 0.0, weight: CpuWeight::DEFAULT, io_weight: 100 };
    let mut all = vec![nothing; node.containers.len()];
    for domain in domains {
        let containers: Vec<&ContainerObservation> = domain.containers(node).collect();
        for (&index, inside) in domain.members.iter().zip(division(domain, &containers)) {
            let Allocation { share, limit, wanted, .. } = inside;
            let [share, limit, wanted] = [share, limit, wanted].map(|inside| inside * domain.part);
            all[index] = Allocation { share, limit, wanted, ..inside };
        }
    }
    all
}

/// Divides the node as the policy asks.
pub(super) fn allocate(node: &NodeObservation, domains: &[Domain], demand: Demand<'_>) -> Vec<Allocation> {
    divide(node, domains, &|domain, containers| {
        let of_members = |all: &[f64]| -> Vec<f64> { domain.members.iter().map(|&index| all[index]).collect() };
        match demand {
            Demand::Claims(all) => allocate_inside(containers, Demand::Claims(&of_members(all)), domain.part),
            Demand::Limits(all) => allocate_inside(containers, Demand::Limits(&of_members(all)), domain.part),
        }
    })
}

/// The allocation by the original weights, when nothing is planned.
pub(super) fn untouched(node: &NodeObservation, domains: &[Domain]) -> Vec<Allocation> {
    divide(node, domains, &|_, containers| untouched_inside(containers))
}

/// The allocation in a control period: like [`untouched`], but fixed shares are kept.
pub(super) fn plain(node: &NodeObservation, domains: &[Domain]) -> Vec<Allocation> {
    divide(node, domains, &|domain, containers| plain_inside(containers, domain.part))
}

/// `part` is the part of the node that the containers divide; bounds are parts of the node.
fn allocate_inside(containers: &[&ContainerObservation], demand: Demand<'_>, part: f64) -> Vec<Allocation> {
    let parts: Vec<Part> = containers.iter().map(|container| part_of(container)).collect();
    let scale = scale(containers.iter().copied());
    let free = || containers.iter().zip(&parts).filter(|(_, part)| **part == Part::Free).map(|(c, _)| *c);
    let claims = claims(containers, &parts, demand, scale, part);
    let sum: f64 = free().map(original_weight).sum();
    let io_sum: f64 = free().map(|container| f64::from(container.original.io_weight.unwrap_or(100))).sum();
    let budget = sum / scale;
    let (wanted, shares) = distribute(&claims, budget);
    let weights = whole_weights(&shares, scale);
    let mut given = shares.into_iter().zip(wanted).zip(weights).zip(&claims);
    containers
        .iter()
        .zip(&parts)
        .map(|(container, part)| {
            let current = current_weight(container);
            let io_current = container.limits.io_weight.unwrap_or(100);
            match part {
                Part::Free => {
                    let (((share, wanted), weight), claim) = given.next().expect("one claim for each free container");
                    let io_weight = (io_sum * share / budget).round().clamp(1.0, GREATEST_IO_WEIGHT) as u16;
                    let limit = if claim.limit.is_finite() { claim.limit.min(claim.most).max(share) } else { share };
                    Allocation { share, limit, wanted, weight, io_weight }
                }
                Part::Held => {
                    let share = f64::from(current.number()) / scale;
                    Allocation { share, limit: share, wanted: share, weight: current, io_weight: io_current }
                }
                Part::Frozen => {
                    Allocation { share: 0.0, limit: 0.0, wanted: 0.0, weight: current, io_weight: io_current }
                }
            }
        })
        .collect()
}

fn untouched_inside(containers: &[&ContainerObservation]) -> Vec<Allocation> {
    let weight = |c: &ContainerObservation| match part_of(c) {
        Part::Free => c.original.cpu_weight.unwrap_or(CpuWeight::DEFAULT),
        Part::Held | Part::Frozen => current_weight(c),
    };
    let runs = |c: &ContainerObservation| c.state == RunState::Running;
    let scale: f64 = containers.iter().filter(|c| runs(c)).map(|c| f64::from(weight(c).number())).sum();
    containers
        .iter()
        .map(|c| {
            let share = if runs(c) { f64::from(weight(c).number()) / scale } else { 0.0 };
            let weight = weight(c);
            Allocation { share, limit: share, wanted: share, weight, io_weight: c.original.io_weight.unwrap_or(100) }
        })
        .collect()
}

/// Fixed shares that leave nothing to the others are scaled down together, so that the others can be measured.
fn plain_inside(containers: &[&ContainerObservation], part: f64) -> Vec<Allocation> {
    let mut given = untouched_inside(containers);
    let fixed_share = |container: &&ContainerObservation| {
        let fixed = container.bounds.fixed().filter(|_| part_of(container) == Part::Free);
        fixed.map(|share| (share.fraction() / part).min(1.0))
    };
    let fixed: Vec<Option<f64>> = containers.iter().map(fixed_share).collect();
    let all: f64 = fixed.iter().flatten().sum();
    if all <= 0.0 {
        return given;
    }
    let runs = |container: &ContainerObservation| container.state == RunState::Running;
    let others =
        containers.iter().zip(&given).zip(&fixed).filter(|((container, _), fixed)| fixed.is_none() && runs(container));
    let others: f64 = others.map(|((_, allocation), _)| f64::from(allocation.weight.number())).sum();
    if others <= 0.0 {
        return allocate_inside(containers, Demand::Claims(&vec![1.0; containers.len()]), part);
    }
    let scaled = (FIXED_AT_MOST / all).min(1.0);
    let unit = others / (1.0 - all * scaled);
    for (allocation, fixed) in given.iter_mut().zip(&fixed) {
        if let Some(share) = fixed {
            allocation.weight = CpuWeight::clamped(share * scaled * unit);
        }
    }
    let whole: f64 =
        containers.iter().zip(&given).filter(|(c, _)| runs(c)).map(|(_, a)| f64::from(a.weight.number())).sum();
    for (container, allocation) in containers.iter().zip(&mut given) {
        allocation.share = if runs(container) { f64::from(allocation.weight.number()) / whole } else { 0.0 };
        allocation.limit = allocation.share;
    }
    given
}

/// The sum of the weights of a domain's running containers: the original ones of the free containers, the current ones of the held ones.
pub(super) fn scale<'a>(containers: impl Iterator<Item = &'a ContainerObservation>) -> f64 {
    containers
        .map(|container| match part_of(container) {
            Part::Free => original_weight(container),
            Part::Held => f64::from(current_weight(container).number()),
            Part::Frozen => 0.0,
        })
        .sum()
}

/// The sum of the original weights of the free containers.
pub(super) fn free_weight<'a>(containers: impl Iterator<Item = &'a ContainerObservation>) -> f64 {
    containers.filter(|container| part_of(container) == Part::Free).map(original_weight).sum()
}

fn original_weight(container: &ContainerObservation) -> f64 {
    f64::from(container.original.cpu_weight.unwrap_or(CpuWeight::DEFAULT).number())
}

fn part_of(container: &ContainerObservation) -> Part {
    match (container.state, &container.hold) {
        (RunState::Paused, _) => Part::Frozen,
        (RunState::Running, Some(_)) => Part::Held,
        (RunState::Running, None) => Part::Free,
    }
}

fn current_weight(container: &ContainerObservation) -> CpuWeight {
    container.limits.cpu_weight.unwrap_or(CpuWeight::DEFAULT)
}

/// The claims of the free containers.
fn claims(
    containers: &[&ContainerObservation],
    parts: &[Part],
    demand: Demand<'_>,
    scale: f64,
    part: f64,
) -> Vec<Claim> {
    let (Demand::Claims(numbers) | Demand::Limits(numbers)) = demand;
    let free = || containers.iter().zip(parts).zip(numbers).filter(|((_, part), _)| **part == Part::Free);
    let mean = free().map(|((container, _), _)| importance(container)).sum::<f64>() / free().count().max(1) as f64;
    let each = free().map(|((container, _), number)| {
        let number = if number.is_finite() && *number > 0.0 { *number } else { 1.0 };
        let importance = importance(container);
        let (amount, limit) = match demand {
            Demand::Claims(_) => (number * importance, f64::INFINITY),
            Demand::Limits(_) => (importance, (number * importance / mean / part).min(1.0)),
        };
        let Bounds { min, max } = container.bounds;
        let inside = |bound: Share| (bound.fraction() / part).min(1.0);
        let most = inside(max).min(GREATEST_WEIGHT / scale);
        let least = inside(min).max(1.0 / scale);
        Claim { amount, limit, least, most: most.max(least) }
    });
    each.collect()
}

/// Returns the shares by the claims and limits alone, and those within the owners' bounds.
fn distribute(claims: &[Claim], budget: f64) -> (Vec<f64>, Vec<f64>) {
    if claims.iter().all(|claim| claim.limit.is_infinite()) {
        let wanted = proportional(claims, budget);
        let shares = pour(claims, &wanted, budget);
        return (wanted, shares);
    }
    let unbounded: Vec<Claim> = claims.iter().map(|claim| Claim { least: 0.0, most: 1.0, ..*claim }).collect();
    (distribute_limited(&unbounded, budget), distribute_limited(claims, budget))
}

/// Limits that leave something over are exceeded in proportion to them.
fn distribute_limited(claims: &[Claim], budget: f64) -> Vec<f64> {
    let mut claims: Vec<Claim> = claims.to_vec();
    let most = |claim: &Claim| claim.most.min(claim.limit).max(claim.least);
    if claims.iter().map(most).sum::<f64>() < budget {
        claims.iter_mut().for_each(|claim| claim.amount = claim.limit);
    } else {
        claims.iter_mut().for_each(|claim| claim.most = most(claim));
    }
    pour(&claims, &proportional(&claims, budget), budget)
}

/// Shares in proportion to the claims, ignoring bounds.
fn proportional(claims: &[Claim], budget: f64) -> Vec<f64> {
    let total: f64 = claims.iter().map(|claim| claim.amount).sum();
    claims.iter().map(|claim| budget * claim.amount / total).collect()
}

/// Shares in proportion to the claims, each within its bounds, adding up to the budget if the bounds allow. `wanted` are the shares without
/// bounds; if they are within the bounds, they are returned.
///
/// Found is the level λ with Σ clamp(λ·claim, least, most) = budget. The sum grows with λ and is piecewise linear: Newton's step is exact
/// once no other claim reaches a bound, and the middle of the bracket replaces a step that would leave it.
fn pour(claims: &[Claim], wanted: &[f64], budget: f64) -> Vec<f64> {
    if claims.iter().zip(wanted).all(|(claim, share)| (claim.least..=claim.most).contains(share)) {
        return wanted.to_vec();
    }
    let least: f64 = claims.iter().map(|claim| claim.least).sum();
    if least >= budget {
        return claims.iter().map(|claim| claim.least * budget / least).collect();
    }
    let (mut low, mut high) = (0.0, claims.iter().map(|claim| claim.most / claim.amount).fold(0.0, f64::max));
    let mut level = budget / claims.iter().map(|claim| claim.amount).sum::<f64>();
    for _ in 0..64 {
        let (mut filled, mut slope) = (0.0, 0.0);
        for claim in claims {
            let share = at_level(claim, level);
            filled += share;
            slope += if claim.least < share && share < claim.most { claim.amount } else { 0.0 };
        }
        let missing = budget - filled;
        if missing.abs() <= 1e-12 * budget {
            break;
        }
        if missing < 0.0 {
            high = level
        } else {
            low = level
        }
        let step = level + missing / slope;
        level = if low < step && step < high { step } else { 0.5 * (low + high) };
    }
    claims.iter().map(|claim| at_level(claim, level)).collect()
}

fn at_level(claim: &Claim, level: f64) -> f64 {
    (level * claim.amount).max(claim.least).min(claim.most)
}

/// Integer weights in proportion to the shares: rounded down, then the largest remainders get the units left over.
fn whole_weights(shares: &[f64], scale: f64) -> Vec<CpuWeight> {
    let exact: Vec<f64> = shares.iter().map(|share| share * scale).collect();
    let mut weights: Vec<f64> =
        exact.iter().map(|weight| (weight + 1e-9).floor().clamp(1.0, GREATEST_WEIGHT)).collect();
    let left = (exact.iter().sum::<f64>().round() - weights.iter().sum::<f64>()).max(0.0) as usize;
    // Equal remainders differ by the error of the level; rounded to millionths they are equal, and the order of ids decides.
    let remainder = |index: usize| ((exact[index] - weights[index]) * 1e6).round();
    let below = (0..exact.len()).filter(|&index| weights[index] < GREATEST_WEIGHT);
    let mut remainders: Vec<(f64, usize)> = below.map(|index| (remainder(index), index)).collect();
    if left < remainders.len() {
        remainders.select_nth_unstable_by(left, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }
    for (_, index) in remainders.into_iter().take(left) {
        weights[index] += 1.0;
    }
    weights.into_iter().map(CpuWeight::clamped).collect()
}

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
