//! Jobs that a GPU limits: their work in GPU-seconds, and their rank on each GPU.
//!
//! Each job is limited by one resource. A unit of progress needs some seconds of its GPU, if the job has it alone, and some seconds of the
//! cores that the job is entitled to; the larger number decides. CPU with which it waits for the GPU does not count ([`GpuUsed`]): most
//! trainings use a whole core all the time. Cores that ungoverned neighbours use count there too: how many they would leave to a job that
//! wants more is unknown. A job limited by the CPU is ranked by CPU work among the jobs that compete for the same
//! cores. A job limited by a GPU has its equal share of the cores, so that its data loader does not starve, and no more, which would not
//! help it; it is ranked by GPU work among the jobs on the same GPU. The decision uses work, not current usage, so it does not change while
//! a job is frozen or delayed.
//!
//! This module only plans parts of the GPU's time; they are enforced elsewhere.

use super::milestone::{self, Measured, Prospect};
use super::reliability::Reliability;
use super::wait::LOOK_AGAIN;
use super::work::{Work, WorkMeter};
use super::{Candidate, Entry, Users, pool, sweep};
use crate::node::gpu_time::GpuUsed;
use crate::node::importance;
use model::{ContainerObservation, GpuPlan, GpuUse, Millis, NodeObservation, PolicySettings, Reason, RunState, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of a container on a GPU, kept between ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    meter: WorkMeter,
    /// Measures CPU beyond waiting.
    #[serde(default)]
    cpu: WorkMeter,
    #[serde(rename = "trust")]
    reliability: Reliability,
    /// GPU-seconds from the start to a good model, by the last forecast.
    good_at: Option<f64>,
}

impl Memory {
    /// Ranks the container on its GPU; `None` if the GPU does not limit it. `cores` are those that it is entitled to and can use.
    pub(super) fn rank(
        &mut self,
        container: &ContainerObservation,
        node: &NodeObservation,
        used: GpuUsed,
        cores: f64,
        settings: &PolicySettings,
    ) -> Option<Candidate> {
        let cpu = self.cpu.measure_of(node.now, container, used.cpu, None);
        let cpu_s = cpu.map_or(0.0, |work| work.per_unit / cores);
        let work = self.meter.measure_of(node.now, container, used.gpu, None).filter(|work| limits(work, cpu_s))?;
        self.good_at = milestone::good_at(&work, container, self.good_at);
        let deadline = container.deadline.map(|deadline| deadline.since(node.now).as_secs_f64());
        let (good_at, equal) = (self.good_at, entitled(container, node));
        let measured = Measured { container, work, good_at, behind: 0.0, deadline, cores: 1.0, equal };
        let milestone = Prospect::of(&measured, settings.objective).best()?;
        let reliability = self.reliability.after(&work, &milestone);
        Some(Candidate { is_measured: work.is_measured, ..Candidate::new(milestone, reliability, 1.0) })
    }
}

/// Whether a unit takes longer on the GPU than on the cores.
fn limits(work: &Work, cpu_s: f64) -> bool {
    work.is_measured && work.per_unit >= cpu_s
}

/// Returns the smallest part of one of its GPUs to which the container's weight entitles it.
fn entitled(container: &ContainerObservation, node: &NodeObservation) -> f64 {
    let own = importance(container);
    let part = |of: &GpuUse| {
        let uses = |other: &&ContainerObservation| {
            let is_on_it = other.gpus.iter().any(|part| (part.gpu, part.instance) == (of.gpu, of.instance));
            other.state == RunState::Running && other.id != container.id && is_on_it
        };
        own / (own + node.containers.iter().filter(uses).map(importance).sum::<f64>())
    };
    container.gpus.iter().map(part).fold(1.0, f64::min)
}

/// One GPU, or one instance of a partitioned GPU, and the containers that use it.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    gpu: u32,
    instance: Option<u32>,
    /// Their indices in the observation.
    members: Vec<usize>,
    /// Their parts of the GPU's time.
    given: Vec<f64>,
}

/// Hands out the indices of each sweep on each GPU by the results of its trials.
pub(super) fn hand_out_sweeps(node: &NodeObservation, entries: &mut [Entry<'_>]) {
    let mut by_gpu: BTreeMap<(u32, Option<u32>), Vec<&mut Candidate>> = BTreeMap::new();
    for (entry, container) in entries.iter_mut().zip(&node.containers) {
        if let (Some(candidate), Some(part)) = (entry.on_gpu.as_mut(), container.gpus.first()) {
            by_gpu.entry((part.gpu, part.instance)).or_default().push(candidate);
        }
    }
    by_gpu.into_values().for_each(|candidates| sweep::hand_out(candidates, pool::SHARPNESS));
}

/// Divides the time of each GPU among the running containers on it.
pub(super) fn contests(
    node: &NodeObservation,
    users: &Users,
    entries: &[Entry<'_>],
    settings: &PolicySettings,
) -> Vec<Contest> {
    let mut on_gpus: BTreeMap<(u32, Option<u32>), Vec<usize>> = BTreeMap::new();
    for (index, container) in node.containers.iter().enumerate().filter(|(_, c)| c.state == RunState::Running) {
        for part in &container.gpus {
            on_gpus.entry((part.gpu, part.instance)).or_default().push(index);
        }
    }
    let contest = |((gpu, instance), members): ((u32, Option<u32>), Vec<usize>)| {
        let weights: Vec<f64> = members.iter().map(|&index| importance(&node.containers[index])).collect();
        let all: f64 = weights.iter().sum();
        let mut entitled: Vec<f64> = weights.iter().map(|weight| weight / all).collect();
        let floor = settings.floor.fraction();
        users.divide(node, &members, &mut entitled, (floor, |_| false));
        let candidates: Vec<Option<&Candidate>> = members.iter().map(|&index| entries[index].on_gpu.as_ref()).collect();
        let usable = vec![1.0; members.len()];
        let of_users = (users, members.as_slice());
        let given = pool::divide_by_user(of_users, &candidates, &entitled, (floor, pool::SHARPNESS), &usable);
        Contest { gpu, instance, members, given }
    };
    on_gpus.into_iter().map(contest).collect()
}

impl Contest {
    /// Returns the plan of each member, with its index in the observation.
    pub(super) fn plans<'a>(&'a self, entries: &'a [Entry<'_>]) -> impl Iterator<Item = (usize, GpuPlan)> + 'a {
        let index_of = |index: usize| Some(entries[index].on_gpu.as_ref()?.milestone.log_index);
        let of = self.members.iter().filter_map(|&index| index_of(index)).count();
        self.members.iter().zip(&self.given).map(move |(&index, given)| {
            let better =
                |log_index: f64| self.members.iter().filter_map(|&o| index_of(o)).filter(move |o| *o > log_index);
            let rank = index_of(index).map(|log_index| 1 + better(log_index).count());
            let Contest { gpu, instance, .. } = *self;
            (index, GpuPlan { gpu, instance, share: Share::clamped(*given), rank, of })
        })
    }

    /// Time until the first member should be half way to its milestone.
    pub(super) fn wait(&self, entries: &[Entry<'_>]) -> Millis {
        let work = |index: usize| Some(entries[index].on_gpu.as_ref()?.milestone.work);
        let times = self.members.iter().zip(&self.given).filter_map(|(&index, given)| Some(work(index)? / given));
        let seconds = times.fold(f64::INFINITY, f64::min);
        Millis((LOOK_AGAIN * seconds * 1000.0).clamp(0.0, u64::MAX as f64) as u64)
    }
}

/// The reason for the share of a job that its GPU limits.
pub(super) fn reason(candidate: &Candidate, plans: &[GpuPlan]) -> Reason {
    let plan = plans.iter().max_by_key(|plan| plan.rank);
    Reason::RankedOnGpu {
        gpu: plan.map_or(0, |plan| plan.gpu),
        milestone: candidate.milestone.name.into(),
        work: candidate.milestone.work,
        rank: plan.and_then(|plan| plan.rank).unwrap_or(1),
        of: plan.map_or(1, |plan| plan.of),
    }
}

#[cfg(test)]
mod tests {
    use crate::node::balanced::testing::{Bench, job};
    use model::{ContainerObservation, CpuTime, Direction, GpuUse, Millis, Reason, Trial};

    /// A job that uses nine tenths of a GPU's time and does 20 units per interval.
    fn on_gpu(id: &str, done: f64, total: f64, gpu: u32) -> ContainerObservation {
        let mut job = job(id, done, Some(total), None);
        job.gpus = vec![GpuUse { gpu, share: Some(0.9), ..GpuUse::default() }];
        job
    }

    /// The same job 20 units later, after so many more CPU-seconds.
    fn later(before: &ContainerObservation, total: f64, cpu_s: f64) -> ContainerObservation {
        let done = before.learning.progress.map_or(0.0, |progress| progress.current);
        let mut later = job(before.name.as_str(), done + 20.0, Some(total), None);
        later.usage.cpu = before.usage.cpu.map(|cpu| CpuTime(cpu.0 + (cpu_s * 1e6) as u64));
        let (id, gpus, trial) = (before.id.clone(), before.gpus.clone(), before.trial.clone());
        later.learning.metric.clone_from(&before.learning.metric);
        later.learning.direction = before.learning.direction;
        ContainerObservation { id, gpus, trial, deadline: before.deadline, ..later }
    }

    /// The GPU, the rank on it, and the number of ranked jobs.
    type Rank = (u32, usize, usize);

    fn ranks(jobs: &[(ContainerObservation, f64, f64)]) -> (Vec<Option<Rank>>, Vec<f64>) {
        let mut bench = Bench::new(1.0, jobs.iter().map(|(job, ..)| job.clone()).collect());
        bench.tick();
        for (index, (job, total, cpu_s)) in jobs.iter().enumerate() {
            bench.advance(index, later(job, *total, *cpu_s));
        }
        let plan = bench.tick();
        let rank = |reason: &Reason| match reason {
            Reason::RankedOnGpu { gpu, rank, of, .. } => Some((*gpu, *rank, *of)),
            _ => None,
        };
        let shares = plan.containers.iter().map(|planned| (planned.share.fraction() * 100.0).round() / 100.0).collect();
        (plan.containers.iter().map(|planned| rank(&planned.reason)).collect(), shares)
    }

    #[test]
    fn jobs_on_one_gpu_are_ranked_there_and_have_equal_shares_of_the_cores() {
        let jobs = [
            (on_gpu("a", 100.0, 900.0, 0), 900.0, 2.0),
            (on_gpu("b", 100.0, 200.0, 0), 200.0, 2.0),
            (on_gpu("c", 100.0, 900.0, 1), 900.0, 2.0),
        ];
        let (ranks, shares) = ranks(&jobs);
        assert_eq!(ranks, [Some((0, 2, 2)), Some((0, 1, 2)), Some((1, 1, 1))]);
        assert_eq!(shares, [0.33, 0.33, 0.33]);
    }

    #[test]
    fn trials_of_a_sweep_are_ranked_on_their_gpu_by_their_results() {
        let trial = |id: &str, total: f64, loss: f64| {
            let mut job = on_gpu(id, 100.0, total, 0);
            (job.learning.metric, job.learning.direction) = (Some("loss".to_owned()), Some(Direction::Down));
            let curve = [(1.0, 1.0), (100.0, loss), (200.0, loss)];
            job.trial = Some(Trial::new("sweep".into(), curve.into()));
            (job, total, 2.0)
        };
        let jobs = [trial("a", 900.0, 0.3), trial("b", 900.0, 0.1), trial("c", 900.0, 0.2)];
        assert_eq!(ranks(&jobs).0, [Some((0, 3, 3)), Some((0, 1, 3)), Some((0, 2, 3))]);
    }

    #[test]
    fn a_deadline_that_an_equal_part_of_the_gpu_does_not_meet_comes_first() {
        let ranks_with = |deadline: Option<Millis>| {
            let mut jobs = [
                (on_gpu("a", 100.0, 1000.0, 0), 1000.0, 2.0),
                (on_gpu("b", 100.0, 700.0, 0), 700.0, 2.0),
                (on_gpu("c", 100.0, 700.0, 0), 700.0, 2.0),
            ];
            jobs[0].0.deadline = deadline;
            ranks(&jobs).0
        };
        assert_eq!(ranks_with(None)[0], Some((0, 3, 3)));
        // 880 units of 0.9 GPU-seconds are left, and the last tick is at 60 s.
        assert_eq!(ranks_with(Some(Millis::from_secs(900)))[0], Some((0, 1, 3)));
        assert_eq!(ranks_with(Some(Millis::from_secs(700)))[0], Some((0, 3, 3)), "the whole GPU would not be enough");
        assert_eq!(ranks_with(Some(Millis::from_secs(1_000_000)))[0], Some((0, 3, 3)), "there is time enough");
    }

    #[test]
    fn jobs_that_wait_for_their_gpu_are_ranked_there_while_neighbours_use_all_cores() {
        let mut bench = Bench::new(1.0, ["a", "b"].map(|id| on_gpu(id, 100.0, 900.0, 0)).to_vec());
        bench.node.idle = vec![CpuTime(0); 2];
        for _ in 0..8 {
            for index in 0..2 {
                let job = later(&bench.node.containers[index], 900.0, 2.0);
                bench.advance(index, job);
            }
            bench.tick();
        }
        let plan = bench.tick();
        let is_on_gpu = |reason: &Reason| matches!(reason, Reason::RankedOnGpu { of: 2, .. });
        assert!(plan.containers.iter().all(|planned| is_on_gpu(&planned.reason)), "{plan:?}");
    }

    #[test]
    fn a_job_that_keeps_a_core_busy_while_it_waits_for_its_gpu_is_ranked_there() {
        let mut jobs = [(on_gpu("a", 100.0, 900.0, 0), 900.0, 20.0), (on_gpu("b", 100.0, 200.0, 0), 200.0, 20.0)];
        for (job, ..) in &mut jobs {
            job.gpus[0].processes = 1;
        }
        assert_eq!(ranks(&jobs).0, [Some((0, 2, 2)), Some((0, 1, 2))]);
    }

    #[test]
    fn a_job_limited_by_the_cpu_is_ranked_by_cpu_work_even_if_it_uses_a_gpu() {
        let jobs = [(on_gpu("a", 100.0, 900.0, 0), 900.0, 20.0), (on_gpu("b", 100.0, 200.0, 0), 200.0, 20.0)];
        let (ranks, shares) = ranks(&jobs);
        assert_eq!(ranks, [None, None]);
        assert!(shares[1] > 0.8, "{shares:?}");
    }
}
