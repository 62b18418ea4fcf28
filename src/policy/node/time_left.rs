//! The time that each job needs to its end, as the plan will develop: what is left of a job decides about its share, and its share about how
//! long it takes; when one ends, the others get more.
//!
//! A fluid model: each job has work left and can use so many cores. The present shares hold at first; from then on the cores are divided as
//! the policy would divide them for what is left by then. Jobs of unknown length keep an equal share for ever. Jobs that start later are
//! unknown, and so is much about those that run, so the range is wide: [`range`] was measured (`flowsim forecasts random-10`).

use super::balanced::SHARPNESS;
use super::governor::Governor;
use model::sharing::{Claim, water_fill};
use model::{
    ContainerObservation, ContainerPlan, CpuTime, Estimate, NodeObservation, NodePlan, PolicyName, Reason, RunState,
};

/// With more jobs, no time is known.
const JOBS_AT_MOST: usize = 512;

/// With more jobs, shares are computed again only when one ends.
const FINE_AT_MOST: usize = 128;

/// Shares are computed again after this part of the time to the next end, and a job is done once it has this part of its work left.
const STEP: f64 = 0.7;
const DONE: f64 = 0.03;

/// Weight of a job in the division, at least: the others are that much shorter.
const LEAST_WEIGHT: f64 = 1e-6;

impl Governor {
    /// Returns the seconds to the end of each container, in the order of the observation, for the plan that this governor made from it.
    /// `None` where the end is unknown, as of a job that is stalled. The job with a GPU goes on at its present speed, because a GPU may decide about that.
    pub fn times_left(&self, node: &NodeObservation, plan: &NodePlan) -> Vec<Option<Estimate>> {
        if node.containers.len() > JOBS_AT_MOST {
            return vec![None; node.containers.len()];
        }
        let each = || node.containers.iter().zip(&plan.containers);
        let jobs: Vec<Job> = each().map(|(container, planned)| self.job(node, container, planned)).collect();
        let floor = self.settings().floor.fraction();
        let ends = Fluid::new(node.cores, floor, self.settings().policy, &jobs).ends();
        let shown = |((container, planned), end): ((&ContainerObservation, &ContainerPlan), Option<f64>)| {
            let goes_on = container.state == RunState::Running && !container.health.condition.is_broken();
            let at_this_speed = container.learning.seconds_left().filter(|_| goes_on)?;
            let likely = if planned.gpus.is_empty() { end? } else { at_this_speed.likely };
            Some(range(likely, node.now.since(container.started).as_secs_f64()))
        };
        each().zip(ends).map(shown).collect()
    }

    fn job(&self, node: &NodeObservation, container: &ContainerObservation, planned: &ContainerPlan) -> Job {
        let cores = planned.share.fraction() * node.cores;
        let forecast = self.forecast(&container.id);
        let used = container.usage.cpu.map_or(0.0, CpuTime::as_secs_f64);
        let learning = &container.learning;
        // Under the other policies, what it would use at its present speed.
        let by_rate = || Some(learning.seconds_left()?.likely * cores);
        let work = forecast.map(|forecast| forecast.after(used).to_end.likely).or_else(by_rate);
        let most = planned.contention.most.min(node.cores);
        let runs = container.state == RunState::Running;
        Job {
            cores,
            usable: if runs { forecast.and_then(|forecast| forecast.usable).unwrap_or(most) } else { 0.0 },
            work: work.filter(|work| work.is_finite() && *work >= 0.0),
            is_broken: container.health.condition.is_broken(),
            rank: if let Reason::Trial { rank, .. } = planned.reason { Some(rank) } else { None },
        }
    }
}

/// The range in which four of five ends were, for a job that has run for `age_s`. Late in a job it is narrower.
fn range(likely: f64, age_s: f64) -> Estimate {
    let done = age_s / (age_s + likely).max(f64::MIN_POSITIVE);
    let late = ((done - 0.75) / 0.25).clamp(0.0, 1.0);
    Estimate { low: (0.7 + 0.25 * late) * likely, likely, high: (2.1 - 0.9 * late) * likely }
}

/// One job of the model.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Cores given to it now.
    cores: f64,
    /// Cores that it can use.
    usable: f64,
    /// CPU-seconds to its end; `None` = unknown.
    work: Option<f64>,
    /// Whether it gets the floor only.
    is_broken: bool,
    /// Its place among the trials of its sweep.
    rank: Option<usize>,
}

struct Fluid<'a> {
    jobs: &'a [Job],
    capacity: f64,
    /// Part of an equal share that each keeps.
    floor: f64,
    policy: PolicyName,
    /// CPU-seconds left of each job; infinite if unknown.
    left: Vec<f64>,
    /// The jobs that have not ended.
    running: Vec<usize>,
}

impl<'a> Fluid<'a> {
    fn new(capacity: f64, floor: f64, policy: PolicyName, jobs: &'a [Job]) -> Fluid<'a> {
        let left = jobs.iter().map(|job| job.work.unwrap_or(f64::INFINITY)).collect();
        Fluid { jobs, capacity, floor, policy, left, running: (0..jobs.len()).collect() }
    }

    /// Returns the seconds to the end of each job that ends.
    fn ends(mut self) -> Vec<Option<f64>> {
        let mut ends = vec![None; self.jobs.len()];
        let mut given = self.given_now();
        let mut now = 0.0;
        // A job ends after a few steps in which it is the first.
        for _ in 0..8 * self.jobs.len() {
            let needed = |at: usize| self.left[at] / given[at];
            let known = self.running.iter().copied().filter(|&at| needed(at).is_finite());
            let Some(first) = known.min_by(|&one, &other| needed(one).total_cmp(&needed(other))) else { break };
            let is_last =
                self.jobs.len() > FINE_AT_MOST || self.left[first] <= DONE * self.jobs[first].work.unwrap_or_default();
            let step = needed(first) * if is_last { 1.0 } else { STEP };
            now += step;
            for &at in &self.running {
                self.left[at] = (self.left[at] - step * given[at]).max(0.0);
            }
            if is_last {
                self.running.retain(|&at| at != first);
                ends[first] = Some(now);
            }
            given = self.divided();
        }
        ends
    }

    /// Returns the cores that each job has by its present share.
    fn given_now(&self) -> Vec<f64> {
        let claim = |job: &Job| Claim { weight: job.cores.max(LEAST_WEIGHT), cap: job.usable };
        let claims: Vec<Claim> = self.jobs.iter().map(claim).collect();
        let mut given = Vec::new();
        water_fill(self.capacity, &claims, &mut given);
        given
    }

    /// Returns the cores of each job for what is left now.
    fn divided(&self) -> Vec<f64> {
        let equal = self.capacity / self.running.len().max(1) as f64;
        let floor = self.floor * equal;
        let is_ranked =
            |at: usize| self.policy == PolicyName::Balanced && self.left[at].is_finite() && !self.jobs[at].is_broken;
        let (ranked, others): (Vec<usize>, Vec<usize>) = self.running.iter().partition(|&&at| is_ranked(at));
        let mut given = vec![0.0; self.jobs.len()];
        let mut shares = Vec::new();
        // Unranked jobs have equal claims; among the ranked, the shortest has most of what is theirs.
        let wants = |at: usize| if self.jobs[at].is_broken { floor } else { self.jobs[at].usable };
        let theirs: f64 = ranked.iter().map(|&at| self.jobs[at].usable).sum();
        let mut claims: Vec<Claim> = others.iter().map(|&at| Claim { weight: 1.0, cap: wants(at) }).collect();
        claims.push(Claim { weight: (ranked.len() as f64).max(LEAST_WEIGHT), cap: theirs });
        water_fill(self.capacity, &claims, &mut shares);
        let of_ranked = shares.pop().unwrap_or_default();
        others.iter().zip(&shares).for_each(|(&at, share)| given[at] = *share);
        let shortest = ranked.iter().map(|&at| self.left[at]).fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
        let claim = |&at: &usize| {
            let weight = (shortest / self.left[at].max(f64::MIN_POSITIVE)).powf(SHARPNESS).max(LEAST_WEIGHT);
            Claim { weight, cap: (self.jobs[at].usable - floor).max(0.0) }
        };
        let mut claims: Vec<Claim> = ranked.iter().map(claim).collect();
        self.by_rank(&ranked, &mut claims);
        water_fill((of_ranked - floor * ranked.len() as f64).max(0.0), &claims, &mut shares);
        ranked.iter().zip(&shares).for_each(|(&at, share)| given[at] = (floor + share).min(self.jobs[at].usable));
        given
    }

    /// Hands out what the trials of sweeps draw together by their places: the best one has the largest claim.
    fn by_rank(&self, ranked: &[usize], claims: &mut [Claim]) {
        let mut trials: Vec<(usize, usize)> =
            ranked.iter().enumerate().filter_map(|(place, &at)| Some((self.jobs[at].rank?, place))).collect();
        trials.sort_unstable();
        let mut weights: Vec<f64> = trials.iter().map(|(_, place)| claims[*place].weight).collect();
        weights.sort_by(|one, other| other.total_cmp(one));
        trials.iter().zip(weights).for_each(|((_, place), weight)| claims[*place].weight = weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(work: f64, cores: f64) -> Job {
        Job { cores, usable: 2.0, work: Some(work), is_broken: false, rank: None }
    }

    fn ends(policy: PolicyName, jobs: &[Job]) -> Vec<Option<u64>> {
        let ends = Fluid::new(2.0, 0.05, policy, jobs).ends();
        ends.into_iter().map(|end| end.map(|end| end.round() as u64)).collect()
    }

    #[test]
    fn the_last_job_takes_as_long_as_all_work_and_the_first_as_long_as_its_share_lets_it() {
        // 20 and 180 CPU-seconds on two cores: almost 10 s, then the rest.
        let found = ends(PolicyName::Balanced, &[job(20.0, 1.9), job(180.0, 0.1)]);
        assert_eq!(found, [Some(10), Some(100)]);
        let found = ends(PolicyName::Fair, &[job(20.0, 1.0), job(180.0, 1.0)]);
        assert_eq!(found, [Some(20), Some(100)]);
    }

    #[test]
    fn a_job_of_unknown_length_keeps_its_part_and_one_that_is_broken_the_floor() {
        let unknown = Job { work: None, ..job(0.0, 1.0) };
        assert_eq!(ends(PolicyName::Balanced, &[job(100.0, 1.0), unknown]), [Some(100), None]);
        let broken = Job { is_broken: true, cores: 0.05, ..unknown };
        assert_eq!(ends(PolicyName::Balanced, &[job(100.0, 1.95), broken]), [Some(51), None]);
    }

    #[test]
    fn what_a_job_cannot_use_flows_to_the_next() {
        let single = |work| Job { usable: 1.0, ..job(work, 1.0) };
        assert_eq!(ends(PolicyName::Balanced, &[single(10.0), single(30.0)]), [Some(10), Some(30)]);
        let stopped = Job { usable: 0.0, ..job(10.0, 1.0) };
        assert_eq!(ends(PolicyName::Balanced, &[stopped, job(30.0, 1.0)]), [None, Some(15)]);
    }

    #[test]
    fn the_best_trial_of_a_sweep_is_first_although_another_is_shorter() {
        let trial = |work, rank| Job { rank: Some(rank), ..job(work, 1.0) };
        let found = ends(PolicyName::Balanced, &[trial(100.0, 2), trial(120.0, 1)]);
        assert!(found[1] < found[0] && found[0] == Some(110), "{found:?}");
    }

    #[test]
    fn of_many_jobs_each_end_is_known_too() {
        let jobs: Vec<Job> = (1..=400).map(|n| job(f64::from(n), 2.0 / 400.0)).collect();
        let ends = ends(PolicyName::Balanced, &jobs);
        let all: u64 = (1..=400).sum();
        assert!(
            ends.last().is_some_and(|last| last.is_some_and(|last| last.abs_diff(all / 2) <= 1)),
            "as long as all work"
        );
        assert!(ends.is_sorted() && ends[0] < Some(250), "{ends:?}");
    }

    proptest! {
        #[test]
        fn no_core_is_used_twice_and_every_known_job_ends(
            works in prop::collection::vec((0.0f64..1e6, 0.1f64..4.0), 1..20),
            capacity in 0.1f64..16.0,
        ) {
            let jobs: Vec<Job> = works.iter()
                .map(|&(work, usable)| Job { cores: capacity / works.len() as f64, usable, work: Some(work), is_broken: false, rank: None })
                .collect();
            let fluid = Fluid::new(capacity, 0.05, PolicyName::Balanced, &jobs);
            prop_assert!(fluid.divided().iter().sum::<f64>() <= capacity * (1.0 + 1e-6));
            let ends = fluid.ends();
            for (job, end) in jobs.iter().zip(&ends) {
                let end = end.expect("it ends");
                prop_assert!(end >= job.work.unwrap() / job.usable.min(capacity) * (1.0 - 1e-6));
            }
            let all: f64 = works.iter().map(|(work, _)| work).sum();
            let last = ends.iter().flatten().copied().fold(0.0, f64::max);
            prop_assert!(last >= all / capacity * (1.0 - 1e-6));
        }
    }
}
