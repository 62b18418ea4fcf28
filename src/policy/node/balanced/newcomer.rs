//! Newcomers: jobs that have just started and of whose work nothing is known yet.
//!
//! With an equal share its threads and those of the other jobs would wait for each other. So where jobs waste CPU in this way, a newcomer
//! is ranked as if it needed [`CPU_S`] CPU-seconds, for as long: it soon prints how much work it has, or ends. Of several newcomers the one
//! that started first comes first. A newcomer contributes nothing: what is not known about a job takes nothing from it.
//!
//! Elsewhere newcomers have equal shares: in simulation, good models come later if they do not (`config/scenarios/unseen.toml`: 5 % instead
//! of 9 % sooner than under plain sharing).
//!
//! A container that its engine restarts is not a newcomer again: one that crashes at each start would come first for ever.

use super::candidate::Candidate;
use super::milestone::Milestone;
use crate::node::importance;
use model::{ContainerObservation, Estimate, FIRST_REPORTS, Millis};
use serde::{Deserialize, Serialize};

/// A job is a newcomer until it has used so many CPU-seconds: most print something by then.
const CPU_S: f64 = 4.0;

/// And for no longer than this.
const FOR: Millis = Millis::from_secs(30);

/// Increase of the logarithm of the index per second since the start, so that of several newcomers the first one has nearly everything.
const PER_SECOND: f64 = 0.05;

/// The first start of one container that was seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Newcomer {
    started: Option<Millis>,
}

impl Newcomer {
    /// Returns the candidate of a running job whose work is unknown, if it is a newcomer; `usable` are the cores that it can use.
    pub(super) fn candidate(&mut self, now: Millis, job: &ContainerObservation, usable: f64) -> Option<Candidate> {
        let is_first_run = *self.started.get_or_insert(job.started) == job.started;
        let (age, used) = (now.since(job.started), job.usage.cpu?.as_secs_f64());
        if !is_first_run || age >= FOR || used >= CPU_S {
            return None;
        }
        let milestone = Milestone {
            name: FIRST_REPORTS,
            work: CPU_S - used,
            log_index: (importance(job) / CPU_S).ln() + PER_SECOND * age.as_secs_f64(),
            confidence: 0.0,
            to_end: Estimate::exactly(CPU_S - used),
        };
        Some(Candidate { may_wait: false, ..Candidate::new(milestone, 1.0, usable) })
    }
}

#[cfg(test)]
mod tests {
    use crate::node::balanced::testing::{Bench, INTERVAL, job, ranked};
    use crate::node::testing::container;
    use model::{ContainerObservation, CpuTime, Millis, Reason};

    /// A job that will have run for `age` and used `cpu` seconds at the next tick.
    fn starting(id: &str, bench: &Bench, age: u64, cpu: u64) -> ContainerObservation {
        let mut job = container(id);
        job.started = Millis(bench.node.now.after(INTERVAL).0 - 1000 * age);
        job.usage.cpu = Some(CpuTime(cpu * 1_000_000));
        job
    }

    /// A job that wastes CPU beside another one of which nothing is known, and these newcomers, by age and CPU-seconds.
    fn beside_a_wasteful_job(newcomers: &[(u64, u64)]) -> Bench {
        beside(3.0, newcomers)
    }

    /// The same with a job whose units cost this multiple beside others.
    fn beside(waste: f64, newcomers: &[(u64, u64)]) -> Bench {
        let mut bench = Bench::new(1.0, vec![job("ranked", 100.0, Some(500.0), Some(0.0))]);
        bench.tick(); // in its turn
        bench.node.containers.push(container("unknown"));
        bench.advance(0, job("ranked", 120.0, Some(500.0), Some(0.0)));
        bench.tick();
        let mut ranked = job("ranked", 130.0, Some(500.0), Some(0.0));
        ranked.usage.cpu = Some(CpuTime(((120.0 + 10.0 * waste) * 1e6) as u64));
        bench.advance(0, ranked);
        for (number, &(age, cpu)) in newcomers.iter().enumerate() {
            let newcomer = starting(&format!("new-{number}"), &bench, age, cpu);
            bench.node.containers.push(newcomer);
        }
        bench
    }

    #[test]
    fn where_jobs_waste_cpu_a_new_job_comes_first_for_its_first_cpu_seconds() {
        let mut bench = beside_a_wasteful_job(&[(2, 1)]);
        let plan = bench.tick();
        assert_eq!(ranked(&plan, 2), ("first reports".to_owned(), 3.0, 1));
        let shares = [0, 1, 2].map(|at| (plan.containers[at].share.fraction() * 100.0).round());
        assert_eq!(shares, [3.0, 33.0, 63.0], "the ranked job keeps the floor, the unknown one its equal share");
        for (age, cpu, why) in [(2, 4, "it has used enough"), (30, 1, "it is not new any more")] {
            let plan = beside_a_wasteful_job(&[(age, cpu)]).tick();
            assert_eq!(plan.containers[2].reason, Reason::Unranked, "{why}");
        }
        assert_eq!(beside(1.2, &[(2, 1)]).tick().containers[2].reason, Reason::Unranked, "nobody wastes CPU");
    }

    #[test]
    fn of_several_new_jobs_the_first_one_draws_and_none_has_less_than_an_equal_share() {
        assert_eq!(beside_a_wasteful_job(&[(2, 1), (5, 1)]).shares(), [0.02, 0.25, 0.25, 0.47]);
    }

    #[test]
    fn a_container_that_its_engine_restarted_is_not_new() {
        let mut bench = beside_a_wasteful_job(&[(2, 1)]);
        bench.tick();
        let again = starting("new-0", &bench, 2, 1);
        bench.advance(2, again);
        assert_eq!(bench.tick().containers[2].reason, Reason::Unranked);
    }
}
