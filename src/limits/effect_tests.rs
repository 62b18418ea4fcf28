//! The effect of CPU weights, judged on a machine whose scheduler is known.

use super::effect::EffectMeter;
use model::{Bytes, ContainerId, ContainerObservation, CpuTime, CpuWeight, Millis, Place, Quota};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job: weight, threads that can run, and the cores it gets each second.
#[derive(Clone, Debug)]
struct Job {
    weight: f64,
    threads: f64,
    used: f64,
    quota: Option<f64>,
}

fn job(weight: f64, threads: f64, used: f64) -> Job {
    Job { weight, threads, used, quota: None }
}

/// Jobs below one parent over time, on a kernel with or without pressure by cgroup.
struct Machine {
    meter: EffectMeter,
    seconds: u64,
    cpu: Vec<f64>,
    waited: Vec<f64>,
    asked: BTreeMap<ContainerId, usize>,
    has_pressure: bool,
}

impl Machine {
    fn new(has_pressure: bool) -> Machine {
        let (cpu, waited) = (vec![0.0; 200], vec![0.0; 200]);
        Machine { meter: EffectMeter::default(), seconds: 100, cpu, waited, asked: BTreeMap::new(), has_pressure }
    }

    fn run(&mut self, seconds: u64, jobs: &[Job]) -> &mut Machine {
        for _ in 0..seconds / 2 {
            self.seconds += 2;
            let waiting: Vec<f64> = jobs.iter().map(|job| (job.threads - job.used).max(0.0)).collect();
            for (at, job) in jobs.iter().enumerate() {
                self.cpu[at] += 2.0 * job.used;
                self.waited[at] += 2.0 * waiting[at];
            }
            let place = Arc::new(Place { cpus: "0-3".parse().ok(), parent: Some("/jobs".into()), ..Place::default() });
            let seen = |(at, job): (usize, &Job)| {
                let mut seen = ContainerObservation::new(&format!("{at}"));
                seen.place = Arc::clone(&place);
                seen.limits.cpu_weight = Some(CpuWeight::clamped(job.weight));
                seen.limits.cpu_quota = Some(job.quota.map(|cores| Quota((cores * 1000.0) as u64)));
                seen.usage.cpu = Some(CpuTime((self.cpu[at] * 1e6) as u64));
                seen.usage.memory = Some(Bytes(1));
                seen.usage.pressure.cpu = self.has_pressure.then(|| waiting[at].min(1.0));
                seen
            };
            let seen: Vec<ContainerObservation> = jobs.iter().enumerate().map(seen).collect();
            let (waited, asked) = (&self.waited, &mut self.asked);
            self.meter.look(Millis::from_secs(self.seconds), seen.iter(), |id| {
                *asked.entry(id.clone()).or_default() += 1;
                Some(CpuTime((waited[id.as_str().parse::<usize>().unwrap()] * 1e6) as u64))
            });
        }
        self
    }

    fn deprived(&self) -> Option<&str> {
        self.meter.problem().map(|problem| problem.deprived.id.as_str())
    }
}

/// The division by weight, for what each job can use at most.
fn divided(capacity: f64, mut jobs: Vec<Job>) -> Vec<Job> {
    let claims: Vec<_> = jobs
        .iter()
        .map(|job| model::sharing::Claim {
            weight: job.weight,
            cap: job.threads.min(job.quota.unwrap_or(f64::INFINITY)),
        })
        .collect();
    let mut shares = Vec::new();
    model::sharing::water_fill(capacity, &claims, &mut shares);
    for (job, share) in jobs.iter_mut().zip(shares) {
        job.used = share;
    }
    jobs
}

#[test]
fn equal_shares_in_spite_of_unequal_weights_are_told_within_two_minutes() {
    for has_pressure in [true, false] {
        let mut machine = Machine::new(has_pressure);
        let ignored = [job(1000.0, 4.0, 2.0), job(100.0, 4.0, 2.0)];
        assert_eq!(machine.run(40, &ignored).deprived(), None, "too short to judge");
        let problem = machine.run(80, &ignored).meter.problem().expect("no effect").clone();
        assert_eq!((problem.deprived.weight, problem.deprived.used), (1000, 2.0));
        assert_eq!((problem.favoured.name.as_str(), problem.favoured.used), ("1", 2.0));
        assert!(problem.deprived.due > 2.8 && machine.meter.effect().is_some_and(|effect| effect.abs() < 0.05));
    }
}

#[test]
fn a_job_that_takes_everything_at_a_low_weight_is_named() {
    let mut machine = Machine::new(false);
    let taken = [job(1000.0, 2.0, 0.1), job(500.0, 1.0, 0.1), job(10.0, 4.0, 3.8)];
    let problem = machine.run(120, &taken).meter.problem().expect("no effect").clone();
    assert_eq!((problem.deprived.id.as_str(), problem.favoured.id.as_str()), ("0", "2"));
    assert!(machine.asked.keys().all(|id| id.as_str() != "2"), "it does not wait");
}

#[test]
fn a_problem_ends_when_weights_decide_again_or_nothing_is_known_for_long() {
    let ignored = [job(1000.0, 4.0, 2.0), job(100.0, 4.0, 2.0)];
    let honoured = divided(4.0, ignored.to_vec());
    let mut machine = Machine::new(true);
    assert!(machine.run(120, &ignored).deprived().is_some());
    assert_eq!(machine.run(240, &honoured).deprived(), None);
    assert!(machine.run(240, &ignored).deprived().is_some(), "again");
    assert!(machine.run(300, &ignored[..1]).deprived().is_some(), "alone, weights say nothing");
    assert_eq!(machine.run(400, &ignored[..1]).deprived(), None);
}

#[test]
fn who_does_not_wait_or_may_not_run_more_is_not_deprived() {
    // It waits for data, for its quota, or has one thread.
    let modest = [job(1000.0, 0.5, 0.5), job(100.0, 4.0, 3.5)];
    assert_eq!(Machine::new(true).run(600, &modest).deprived(), None);
    let single = [job(1000.0, 1.0, 1.0), job(100.0, 4.0, 3.0)];
    assert_eq!(Machine::new(false).run(600, &single).deprived(), None);
    let quota = [Job { quota: Some(0.5), ..job(1000.0, 4.0, 0.5) }, job(100.0, 4.0, 3.5)];
    assert_eq!(Machine::new(true).run(600, &quota).deprived(), None);
}

#[test]
fn few_jobs_are_asked_thread_by_thread_and_none_that_received_its_part() {
    let mut machine = Machine::new(false);
    let idle: Vec<Job> = (0..100).map(|_| job(100.0, 0.0, 0.0)).chain([job(100.0, 4.0, 4.0)]).collect();
    machine.run(600, &idle);
    assert_eq!((machine.deprived(), machine.asked.len()), (None, 4));
    assert!(machine.asked.values().all(|times| *times <= 60), "once in ten seconds: {:?}", machine.asked);
    let mut healthy = Machine::new(false);
    healthy.run(600, &divided(4.0, vec![job(1000.0, 4.0, 0.0), job(100.0, 4.0, 0.0)]));
    assert!(healthy.asked.is_empty() && healthy.meter.effect().is_none_or(|effect| effect > 0.99));
}

proptest! {
    #[test]
    fn a_kernel_that_divides_by_weight_is_never_accused(
        phases in prop::collection::vec(
            prop::collection::vec((1.0f64..10_000.0, 0.0f64..8.0, prop::option::of(0.1f64..4.0)), 2..9), 1..5),
        capacity in 0.3f64..8.0,
        noise in prop::collection::vec(0.9f64..1.0, 9),
        has_pressure: bool,
    ) {
        let mut machine = Machine::new(has_pressure);
        for jobs in phases {
            let jobs = jobs.into_iter().map(|(weight, threads, quota)| Job { weight: weight.round(), threads, used: 0.0, quota });
            let mut jobs = divided(capacity, jobs.collect());
            jobs.iter_mut().zip(&noise).for_each(|(job, noise)| job.used *= noise);
            prop_assert_eq!(machine.run(200, &jobs).deprived(), None, "{:?}", jobs);
        }
    }
}
