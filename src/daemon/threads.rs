//! The threads of jobs that compete for CPU: how many want to run, how long they wait for a processor, and how often they switch. Evidence
//! for people; nothing is decided by it.
//!
//! Two files are read for each thread, so a limited number of threads is watched at a time: jobs come one after another. A reading that
//! ends the window of a job also begins its next one.

use super::job::{Job, Jobs};
use cgroup::ThreadReading;
use model::{ContainerId, Millis, RunState};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Time between two readings of a job: long beside the kernel's balancing.
const WINDOW: Millis = Millis::from_secs(10);

/// No further job is watched at the same time once there are so many threads.
const THREADS_ENOUGH: usize = 128;

/// The jobs that are watched now.
#[derive(Debug, Default)]
pub(super) struct Threads {
    since: Millis,
    watched: Vec<(ContainerId, ThreadReading)>,
}

impl Threads {
    /// Reads the watched jobs again if the last reading is old enough, then the next ones.
    pub(super) fn look(&mut self, now: Millis, jobs: &mut Jobs) {
        self.watch(now, jobs, THREADS_ENOUGH);
    }

    fn watch(&mut self, now: Millis, jobs: &mut Jobs, enough: usize) {
        let passed = now.since(self.since);
        if passed < WINDOW {
            return;
        }
        let after = self.watched.last().map_or_else(|| ContainerId::new(""), |(id, _)| id.clone());
        let mut readings = BTreeMap::new();
        for (id, before) in self.watched.drain(..) {
            let Some(job) = jobs.get_mut(&id) else { continue };
            let reading = job.target.cgroup().threads();
            job.threads = reading.since(&before, passed.as_secs_f64());
            readings.insert(id, reading);
        }
        jobs.values_mut().filter(|job| !competes(job)).for_each(|job| job.threads = None);
        self.since = now;
        let mut count = 0;
        let in_turn = jobs.range((Bound::Excluded(&after), Bound::Unbounded)).chain(jobs.range(..=&after));
        for (id, job) in in_turn.filter(|(_, job)| competes(job)) {
            let reading = readings.remove(id).unwrap_or_else(|| job.target.cgroup().threads());
            count += reading.count();
            self.watched.push((id.clone(), reading));
            if count >= enough {
                break;
            }
        }
    }
}

/// Whether it runs and another job may run on its processors.
fn competes(job: &Job) -> bool {
    let has_others = job.plan.as_ref().is_some_and(|plan| plan.contention.containers > 1);
    has_others && job.state == RunState::Running && job.frozen.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeCgroup, id};
    use model::{ContainerPlan, Contention, GrowthEfficiency, Reason, Runtime, Share};

    /// A job beside so many others, whose process is this one.
    fn job(number: u8, others: usize, folder: &FakeCgroup) -> (ContainerId, Box<Job>) {
        let target = folder.target(id(number), "job", Runtime::Scope);
        let mut job = Job::new(target, None, &BTreeMap::new());
        job.plan = Some(ContainerPlan {
            id: id(number),
            list: None,
            contention: Contention { containers: 1 + others, ..Contention::default() },
            growth: GrowthEfficiency::default(),
            limit: Share::ALL,
            share: Share::ALL,
            limits: None,
            gpus: Vec::new(),
            reason: Reason::Unranked,
        });
        (id(number), Box::new(job))
    }

    #[test]
    fn jobs_that_compete_are_watched_one_after_another() {
        let folder = FakeCgroup::new();
        let mut jobs: Jobs =
            [(1, 1), (2, 1), (3, 0), (4, 1)].map(|(number, others)| job(number, others, &folder)).into();
        let mut threads = Threads::default();
        let mut known = |second: u64, enough: usize, jobs: &mut Jobs| -> Vec<bool> {
            threads.watch(Millis::from_secs(second), jobs, enough);
            jobs.values().map(|job| job.threads.is_some()).collect()
        };
        assert_eq!(known(100, 1, &mut jobs), [false; 4], "one reading says nothing");
        assert_eq!(known(105, 1, &mut jobs), [false; 4], "too early");
        assert_eq!(known(110, 1, &mut jobs), [true, false, false, false]);
        assert_eq!(known(120, 1, &mut jobs), [true, true, false, false]);
        assert_eq!(known(130, 1, &mut jobs), [true, true, false, true], "the third one competes with nobody");
        jobs.get_mut(&id(4)).unwrap().state = RunState::Paused;
        assert_eq!(known(140, usize::MAX, &mut jobs), [true, true, false, false]);
    }
}
