//! Parts of users: by weight and use, and as sums of their jobs' shares whatever the jobs report.

use super::{LEAST_FACTOR, USE_OF_ALL, claims};
use crate::node::balanced::testing::{INTERVAL, job};
use crate::node::testing::{container, node};
use crate::{Governor, check};
use model::{
    Condition, ContainerObservation, FairBetween, GpuUse, NOBODY, NodeObservation, NodePlan, PolicySettings, RunState,
    Share, UserObservation,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;

fn user(name: &str, weight: f64, used: f64) -> UserObservation {
    UserObservation { name: name.to_owned(), weight, used }
}

fn of(user: &str, job: ContainerObservation) -> ContainerObservation {
    ContainerObservation { user: Some(Arc::from(user)), ..job }
}

/// The last of several plans for jobs that do 20 units of one CPU-second per interval.
fn planned(mut node: NodeObservation) -> NodePlan {
    let settings =
        PolicySettings { fair_between: FairBetween::Users, floor: Share::clamped(0.1), ..PolicySettings::default() };
    let mut governor = Governor::new(settings);
    let mut plan = governor.tick(&node);
    for _ in 0..3 {
        node.now = node.now.after(INTERVAL);
        for container in &mut node.containers {
            if let Some(cpu) = &mut container.usage.cpu {
                cpu.0 += 20_000_000;
            }
            if let Some(progress) = &mut container.learning.progress {
                progress.current += 20.0;
                progress.at = node.now;
            }
        }
        plan = governor.tick(&node);
        assert_eq!(check(&plan, &node), []);
    }
    plan
}

/// The sum of the shares of a user's jobs.
fn part(plan: &NodePlan, node: &NodeObservation, user: Option<&str>) -> f64 {
    let own = plan.containers.iter().zip(&node.containers).filter(|(_, job)| job.user.as_deref() == user);
    own.map(|(planned, _)| planned.share.fraction()).sum()
}

#[test]
fn ten_jobs_of_one_user_have_as_much_as_one_job_of_another() {
    let many = (0..10).map(|n| of("alice", job(&format!("a{n}"), 100.0, Some(300.0 + 50.0 * f64::from(n)), None)));
    let node = node(many.chain([of("bob", job("b", 100.0, Some(5000.0), None))]).collect());
    let plan = planned(node.clone());
    assert!((part(&plan, &node, Some("bob")) - 0.5).abs() < 0.002, "{plan:?}");
    let shares: Vec<f64> = plan.containers.iter().map(|planned| planned.share.fraction()).collect();
    assert!(shares[0] > 4.0 * shares[9], "inside a part, the shortest job comes first: {shares:?}");
    assert!(shares[9] > 0.004, "and the longest keeps the floor of an equal share: {shares:?}");
}

#[test]
fn a_user_of_weight_three_has_three_parts() {
    let mut node = node(vec![of("alice", container("a")), of("bob", container("b")), of("bob", container("c"))]);
    node.users = vec![user("bob", 3.0, 0.0)];
    assert!((part(&planned(node.clone()), &node, Some("bob")) - 0.75).abs() < 0.005);
}

#[test]
fn jobs_of_nobody_count_as_those_of_one_user() {
    let mut nobodys: Vec<ContainerObservation> = (0..5).map(|n| container(&format!("n{n}"))).collect();
    nobodys.push(of("bob", container("z")));
    let mut node = node(nobodys);
    assert!((part(&planned(node.clone()), &node, None) - 0.5).abs() < 0.005);
    node.users = vec![user(NOBODY, 0.25, 0.0)];
    assert!((part(&planned(node.clone()), &node, None) - 0.2).abs() < 0.005, "and may have a weight");
}

#[test]
fn who_used_more_yields_but_keeps_a_quarter_of_what_the_weight_gives() {
    let after = |used: [f64; 2]| {
        let users = [user("alice", 1.0, used[0]), user("bob", 1.0, used[1])];
        let claims = claims(&[Some(&users[0]), Some(&users[1])], &[true, true], USE_OF_ALL);
        claims[0] / (claims[0] + claims[1])
    };
    assert!((after([0.0, 0.0]) - 0.5).abs() < 1e-9);
    assert!((after([1e6, 1e6]) - 0.5).abs() < 1e-9, "equal use");
    assert!(after([60.0, 0.0]) > 0.49, "the first minutes of a new node decide nothing");
    assert!((0.30..0.40).contains(&after([USE_OF_ALL, 0.0])), "{}", after([USE_OF_ALL, 0.0]));
    assert!((0.2..0.21).contains(&after([1e9, 0.0])), "{}", after([1e9, 0.0]));
    let absurd = after([f64::NAN, f64::INFINITY]);
    assert!((absurd - 0.5).abs() < 1e-9, "{absurd}");
    let many: Vec<UserObservation> = (0..20).map(|n| user("u", 1.0, if n == 0 { 1e9 } else { 0.0 })).collect();
    let many: Vec<Option<&UserObservation>> = many.iter().map(Some).collect();
    let claims = claims(&many, &[true; 20], USE_OF_ALL);
    assert!((claims[0] - LEAST_FACTOR).abs() < 1e-9 && claims[1] <= 1.0, "{claims:?}");
}

#[test]
fn only_users_with_running_jobs_are_compared() {
    let users = [user("alice", 1.0, 3600.0), user("bob", 1.0, 3600.0), user("carol", 1.0, 1e9)];
    let known: Vec<Option<&UserObservation>> = users.iter().map(Some).collect();
    let claims = claims(&known, &[true, true, false], 0.0);
    assert!((claims[0] - 0.5).abs() < 1e-9 && claims[0] == claims[1], "{claims:?}");
}

#[test]
fn the_time_of_a_gpu_is_divided_between_users_too() {
    let on_gpu = |user: &str, id: &str| ContainerObservation {
        gpus: vec![GpuUse { gpu: 0, share: Some(0.2), ..GpuUse::default() }],
        ..of(user, container(id))
    };
    let jobs = ["a", "b", "c"].map(|id| on_gpu("alice", id)).into_iter().chain([on_gpu("bob", "d")]);
    let plan = planned(node(jobs.collect()));
    let parts: Vec<f64> = plan.containers.iter().map(|planned| planned.gpus[0].share.fraction()).collect();
    assert!((parts[3] - 0.5).abs() < 1e-9 && (parts[0] - 0.5 / 3.0).abs() < 1e-9, "{parts:?}");
}

#[test]
fn a_broken_job_keeps_the_floor_within_its_users_part_and_a_user_with_no_other_job_keeps_only_the_floor() {
    let broken = |id: &str| {
        let mut job = container(id);
        job.health.condition = Condition::Nan;
        job
    };
    let one = node(vec![of("alice", broken("a")), of("alice", container("b")), of("bob", container("c"))]);
    let plan = planned(one.clone());
    assert!((part(&plan, &one, Some("bob")) - 0.5).abs() < 0.005);
    assert!((plan.containers[0].share.fraction() - 0.025).abs() < 0.005, "a tenth of a quarter");
    let all = node(vec![of("alice", broken("a")), of("alice", broken("b")), of("bob", container("c"))]);
    assert!((part(&planned(all.clone()), &all, Some("bob")) - 0.95).abs() < 0.005);
}

prop_compose! {
    fn any_job()(
        user in option::weighted(0.8, 0..3usize),
        (done, total) in (40.0..500.0f64, option::of(600.0..5000.0f64)),
        (weight, is_frozen) in (0.1..10.0f64, prop::bool::weighted(0.1)),
        is_silent in prop::bool::weighted(0.2),
    ) -> (Option<usize>, ContainerObservation) {
        let mut job = if is_silent { container("") } else { job("", done, total, None) };
        job.weight = weight;
        job.state = if is_frozen { RunState::Paused } else { RunState::Running };
        (user, job)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_jobs_of_each_user_have_the_users_part_whatever_they_report(
        jobs in vec(any_job(), 1..12),
        weights in prop::array::uniform3(0.5..4.0f64),
        used in prop::array::uniform3(0.0..1e6f64),
    ) {
        // A weight is a whole number; here 100 for each job on average.
        const ROUNDING: f64 = 0.012;
        const NAMES: [&str; 3] = ["alice", "bob", "carol"];
        let named = jobs.into_iter().enumerate().map(|(number, (user, mut job))| {
            job.id = model::ContainerId::new(&format!("{number:02}"));
            job.user = user.map(|user| Arc::from(NAMES[user]));
            job
        });
        let mut node = node(named.collect());
        node.cores = 16.0;
        node.users = NAMES.iter().zip(weights.iter().zip(used)).map(|(name, (weight, used))| user(name, *weight, used)).collect();
        let plan = planned(node.clone());
        let runs = |of: Option<&str>| node.containers.iter().any(|job| job.user.as_deref() == of && job.state == RunState::Running);
        let weight_of = |of: Option<&str>| of.map_or(1.0, |name| weights[NAMES.iter().position(|known| *known == name).expect("known")]);
        let present: Vec<Option<&str>> = [None].into_iter().chain(NAMES.map(Some)).filter(|of| runs(*of)).collect();
        let all: f64 = present.iter().map(|of| weight_of(*of)).sum();
        for of in &present {
            let part = part(&plan, &node, *of);
            prop_assert!(part >= LEAST_FACTOR * weight_of(*of) / all - ROUNDING, "{:?} has {}", of, part);
            let only = present.len() == 1;
            prop_assert!(!only || part > 0.99, "who is alone has everything: {}", part);
        }
        // With equal use, only weights count.
        node.users.iter_mut().for_each(|user| user.used = 0.0);
        let plan = planned(node.clone());
        for of in &present {
            let (part, entitled) = (part(&plan, &node, *of), weight_of(*of) / all);
            prop_assert!((part - entitled).abs() < ROUNDING, "{:?} has {} of {}", of, part, entitled);
        }
    }
}
