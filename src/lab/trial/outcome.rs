//! What one run of a schedule came to.
//!
//! Imports: serde and std only.

use serde::Serialize;
use std::time::Duration;

/// One job's run. Times in seconds; `start_s` since the run's beginning, `completion_s` since the job's own start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobOutcome {
    /// The job.
    pub name: String,
    /// When it was started.
    pub start_s: f64,
    /// How long it took from its start to its end.
    pub completion_s: f64,
    /// Its exit code; 128 + signal when one ended it.
    pub exit_code: i32,
}

/// One run of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOutcome {
    /// Mean of the jobs' completion times.
    pub mean_completion_s: f64,
    /// From the first start to the last end.
    pub makespan_s: f64,
    /// The jobs, in the schedule's order.
    pub jobs: Vec<JobOutcome>,
    /// What each job used over time, for the picture.
    #[serde(skip)]
    pub samples: Vec<Sample>,
    /// Each job's evaluations as it printed them, (seconds since the run's beginning, value), in the schedule's order.
    #[serde(skip)]
    pub curves: Vec<Vec<(f64, f64)>>,
    /// CPU-seconds that the jobs used. The work being the same in each run, more of them tell of a slower machine.
    #[serde(skip)]
    pub cpu_s: f64,
    /// Part of the run in which the cores were not the jobs': stolen by the hypervisor, or used by others.
    #[serde(skip)]
    pub foreign: Foreign,
}

/// Part of the jobs' cores that each job used up to an instant, since the sample before.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Since the run's beginning.
    pub at: Duration,
    /// 0 ..= 1 for each job in the schedule's order; zero where it did not run.
    pub used: Vec<f64>,
}

/// Whose the jobs' cores were, as parts of their time over the whole run; the rest was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Foreign {
    /// Used by the jobs.
    pub ours: f64,
    /// Taken by the hypervisor for other machines.
    pub stolen: f64,
    /// Used by processes outside the run.
    pub others: f64,
}

impl RunOutcome {
    /// Sums up the jobs.
    pub fn new(jobs: Vec<JobOutcome>, samples: Vec<Sample>, foreign: Foreign) -> RunOutcome {
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
            cpu_s: 0.0,
            foreign,
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
