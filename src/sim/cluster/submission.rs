//! Submissions to the simulated cluster: a training, its range of workers, and the reservation of each worker.
//!
//! A training with several workers divides its work evenly among them, and each further worker adds a little work for communication. When
//! the number of workers changes, all of them restart with their part of the remaining work.

use crate::curve::{LearningCurve, Shape};
use crate::job::{Job, QUALITY};
use crate::random::Stream;
use model::cluster::{Priority, Resources, WorkerRange};
use std::sync::Arc;

/// Part of the work that each further worker adds for communication.
const COMMUNICATION: f64 = 0.03;

/// Number of points of a curve that continues from the middle of another.
const POINTS: usize = 64;

/// One training.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The training with one worker; `plan.start_s` is its submission time.
    pub job: Arc<Job>,
    /// Its priority.
    pub priority: Priority,
    /// Reservation of each worker.
    pub request: Resources,
    /// Its range of workers.
    pub workers: WorkerRange,
    /// The node on which it has to start, whatever the policy; it may be moved later.
    pub first_node: Option<usize>,
    /// The program that it runs, if others of the schedule may run the same.
    pub program: Option<usize>,
}

impl Submission {
    /// A training of one worker that reserves nothing.
    pub fn alone(job: Job) -> Submission {
        let (priority, request, workers) = (Priority::default(), Resources::default(), WorkerRange::ONE);
        Submission { job: Arc::new(job), priority, request, workers, first_node: None, program: None }
    }

    /// Core-seconds of all workers together for the remaining part `left` of the training, 0 ..= 1.
    pub(super) fn work(&self, left: f64, workers: u32) -> f64 {
        self.job.plan.work * left * (1.0 + COMMUNICATION * f64::from(workers.saturating_sub(1)))
    }

    /// Draws the job of one of `workers` workers for the remaining part `left` of the training.
    pub(super) fn part(&self, left: f64, workers: u32, draws: &mut Stream) -> Arc<Job> {
        if workers == 1 && left >= 1.0 {
            return Arc::clone(&self.job);
        }
        let done = 1.0 - left;
        let mut plan = self.job.plan.clone();
        let good_after = plan.curve.work_to(QUALITY);
        plan.work = self.work(left, workers) / f64::from(workers.max(1));
        plan.units = ((plan.units as f64 * left).round() as usize).max(1);
        plan.curve = rest_of(&plan.curve, done);
        plan.shown = plan.shown.map(|curve| rest_of(&curve, done));
        let mut job = Job::draw(plan, draws);
        let to_good = ((good_after - done) / left).max(0.0);
        job.quality_work = job.plan.startup_work + to_good * job.plan.work;
        Arc::new(job)
    }
}

/// The curve from `done` of the work on.
fn rest_of(curve: &LearningCurve, done: f64) -> LearningCurve {
    if done <= 0.0 {
        return curve.clone();
    }
    let (had, left) = (curve.improvement(done), 1.0 - done);
    let points = (0..=POINTS).map(|point| {
        let x = point as f64 / POINTS as f64;
        let y = (curve.improvement(done + left * x) - had) / (1.0 - had).max(f64::MIN_POSITIVE);
        (x, if point == POINTS { 1.0 } else { y.clamp(0.0, 1.0) })
    });
    let shape = Shape::Samples(points.collect());
    LearningCurve { from: curve.value(done), shape, ..curve.clone() }
}
