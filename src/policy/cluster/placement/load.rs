//! The work left of a job, and how long two jobs compete for the CPU.

use model::Estimate;
use model::cluster::{ClusterJob, ClusterObservation, Worker};

/// Assumed work of a training if no work is known at all, in CPU-seconds. The value does not matter then: all jobs share it.
const UNKNOWN_WORK: f64 = 1000.0;

/// Swanson's rule: weights of the 10, 50 and 90 % quantiles in the mean.
const SWANSON: [f64; 3] = [0.3, 0.4, 0.3];

/// Work left of a job, in CPU-seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// Forecast by its node, or known from other jobs.
    Forecast(Estimate),
    /// Unknown: exponentially distributed with this mean.
    Expected(f64),
}

impl Load {
    /// Returns the work left of a placed worker, whose work is `known` in advance or not.
    pub(super) fn of(worker: &Worker, known: Option<f64>, usual: f64) -> Load {
        let forecast = worker.work_left.or(known.map(Estimate::exactly));
        forecast.map_or(Load::Expected(usual), Load::Forecast)
    }

    /// Returns the expected CPU-seconds for which this job and one with `work` left compete: the lesser of both.
    pub(super) fn shared_with(self, work: f64) -> f64 {
        match self {
            Load::Forecast(Estimate { low, likely, high }) => {
                let [a, b, c] = SWANSON;
                a * low.min(work) + b * likely.min(work) + c * high.min(work)
            }
            Load::Expected(mean) => least_of(mean, work),
        }
    }

    /// Like [`Load::shared_with`], for a job whose work is exponentially distributed with this mean.
    pub(super) fn shared_with_unknown(self, mean: f64) -> f64 {
        match self {
            Load::Forecast(Estimate { low, likely, high }) => {
                let [a, b, c] = SWANSON;
                a * least_of(mean, low) + b * least_of(mean, likely) + c * least_of(mean, high)
            }
            Load::Expected(other) => mean * other / (mean + other),
        }
    }
}

/// Returns the expectation of the lesser of `work` and an exponentially distributed quantity with this mean.
fn least_of(mean: f64, work: f64) -> f64 {
    -mean * (-work / mean).exp_m1()
}

/// Returns the known work of one of a job's workers.
pub(in crate::cluster) fn work_of(job: &ClusterJob, workers: u32) -> Option<f64> {
    job.work.map(|work| work / f64::from(workers.max(1)))
}

/// Returns the usual work of a whole training in CPU-seconds: that of ended ones, else twice the mean work left of running ones.
pub(super) fn usual_work(observation: &ClusterObservation) -> f64 {
    let ahead = observation.jobs.iter().flat_map(|job| &job.placed).filter_map(|worker| worker.work_left);
    let (count, sum) = ahead.fold((0.0, 0.0), |(count, sum), work| (count + 1.0, sum + work.likely));
    let running = (count > 0.0).then(|| 2.0 * sum / count);
    let usual = observation.usual_work.or(running).filter(|work| work.is_finite() && *work > 0.0);
    usual.unwrap_or(UNKNOWN_WORK)
}
