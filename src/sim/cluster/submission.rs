//! What is submitted to the simulated cluster: a training, how many workers it may have, and what each reserves.
//!
//! A training with several workers divides its work evenly among them, and each further worker costs a little for talking. When the number
//! of workers changes all of them start again with their part of what is left. Imports: model.

use crate::model::cluster::{Priority, Resources, WorkerRange};
use crate::sim::curve::{LearningCurve, Shape};
use crate::sim::job::{Job, QUALITY};
use crate::sim::random::Stream;
use std::sync::Arc;

/// Part of the work that each further worker adds: what the workers tell each other.
const TALK: f64 = 0.03;

/// Points of a curve that goes on in its midst.
const POINTS: usize = 64;

/// One training.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The training as one worker would do it; `plan.start_s` is when it is submitted.
    pub job: Arc<Job>,
    /// How important it is.
    pub priority: Priority,
    /// What each worker reserves.
    pub request: Resources,
    /// How many workers it may have.
    pub workers: WorkerRange,
}

impl Submission {
    /// A training of one worker that reserves nothing.
    pub fn alone(job: Job) -> Submission {
        let (priority, request, workers) = (Priority::default(), Resources::default(), WorkerRange::ONE);
        Submission { job: Arc::new(job), priority, request, workers }
    }

    /// Core-seconds that all workers together have ahead with `left` of the training to do, 0 ..= 1.
    pub(super) fn work(&self, left: f64, workers: u32) -> f64 {
        self.job.plan.work * left * (1.0 + TALK * f64::from(workers.saturating_sub(1)))
    }

    /// What one of so many workers does, with `left` of the training to do.
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
