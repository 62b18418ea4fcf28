//! How much work a job has ahead, as far as anybody knows, and how long two jobs are in each other's way.
//!
//! Imports: model.

use crate::model::Estimate;
use crate::model::cluster::{ClusterObservation, Worker};

/// Work of a training where nothing at all is known, CPU-seconds: only its ratio to itself counts then.
const UNKNOWN_WORK: f64 = 1000.0;

/// Swanson's rule: the mean of a quantity by its quantiles of 10, 50 and 90 %.
const SWANSON: [f64; 3] = [0.3, 0.4, 0.3];

/// How much work a job has ahead, in CPU-seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// Foreseen by its node, or known from earlier runs.
    Foreseen(Estimate),
    /// Distributed exponentially around this mean.
    Expected(f64),
}

impl Load {
    /// What is ahead of a worker that is somewhere.
    pub(super) fn of(worker: &Worker, usual: f64) -> Load {
        worker.work_left.map_or(Load::Expected(usual), Load::Foreseen)
    }

    /// Expected CPU-seconds for which this job and one with `work` ahead are in each other's way.
    pub(super) fn shared_with(self, work: f64) -> f64 {
        match self {
            Load::Foreseen(Estimate { low, likely, high }) => {
                let [a, b, c] = SWANSON;
                a * low.min(work) + b * likely.min(work) + c * high.min(work)
            }
            Load::Expected(mean) => least_of(mean, work),
        }
    }

    /// The same with a job whose work is distributed exponentially around `mean`.
    pub(super) fn shared_with_unknown(self, mean: f64) -> f64 {
        match self {
            Load::Foreseen(Estimate { low, likely, high }) => {
                let [a, b, c] = SWANSON;
                a * least_of(mean, low) + b * least_of(mean, likely) + c * least_of(mean, high)
            }
            Load::Expected(other) => mean * other / (mean + other),
        }
    }
}

/// Expectation of the lesser of `work` and something distributed exponentially around `mean`.
fn least_of(mean: f64, work: f64) -> f64 {
    -mean * (-work / mean).exp_m1()
}

/// CPU-seconds of a whole training, as a rule: of those that ended, or else twice what is ahead of those that run.
pub(super) fn usual_work(observation: &ClusterObservation) -> f64 {
    let ahead = observation.jobs.iter().flat_map(|job| &job.placed).filter_map(|worker| worker.work_left);
    let (count, sum) = ahead.fold((0.0, 0.0), |(count, sum), work| (count + 1.0, sum + work.likely));
    let running = (count > 0.0).then(|| 2.0 * sum / count);
    let usual = observation.usual_work.or(running).filter(|work| work.is_finite() && *work > 0.0);
    usual.unwrap_or(UNKNOWN_WORK)
}
