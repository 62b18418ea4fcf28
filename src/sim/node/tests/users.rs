//! Parts of users on the virtual node: what each receives while all have work, and where unused parts go.

use super::{drawn, job, shape};
use crate::job::JobPlan;
use crate::node::{Keep, simulate};
use crate::outcome::Outcome;
use crate::random::Stream;
use crate::variant::Variant;
use model::{FairBetween, PolicySettings};
use proptest::prelude::*;

fn of(user: &str, job: JobPlan) -> JobPlan {
    JobPlan { user: Some(user.to_owned()), ..job }
}

fn run(cores: f64, fair_between: FairBetween, plans: &[JobPlan]) -> Outcome {
    let settings = PolicySettings { fair_between, ..PolicySettings::default() };
    let variant = Variant::named("balanced", &settings).unwrap();
    simulate(&shape(cores), &drawn(plans.to_vec()), &variant, Keep { history: true, ..Keep::default() })
}

/// The part of the node's CPU time that each user received from `from` on, until the first of them had no job left.
fn received(cores: f64, from: f64, plans: &[JobPlan], outcome: &Outcome, users: &[&str]) -> Vec<f64> {
    let is_of = |number: usize, user: &str| plans[number].user.as_deref() == Some(user);
    let last_end =
        |user: &&str| (0..plans.len()).filter(|&n| is_of(n, user)).map(|n| outcome.jobs[n].end_s).fold(0.0, f64::max);
    let until = users.iter().map(last_end).fold(f64::INFINITY, f64::min);
    let shares = &outcome.history.as_ref().expect("kept").shares;
    let mut received = vec![0.0; users.len()];
    for (at, (start, now)) in shares.iter().enumerate() {
        let end = shares.get(at + 1).map_or(until, |(next, _)| *next).min(until);
        let seconds = (end - start.max(from)).max(0.0);
        for (user, received) in users.iter().zip(&mut received) {
            *received += seconds * now.iter().enumerate().filter(|(n, _)| is_of(*n, user)).map(|(_, c)| c).sum::<f64>();
        }
    }
    received.into_iter().map(|core_s| core_s / cores / (until - from)).collect()
}

/// Ten trainings of alice and a long one of bob.
fn ten_against_one(seed: u64) -> Vec<JobPlan> {
    let mut draws = Stream::new(seed, 59);
    let mut plans: Vec<JobPlan> =
        (0..10).map(|_| of("alice", job(draws.uniform(0.0, 5.0), draws.uniform(80.0, 800.0), 4.0))).collect();
    plans.push(of("bob", job(0.0, 2000.0, 4.0)));
    plans.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    plans
}

#[test]
fn ten_jobs_against_one_have_half_within_two_points() {
    for seed in 0..20 {
        let plans = ten_against_one(seed);
        let users = ["alice", "bob"];
        let by_user = received(4.0, 5.0, &plans, &run(4.0, FairBetween::Users, &plans), &users);
        assert!((by_user[1] - 0.5).abs() < 0.02, "seed {seed}: {by_user:?}");
        let by_job = received(4.0, 5.0, &plans, &run(4.0, FairBetween::Jobs, &plans), &users);
        assert!(by_job[1] < 0.3, "seed {seed}: between jobs, bob has {by_job:?}");
    }
}

#[test]
fn the_unused_part_of_a_user_flows_to_the_others() {
    let plans = [of("alice", job(0.0, 100.0, 1.0)), of("bob", job(0.0, 300.0, 4.0)), of("bob", job(0.0, 300.0, 4.0))];
    let outcome = run(4.0, FairBetween::Users, &plans);
    assert!((outcome.jobs[0].end_s - 100.0).abs() < 1.0, "alice's job cannot use more than a core: {outcome:?}");
    assert!((outcome.makespan_s() - 175.0).abs() < 1.0, "no core was idle: {outcome:?}");
}

#[test]
fn a_shorter_job_comes_first_among_the_jobs_of_its_user_only() {
    let plans = [of("alice", job(0.0, 400.0, 4.0)), of("alice", job(0.0, 100.0, 4.0)), of("bob", job(0.0, 20.0, 4.0))];
    let ends: Vec<f64> = run(4.0, FairBetween::Users, &plans).jobs.iter().map(|job| job.end_s).collect();
    assert!(ends[2] < 13.0, "bob has half of four cores: {ends:?}");
    assert!(ends[1] < 50.0, "the shorter one of alice has nearly her whole part: {ends:?}");
}

fn any_plans() -> impl Strategy<Value = Vec<JobPlan>> {
    let any_job = (0..3usize, 0.0..30.0f64, 50.0..400.0f64);
    proptest::collection::vec(any_job, 2..10).prop_map(|mut jobs| {
        jobs.sort_by(|a, b| a.1.total_cmp(&b.1));
        jobs.into_iter().map(|(user, start, work)| of(["alice", "bob", "carol"][user], job(start, work, 4.0))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_below_their_part_while_they_have_work(plans in any_plans()) {
        let outcome = run(4.0, FairBetween::Users, &plans);
        let shares = &outcome.history.as_ref().expect("kept").shares;
        for (at, (from, cores)) in shares.iter().enumerate() {
            let until = shares.get(at + 1).map_or(*from, |(next, _)| *next);
            if until - from < 1e-3 {
                continue; // before the decision that follows a start or an end
            }
            let of_user = |user: &str| -> Vec<f64> {
                let own = plans.iter().zip(cores).zip(&outcome.jobs).filter(|((plan, _), job)| {
                    plan.user.as_deref() == Some(user) && job.start_s <= *from && job.end_s >= until
                });
                own.map(|((_, cores), _)| *cores).collect()
            };
            let parts: Vec<f64> =
                ["alice", "bob", "carol"].map(of_user).into_iter().filter(|own| !own.is_empty()).map(|own| own.iter().sum()).collect();
            let equal = 4.0 / parts.len() as f64;
            // All used less than a tenth of what they are credited with, so that past use changes little.
            prop_assert!(parts.iter().all(|part| *part > 0.88 * equal), "at {}: {:?}", from, parts);
        }
    }
}
