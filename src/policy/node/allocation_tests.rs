//! Tests of shares and weights: bounds, the flow of unused shares, and rounding to integers.

use super::*;
use crate::node::domain::domains;
use crate::node::testing::{container, node};
use model::Hold;

fn allocated(containers: &[ContainerObservation], claims: &[f64]) -> Vec<Allocation> {
    let node = node(containers.to_vec());
    allocate(&node, &domains(&node), Demand::Claims(claims))
}

fn weights(containers: &[ContainerObservation], claims: &[f64]) -> Vec<u32> {
    allocated(containers, claims).iter().map(|a| a.weight.number()).collect()
}

fn limited(containers: &[ContainerObservation], limits: &[f64]) -> Vec<Allocation> {
    let node = node(containers.to_vec());
    allocate(&node, &domains(&node), Demand::Limits(limits))
}

/// Shares in whole per cent.
fn shares(given: &[Allocation]) -> Vec<u32> {
    given.iter().map(|a| (100.0 * a.share).round() as u32).collect()
}

#[test]
fn a_limit_is_an_upper_limit_and_the_rest_goes_to_the_others() {
    let jobs = ["a", "b", "c"].map(container);
    assert_eq!(shares(&limited(&jobs[..2], &[0.25, 1.0])), [25, 75], "FlowCon, figure 7");
    assert_eq!(shares(&limited(&jobs, &[0.9, 0.1, 0.9])), [45, 10, 45]);
    assert_eq!(shares(&limited(&jobs, &[1.0, 1.0, 1.0])), [33, 33, 33], "free competition");
    assert_eq!(shares(&limited(&jobs, &[0.5, 0.1, 0.2])), [63, 13, 25], "what no limit leaves to anyone is exceeded");
    assert_eq!(
        limited(&jobs[..2], &[0.25, 1.0])[1].limit,
        1.0,
        "a quota would allow it all that the other leaves idle"
    );
}

#[test]
fn a_converged_job_keeps_its_floor_where_the_limits_add_up_to_more_than_the_node() {
    let jobs: Vec<ContainerObservation> = ["a", "b", "c", "d", "e"].map(container).into();
    for count in 2..=5 {
        let floor = 1.0 / (2.0 * count as f64);
        // The others have just started, so that each may use the whole node.
        let limits: Vec<f64> = (0..count).map(|number| if number == 0 { floor } else { 1.0 }).collect();
        let given = limited(&jobs[..count], &limits);
        assert!((given[0].share - floor).abs() < 1e-9, "{count} jobs: {given:?}");
    }
}

#[test]
fn the_owners_weight_and_bounds_hold_under_limits_too() {
    let mut jobs = ["a", "b"].map(container);
    jobs[0].weight = 3.0;
    assert_eq!(shares(&limited(&jobs, &[1.0, 1.0])), [75, 25]);
    assert_eq!(shares(&limited(&jobs, &[0.25, 0.75])), [50, 50], "each limit times the weight");
    jobs[0].weight = 1.0;
    jobs[0].bounds.min = Share::clamped(0.4);
    assert_eq!(shares(&limited(&jobs, &[0.25, 1.0])), [40, 60]);
    jobs[0].bounds = Bounds { max: Share::clamped(0.1), ..Bounds::default() };
    assert_eq!(shares(&limited(&jobs, &[0.25, 0.25])), [10, 90]);
}

#[test]
fn the_sum_of_original_weights_is_kept_and_equal_limits_give_the_original_weights() {
    let mut jobs = ["a", "b", "c"].map(container);
    jobs.iter_mut().for_each(|job| job.original.cpu_weight = Some(CpuWeight::clamped(400.0)));
    assert_eq!(weights(&jobs, &[1.0, 1.0, 1.0]), [400, 400, 400], "ungoverned neighbours are not affected");
    assert_eq!(weights(&jobs, &[3.0, 2.0, 1.0]), [600, 400, 200]);
    jobs[0].original.cpu_weight = Some(CpuWeight::DEFAULT);
    assert_eq!(weights(&jobs, &[1.0, 1.0, 1.0]), [100, 400, 400], "free competition follows the original weights");
}

#[test]
fn io_weights_keep_their_sum() {
    let mut jobs = ["a", "b"].map(container);
    jobs.iter_mut().for_each(|job| job.original.io_weight = Some(500));
    let io: Vec<u16> = allocated(&jobs, &[3.0, 1.0]).iter().map(|a| a.io_weight).collect();
    assert_eq!(io, [750, 250]);
}

#[test]
fn no_io_weight_is_greater_than_what_every_kernel_keeps() {
    let jobs: Vec<ContainerObservation> = (0..40).map(|number| container(&number.to_string())).collect();
    let mut claims = vec![0.01; jobs.len()];
    claims[0] = 100.0;
    let io: Vec<u16> = allocated(&jobs, &claims).iter().map(|a| a.io_weight).collect();
    assert_eq!((io[0], io[1]), (1000, 1));
}

#[test]
fn each_parent_keeps_its_sum() {
    let mut jobs = ["a", "b", "c", "d"].map(container);
    for (job, parent) in jobs.iter_mut().zip(["/a.slice", "/b.slice", "/a.slice", "/b.slice"]) {
        std::sync::Arc::make_mut(&mut job.place).parent = Some(parent.into());
    }
    assert_eq!(weights(&jobs, &[0.9, 0.1, 0.3, 0.1]), [150, 100, 50, 100]);
    let shares: f64 = allocated(&jobs, &[0.9, 0.1, 0.3, 0.1]).iter().map(|a| a.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
}

#[test]
fn bounds_are_parts_of_the_node_even_if_the_domain_is_smaller() {
    let mut jobs = ["a", "b", "c"].map(container);
    for (job, cpus) in jobs.iter_mut().zip(["0", "0", "1"]) {
        std::sync::Arc::make_mut(&mut job.place).cpus = Some(cpus.parse().expect("a list"));
    }
    jobs[0].bounds.min = Share::clamped(0.4);
    let given = allocated(&jobs, &[0.001, 1.0, 1.0]);
    assert!((given[0].share - 0.4).abs() < 1e-9 && (given[1].share - 0.1).abs() < 1e-9, "{given:?}");
    assert_eq!(given.iter().map(|a| a.weight.number()).collect::<Vec<_>>(), [160, 40, 100]);
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
fn the_share_above_an_upper_bound_flows_to_the_others() {
    let mut jobs = ["a", "b", "c", "d"].map(container);
    jobs[0].bounds.max = Share::clamped(0.3);
    jobs[3].bounds.min = Share::clamped(0.2);
    let given = allocated(&jobs, &[1.0, 0.1, 0.1, 0.01]);
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
fn an_upper_bound_holds_for_a_single_container() {
    let mut job = container("a");
    job.bounds.max = Share::clamped(0.4);
    assert_eq!(weights(&[job], &[1.0]), [40]);
}

#[test]
fn a_held_container_keeps_its_weight_and_counts() {
    let mut jobs = ["a", "b", "c"].map(container);
    jobs[1].hold = Some(Hold::Foreign("cpu.weight".to_owned()));
    jobs[1].limits.cpu_weight = Some(CpuWeight::clamped(200.0));
    let given = allocated(&jobs, &[3.0, 7.0, 1.0]);
    assert_eq!(given.iter().map(|a| a.weight.number()).collect::<Vec<_>>(), [150, 200, 50]);
    assert!((given[1].share - 0.5).abs() < 1e-12 && (given[0].share - 0.375).abs() < 1e-12);
}

#[test]
fn a_frozen_container_takes_no_share() {
    let mut jobs = ["a", "b"].map(container);
    jobs[0].state = RunState::Paused;
    let given = allocated(&jobs, &[1.0, 1.0]);
    assert_eq!((given[0].share, given[1].share), (0.0, 1.0));
    assert_eq!(given[1].weight, CpuWeight::DEFAULT);
}
