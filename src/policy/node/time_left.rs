//! The time that each job needs to its end, as the plan will develop: what is left of a job decides about its share, and its share about how
//! long it takes; when one ends, the others get more.
//!
//! A fluid model: each job has work left and can use so many cores. The present shares hold at first; from then on the cores are divided as
//! the policy itself divides them for what is ahead of each by then ([`balanced::divide`]). A job that is not ranked keeps its equal share.
//! Jobs that start later are unknown, and so is much about those that run, so the range is wide: [`range`] was measured (`flowsim forecasts
//! random-10`).

use super::balanced::{self, Course};
use super::governor::Governor;
use super::importance;
use model::sharing::{Claim, water_fill};
use model::{ContainerObservation, ContainerPlan, CpuTime, Estimate, NodeObservation, NodePlan, RunState};

/// With more jobs, no time is known.
const JOBS_AT_MOST: usize = 512;

/// With more jobs, shares are computed again only when one ends.
const FINE_AT_MOST: usize = 64;

/// Shares are computed again after this part of the time to the next milestone, and a job is done once it has this part of its work left.
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
        let ends = Fluid::new(node.cores, self.settings().floor.fraction(), &jobs).ends();
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
            weight: if runs { importance(container) } else { 0.0 },
            is_broken: container.health.condition.is_broken(),
            course: self.course(&container.id).copied(),
        }
    }
}

/// The range in which four of five ends were, for a job that has run for `age_s`. The further it is, the narrower the range.
fn range(likely: f64, age_s: f64) -> Estimate {
    let done = age_s / (age_s + likely).max(f64::MIN_POSITIVE);
    let late = ((done - 0.75) / 0.25).clamp(0.0, 1.0);
    Estimate { low: (0.72 + 0.23 * late) * likely, likely, high: (1.9 - 0.5 * done - 0.25 * late) * likely }
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
    /// Its weight under plain sharing.
    weight: f64,
    /// Whether it gets the floor only.
    is_broken: bool,
    /// How its rank develops, if it is ranked.
    course: Option<Course>,
}

struct Fluid<'a> {
    jobs: &'a [Job],
    capacity: f64,
    /// Part of an equal share that each keeps.
    floor: f64,
    /// CPU-seconds left of each job; infinite if unknown.
    left: Vec<f64>,
    /// The jobs that have not ended, with their courses.
    running: Vec<usize>,
    courses: Vec<Option<Course>>,
}

impl<'a> Fluid<'a> {
    fn new(capacity: f64, floor: f64, jobs: &'a [Job]) -> Fluid<'a> {
        let left = jobs.iter().map(|job| job.work.unwrap_or(f64::INFINITY)).collect();
        let courses = jobs.iter().map(|job| job.course).collect();
        Fluid { jobs, capacity, floor, left, running: (0..jobs.len()).collect(), courses }
    }

    /// Returns the seconds to the end of each job that ends.
    fn ends(mut self) -> Vec<Option<f64>> {
        let mut ends = vec![None; self.jobs.len()];
        let mut now = 0.0;
        let is_fine = self.jobs.len() <= FINE_AT_MOST;
        let mut entitled = self.divided().0;
        // The present shares hold at first.
        let mut given = self.used(&self.jobs.iter().map(|job| job.cores).collect::<Vec<f64>>());
        // A job reaches each of its two milestones after a few steps in which it is the first.
        for _ in 0..16 * self.jobs.len() {
            let seconds = |place: usize, work: f64| work / given[place];
            let to_end = |place: &usize| seconds(*place, self.left[self.running[*place]]);
            let known = (0..self.running.len()).filter(|place| to_end(place).is_finite());
            let Some(first) = known.min_by(|one, other| to_end(one).total_cmp(&to_end(other))) else { break };
            let (at, whole) = (self.running[first], to_end(&first));
            let is_last = !is_fine || self.left[at] <= DONE * self.jobs[at].work.unwrap_or_default();
            let to_quality =
                |(place, course): (usize, &Option<Course>)| Some(seconds(place, course.as_ref()?.work_to_quality()?));
            let good = self.courses.iter().enumerate().filter_map(to_quality).fold(f64::INFINITY, f64::min);
            let step = if is_last { whole } else { STEP * whole.min(good) };
            now += step;
            for (place, &at) in self.running.iter().enumerate() {
                let cpu = step * given[place];
                self.left[at] = (self.left[at] - cpu).max(0.0);
                if let Some(course) = &mut self.courses[place] {
                    course.pass(step, cpu, entitled[place].min(self.jobs[at].usable));
                }
            }
            if is_last {
                ends[at] = Some(now);
                self.running.remove(first);
                self.courses.remove(first);
            }
            let shares;
            (entitled, shares) = self.divided();
            given = self.used(&shares);
        }
        ends
    }

    /// Returns the cores of each job that runs for what is ahead of it now: those to which it is entitled, and those that it is given.
    fn divided(&self) -> (Vec<f64>, Vec<f64>) {
        let weights: Vec<f64> = self.running.iter().map(|&at| self.jobs[at].weight).collect();
        let is_broken = |place: usize| self.jobs[self.running[place]].is_broken;
        balanced::divide(self.capacity, self.floor, &weights, is_broken, &self.courses)
    }

    /// Returns the cores that each job uses of these: what one cannot use flows to the others.
    fn used(&self, shares: &[f64]) -> Vec<f64> {
        let claim = |(&at, share): (&usize, &f64)| Claim { weight: share.max(LEAST_WEIGHT), cap: self.jobs[at].usable };
        let claims: Vec<Claim> = self.running.iter().zip(shares).map(claim).collect();
        let mut used = Vec::new();
        water_fill(self.capacity, &claims, &mut used);
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(work: f64, cores: f64) -> Job {
        let course = Some(Course::to_an_end(work, 2.0));
        Job { cores, usable: 2.0, work: Some(work), weight: 1.0, is_broken: false, course }
    }

    /// A job that is not ranked, as under plain sharing.
    fn unranked(work: Option<f64>, cores: f64) -> Job {
        Job { work, course: None, ..job(1.0, cores) }
    }

    fn ends(jobs: &[Job]) -> Vec<Option<u64>> {
        let ends = Fluid::new(2.0, 0.05, jobs).ends();
        ends.into_iter().map(|end| end.map(|end| end.round() as u64)).collect()
    }

    #[test]
    fn the_last_job_takes_as_long_as_all_work_and_the_first_as_long_as_its_share_lets_it() {
        // 20 and 180 CPU-seconds on two cores: almost 10 s, then the rest.
        assert_eq!(ends(&[job(20.0, 1.9), job(180.0, 0.1)]), [Some(10), Some(100)]);
        assert_eq!(ends(&[unranked(Some(20.0), 1.0), unranked(Some(180.0), 1.0)]), [Some(20), Some(100)]);
    }

    #[test]
    fn a_job_of_unknown_length_keeps_its_part_and_one_that_is_broken_the_floor() {
        let unknown = unranked(None, 1.0);
        assert_eq!(ends(&[job(100.0, 1.0), unknown]), [Some(100), None]);
        let broken = Job { is_broken: true, cores: 0.05, ..unknown };
        assert_eq!(ends(&[job(100.0, 1.95), broken]), [Some(51), None]);
    }

    #[test]
    fn what_a_job_cannot_use_flows_to_the_next() {
        let single = |work| Job { usable: 1.0, course: Some(Course::to_an_end(work, 1.0)), ..job(work, 1.0) };
        assert_eq!(ends(&[single(10.0), single(30.0)]), [Some(10), Some(30)]);
        let stopped = Job { usable: 0.0, weight: 0.0, ..unranked(Some(10.0), 1.0) };
        assert_eq!(ends(&[stopped, job(30.0, 1.0)]), [None, Some(15)]);
    }

    #[test]
    fn a_job_that_is_soon_good_comes_first_and_waits_once_it_is_good() {
        let course = Some(Course::to_an_end(100.0, 2.0).good_after(10.0));
        let found = ends(&[Job { course, ..job(100.0, 1.9) }, job(40.0, 0.1)]);
        assert!(found[0] == Some(70) && (Some(24)..=Some(28)).contains(&found[1]), "20 s, and 5 s before: {found:?}");
        assert!(ends(&[job(100.0, 0.1), job(40.0, 1.9)])[1] < Some(23));
    }

    #[test]
    fn the_best_trial_of_a_sweep_is_first_although_another_is_shorter() {
        let trial = |work, place| Job { course: Some(Course::to_an_end(work, 2.0).at_place(place)), ..job(work, 1.0) };
        let found = ends(&[trial(100.0, 1), trial(120.0, 0)]);
        assert!(found[1] < found[0] && found[0] == Some(110), "{found:?}");
    }

    #[test]
    fn of_many_jobs_each_end_is_known_too() {
        let jobs: Vec<Job> = (1..=400).map(|n| job(f64::from(n), 2.0 / 400.0)).collect();
        let ends = ends(&jobs);
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
                .map(|&(work, usable)| Job { usable, course: Some(Course::to_an_end(work, usable)), ..job(work, capacity / works.len() as f64) })
                .collect();
            let fluid = Fluid::new(capacity, 0.05, &jobs);
            prop_assert!(fluid.used(&fluid.divided().1).iter().sum::<f64>() <= capacity * (1.0 + 1e-6));
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
