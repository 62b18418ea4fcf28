//! From limits to shares of the node and integer weights.
//!
//! ## Problem
//!
//! A policy says in what proportion the governed containers shall share the CPU. The kernel takes an integer weight for each
//! cgroup, and divides among *all* that are hungry, governed or not. Owners set bounds. Some containers must be left alone.
//!
//! ## Units
//!
//! - *claim*: limit L times the owner's weight; only proportions matter.
//! - *share*: part of the node's CPU that the container gets when every governed container wants more than that.
//! - *weight*: `cpu.weight`; weight = share × scale, scale = sum of the weights of all governed containers that run.
//!
//! ## Approach
//!
//! n free containers divide 100·n, the sum that they had by default; a held container keeps the weight that stands and counts
//! in the scale. The budget is poured over the claims; a container that reaches a bound stays there and the rest flows to the
//! others (water-filling). Integers by largest remainder.
//!
//! ## Properties
//!
//! - Σ weights = 100·n unless owners' upper bounds leave something over: ungoverned neighbours neither gain nor lose.
//! - Every weight is in 1 ..= 10,000, and shares lie within the owner's bounds to the precision of one weight unit.
//! - Lower bounds that add up to more than there is are scaled down together; a lower bound above the upper one wins.
//! - What is not a number claims like everybody else.

use super::sane_weight;
use crate::model::{Bounds, ContainerObservation, CpuWeight, RunState, Share};

/// The weight that a container has by default, and the sum per container that is preserved.
const WEIGHT_EACH: f64 = 100.0;

const GREATEST_WEIGHT: f64 = 10_000.0;

/// What fixed shares may take of a plain block together.
const FIXED_AT_MOST: f64 = 0.95;

/// What one container gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allocation {
    /// Part of the node.
    pub(super) share: f64,
    /// Part that the claims alone would have given.
    pub(super) wanted: f64,
    /// The weight to set; the standing one for a container that is held or frozen.
    pub(super) weight: CpuWeight,
}

/// How a container takes part.
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
    least: f64,
    most: f64,
}

/// Divides the node. `limits` are the policy's L, in the order of the containers; `floor` is the share nobody falls below.
pub(super) fn allocate(containers: &[ContainerObservation], limits: &[f64], floor: f64) -> Vec<Allocation> {
    let parts: Vec<Part> = containers.iter().map(part_of).collect();
    let free = parts.iter().filter(|part| **part == Part::Free).count() as f64;
    let scale = scale(containers);
    let claims: Vec<Claim> = containers
        .iter()
        .zip(limits)
        .zip(&parts)
        .filter(|(_, part)| **part == Part::Free)
        .map(|((container, limit), _)| claim(container, *limit, floor, scale))
        .collect();
    let budget = WEIGHT_EACH * free / scale;
    let wanted = proportional(&claims, budget);
    let shares = pour(&claims, &wanted, budget);
    let weights = whole_weights(&shares, scale);
    let mut given = shares.into_iter().zip(wanted).zip(weights);
    containers
        .iter()
        .zip(&parts)
        .map(|(container, part)| {
            let standing = standing_weight(container);
            match part {
                Part::Free => {
                    let ((share, wanted), weight) = given.next().expect("one claim for each free container");
                    Allocation { share, wanted, weight }
                }
                Part::Held => {
                    let share = f64::from(standing.number()) / scale;
                    Allocation { share, wanted: share, weight: standing }
                }
                Part::Frozen => Allocation { share: 0.0, wanted: 0.0, weight: standing },
            }
        })
        .collect()
}

/// What each container gets from its original weight, when nothing is planned.
pub(super) fn untouched(containers: &[ContainerObservation]) -> Vec<Allocation> {
    let weight = |c: &ContainerObservation| match part_of(c) {
        Part::Free => c.original.cpu_weight.unwrap_or(CpuWeight::DEFAULT),
        Part::Held | Part::Frozen => standing_weight(c),
    };
    let runs = |c: &ContainerObservation| c.state == RunState::Running;
    let scale: f64 = containers.iter().filter(|c| runs(c)).map(|c| f64::from(weight(c).number())).sum();
    containers
        .iter()
        .map(|c| {
            let share = if runs(c) { f64::from(weight(c).number()) / scale } else { 0.0 };
            Allocation { share, wanted: share, weight: weight(c) }
        })
        .collect()
}

/// What each container gets in a plain block: as [`untouched`], but a fixed share is what its owner or an operator said.
///
/// Fixed shares that leave nothing to the others are scaled down together, so that there is something to measure.
pub(super) fn plain(containers: &[ContainerObservation]) -> Vec<Allocation> {
    let mut given = untouched(containers);
    let fixed: Vec<Option<f64>> = containers
        .iter()
        .map(|container| container.bounds.fixed().filter(|_| part_of(container) == Part::Free).map(Share::fraction))
        .collect();
    let all: f64 = fixed.iter().flatten().sum();
    if all <= 0.0 {
        return given;
    }
    let runs = |container: &ContainerObservation| container.state == RunState::Running;
    let others =
        containers.iter().zip(&given).zip(&fixed).filter(|((container, _), fixed)| fixed.is_none() && runs(container));
    let others: f64 = others.map(|((_, allocation), _)| f64::from(allocation.weight.number())).sum();
    if others <= 0.0 {
        return allocate(containers, &vec![1.0; containers.len()], 0.0);
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
    }
    given
}

/// The sum of the weights of all containers that run: 100 for each free one, and what stands for each held one.
pub(super) fn scale(containers: &[ContainerObservation]) -> f64 {
    containers
        .iter()
        .map(|container| match part_of(container) {
            Part::Free => WEIGHT_EACH,
            Part::Held => f64::from(standing_weight(container).number()),
            Part::Frozen => 0.0,
        })
        .sum()
}

fn part_of(container: &ContainerObservation) -> Part {
    match (container.state, &container.hold) {
        (RunState::Paused, _) => Part::Frozen,
        (RunState::Running, Some(_)) => Part::Held,
        (RunState::Running, None) => Part::Free,
    }
}

fn standing_weight(container: &ContainerObservation) -> CpuWeight {
    container.limits.cpu_weight.unwrap_or(CpuWeight::DEFAULT)
}

fn claim(container: &ContainerObservation, limit: f64, floor: f64, scale: f64) -> Claim {
    let limit = if limit.is_finite() && limit > 0.0 { limit } else { 1.0 };
    let Bounds { min, max } = container.bounds;
    let most = max.fraction().min(GREATEST_WEIGHT / scale);
    let least = min.fraction().max(floor.min(most)).max(1.0 / scale);
    Claim { amount: limit * sane_weight(container.weight), least, most: most.max(least) }
}

/// Shares in proportion to the claims, without bounds.
fn proportional(claims: &[Claim], budget: f64) -> Vec<f64> {
    let total: f64 = claims.iter().map(|claim| claim.amount).sum();
    claims.iter().map(|claim| budget * claim.amount / total).collect()
}

/// Shares in proportion to the claims, each within its bounds, adding up to the budget as far as the bounds allow. `wanted` are the shares
/// without bounds; where they keep them there is nothing to do.
///
/// The level λ with Σ clamp(λ·claim, least, most) = budget is found by bisection: the sum grows with λ.
fn pour(claims: &[Claim], wanted: &[f64], budget: f64) -> Vec<f64> {
    if claims.iter().zip(wanted).all(|(claim, share)| (claim.least..=claim.most).contains(share)) {
        return wanted.to_vec();
    }
    let least: f64 = claims.iter().map(|claim| claim.least).sum();
    if least >= budget {
        return claims.iter().map(|claim| claim.least * budget / least).collect();
    }
    let filled = |level: f64| -> f64 { claims.iter().map(|claim| at_level(claim, level)).sum() };
    let mut low = 0.0;
    let mut high = claims.iter().map(|claim| claim.most / claim.amount).fold(0.0, f64::max);
    if filled(high) > budget {
        for _ in 0..64 {
            let middle = 0.5 * (low + high);
            if filled(middle) > budget { high = middle } else { low = middle }
        }
    }
    claims.iter().map(|claim| at_level(claim, high)).collect()
}

fn at_level(claim: &Claim, level: f64) -> f64 {
    (level * claim.amount).max(claim.least).min(claim.most)
}

/// Integer weights in proportion to the shares: rounded down, then the largest remainders get the units left over.
fn whole_weights(shares: &[f64], scale: f64) -> Vec<CpuWeight> {
    let exact: Vec<f64> = shares.iter().map(|share| share * scale).collect();
    let mut weights: Vec<f64> =
        exact.iter().map(|weight| (weight + 1e-9).floor().clamp(1.0, GREATEST_WEIGHT)).collect();
    let left = exact.iter().sum::<f64>().round() - weights.iter().sum::<f64>();
    let mut order: Vec<usize> = (0..exact.len()).filter(|i| weights[*i] < GREATEST_WEIGHT).collect();
    // Equal remainders differ by what the bisection left over; in millionths they are equal, and the order of ids decides.
    let remainder = |index: usize| ((exact[index] - weights[index]) * 1e6).round();
    order.sort_by(|a, b| remainder(*b).total_cmp(&remainder(*a)).then(a.cmp(b)));
    for index in order.into_iter().take(left.max(0.0) as usize) {
        weights[index] += 1.0;
    }
    weights.into_iter().map(CpuWeight::clamped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Hold, Share};
    use crate::policy::testing::container;

    fn weights(containers: &[ContainerObservation], limits: &[f64]) -> Vec<u32> {
        allocate(containers, limits, 0.0).iter().map(|a| a.weight.number()).collect()
    }

    #[test]
    fn weights_follow_the_limits_and_keep_their_sum() {
        let jobs = ["a", "b", "c"].map(container);
        assert_eq!(weights(&jobs, &[1.0, 1.0, 1.0]), [100, 100, 100]);
        assert_eq!(weights(&jobs, &[0.75, 0.25, 1.0]), [113, 37, 150]);
        assert_eq!(weights(&jobs, &[1e-9, 1e-9, 1.0]), [1, 1, 298]);
    }

    #[test]
    fn the_owners_weight_multiplies_the_limit() {
        let mut jobs = ["a", "b"].map(container);
        jobs[0].weight = 3.0;
        assert_eq!(weights(&jobs, &[1.0, 1.0]), [150, 50]);
        jobs[0].weight = f64::NAN;
        assert_eq!(weights(&jobs, &[1.0, f64::NAN]), [100, 100]);
    }

    #[test]
    fn what_a_bounded_container_leaves_flows_to_the_others() {
        let mut jobs = ["a", "b", "c", "d"].map(container);
        jobs[0].bounds.max = Share::clamped(0.3);
        jobs[3].bounds.min = Share::clamped(0.2);
        let given = allocate(&jobs, &[1.0, 0.1, 0.1, 0.01], 0.0);
        assert_eq!(given.iter().map(|a| a.weight.number()).collect::<Vec<_>>(), [120, 100, 100, 80]);
        assert!(given[0].wanted > 0.8 && (given[0].share - 0.3).abs() < 1e-9);
    }

    #[test]
    fn lower_bounds_that_do_not_fit_are_scaled_together() {
        let mut jobs = ["a", "b"].map(container);
        jobs[0].bounds.min = Share::clamped(0.9);
        jobs[1].bounds.min = Share::clamped(0.6);
        assert_eq!(weights(&jobs, &[1.0, 1.0]), [120, 80]);
        jobs[1].bounds = Bounds { min: Share::clamped(0.5), max: Share::clamped(0.2) };
        jobs[0].bounds.min = Share::NONE;
        assert_eq!(weights(&jobs, &[1.0, 1e-3]), [100, 100], "the lower bound wins over an upper one below it");
    }

    #[test]
    fn an_upper_bound_holds_when_nobody_else_is_there() {
        let mut job = container("a");
        job.bounds.max = Share::clamped(0.4);
        assert_eq!(weights(&[job], &[1.0]), [40]);
    }

    #[test]
    fn a_held_container_keeps_its_weight_and_counts() {
        let mut jobs = ["a", "b", "c"].map(container);
        jobs[1].hold = Some(Hold::Foreign("cpu.weight".to_owned()));
        jobs[1].limits.cpu_weight = Some(CpuWeight::clamped(200.0));
        let given = allocate(&jobs, &[3.0, 7.0, 1.0], 0.0);
        assert_eq!(given.iter().map(|a| a.weight.number()).collect::<Vec<_>>(), [150, 200, 50]);
        assert!((given[1].share - 0.5).abs() < 1e-12 && (given[0].share - 0.375).abs() < 1e-12);
    }

    #[test]
    fn a_frozen_container_takes_no_share() {
        let mut jobs = ["a", "b"].map(container);
        jobs[0].state = RunState::Paused;
        let given = allocate(&jobs, &[1.0, 1.0], 0.0);
        assert_eq!((given[0].share, given[1].share), (0.0, 1.0));
        assert_eq!(given[1].weight, CpuWeight::DEFAULT);
    }

    #[test]
    fn the_floor_is_kept_by_everybody() {
        let jobs = ["a", "b", "c", "d", "e"].map(container);
        let given = allocate(&jobs, &[1.0, 0.0001, 0.0001, 0.0001, 0.0001], 0.02);
        assert!(given.iter().all(|a| a.share >= 0.02 - 1e-9));
        assert_eq!(given[1].weight.number(), 10);
    }
}
