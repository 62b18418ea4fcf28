//! The outcome of one run of a schedule.

use super::work_clock::WorkCurve;
use model::{Estimate, JudgedForecast};
use serde::Serialize;
use std::time::Duration;

/// Outcome of one job. Times in seconds; `start_s` since the start of the run, `completion_s` since the start of the job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JobOutcome {
    /// Name of the job.
    pub name: String,
    /// When it was started.
    pub start_s: f64,
    /// Time from its start to its end.
    pub completion_s: f64,
    /// Its exit code; 128 + signal if a signal killed it.
    pub exit_code: i32,
}

/// Outcome of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RunOutcome {
    /// Mean of the jobs' completion times.
    pub mean_completion_s: f64,
    /// Time from the first start to the last end.
    pub makespan_s: f64,
    /// The jobs, in the schedule's order.
    pub jobs: Vec<JobOutcome>,
    /// CPU used by each job over time, for the chart.
    #[serde(skip)]
    pub samples: Vec<Sample>,
    /// Each job's printed evaluations, (seconds since the start of the run, value), in the schedule's order.
    #[serde(skip)]
    pub curves: Vec<Vec<(f64, f64)>>,
    /// The work done by all jobs together, if their start times count it.
    #[serde(skip)]
    pub work: WorkCurve,
    /// The governor's forecasts of the time left, with what it took.
    #[serde(skip)]
    pub forecasts: Vec<JudgedForecast>,
    /// CPU-seconds used by the jobs. The work is the same in each run, so more of them indicate a slower machine.
    #[serde(skip)]
    pub cpu_s: f64,
    /// Fractions of the cores' time used by the jobs, stolen by the hypervisor, or used by others.
    #[serde(skip)]
    pub foreign: Foreign,
    /// What the governor said about jobs that it did not govern as intended, each problem once.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// Fraction of the jobs' cores used by each job since the previous sample.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Time since the start of the run.
    pub at: Duration,
    /// 0 ..= 1 for each job in the schedule's order; 0 if it did not run.
    pub used: Vec<f64>,
}

/// Use of the jobs' cores as fractions of their time over the whole run; the rest was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Foreign {
    /// Used by the jobs.
    pub ours: f64,
    /// Taken by the hypervisor for other machines.
    pub stolen: f64,
    /// Used by processes outside the run.
    pub others: f64,
}

impl JobOutcome {
    /// Judges a forecast of its time left that was made after `at_s` of the run.
    pub(crate) fn judged(&self, at_s: f64, forecast: Estimate) -> JudgedForecast {
        let ran_s = at_s - self.start_s;
        JudgedForecast { at: ran_s / self.completion_s, forecast, left_s: self.completion_s - ran_s }
    }
}

impl RunOutcome {
    /// Creates an outcome and computes the mean and the makespan.
    pub(crate) fn new(jobs: Vec<JobOutcome>, samples: Vec<Sample>, foreign: Foreign) -> RunOutcome {
        let count = jobs.len().max(1) as f64;
        let mean_completion_s = jobs.iter().map(|job| job.completion_s).sum::<f64>() / count;
        let first = jobs.iter().map(|job| job.start_s).fold(f64::INFINITY, f64::min);
        let last = jobs.iter().map(|job| job.start_s + job.completion_s).fold(0.0, f64::max);
        RunOutcome {
            mean_completion_s,
            makespan_s: (last - first).max(0.0),
            jobs,
            samples,
            curves: Vec::new(),
            work: Vec::new(),
            forecasts: Vec::new(),
            cpu_s: 0.0,
            foreign,
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_makespan_runs_from_the_first_start_to_the_last_end() {
        let job = |start_s, completion_s| JobOutcome { name: "a".into(), start_s, completion_s, exit_code: 0 };
        let jobs = vec![job(0.5, 20.0), job(4.0, 30.0), job(10.0, 5.0)];
        let run = RunOutcome::new(jobs, Vec::new(), Foreign::default());
        assert_eq!(run.makespan_s, 33.5);
        assert!((run.mean_completion_s - 55.0 / 3.0).abs() < 1e-9);
    }
}
