//! Compares two runs of the same schedule: the demo's result.

use super::timed_run::TimedRun;
use crate::trial::outcome::RunOutcome;
use serde::Serialize;

/// The demo's result as printed with `--json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Comparison {
    /// `docker` or `scope`.
    pub runtime: &'static str,
    /// The run under plain sharing by the kernel.
    pub plain: TimedRun,
    /// The governed run.
    pub governed: TimedRun,
    /// Path of the chart.
    pub plot: String,
}

/// Relative changes below this are noise: two equal runs differ by as much.
pub(super) const NOISE: f64 = 0.03;

impl Comparison {
    /// Names of the jobs that did not exit with 0 in both runs.
    pub(super) fn failed_jobs(&self) -> Vec<&str> {
        let jobs = self.plain.clock.jobs.iter().zip(&self.governed.clock.jobs);
        let failed = jobs.filter(|(plain, governed)| plain.exit_code != 0 || governed.exit_code != 0);
        failed.map(|(plain, _)| plain.name.as_str()).collect()
    }
}

/// The failed jobs of both runs as `NAME failed (exit code N) in the … run`.
pub(super) fn failures(plain: &RunOutcome, governed: &RunOutcome) -> Vec<String> {
    let runs = [("plain", plain), ("governed", governed)].into_iter();
    let jobs = runs.flat_map(|(which, run)| run.jobs.iter().map(move |job| (which, job)));
    let failed = jobs.filter(|(_, job)| job.exit_code != 0);
    failed.map(|(which, job)| format!("{} failed (exit code {}) in the {which} run", job.name, job.exit_code)).collect()
}

/// Names of the jobs that took longer by more than [`NOISE`].
pub(super) fn losers<'a>(plain: &'a RunOutcome, governed: &RunOutcome) -> Vec<&'a str> {
    let jobs = plain.jobs.iter().zip(&governed.jobs);
    let slower = jobs.filter(|(plain, governed)| change(plain.completion_s, governed.completion_s) > NOISE);
    slower.map(|(plain, _)| plain.name.as_str()).collect()
}

/// (`after` − `before`) / `before`; 0 if `before` is 0.
pub(super) fn change(before: f64, after: f64) -> f64 {
    if before > 0.0 { after / before - 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::outcome::{Foreign, JobOutcome};

    fn run(times: &[(f64, f64)]) -> RunOutcome {
        let jobs = times.iter().enumerate().map(|(index, &(start_s, completion_s))| JobOutcome {
            name: format!("job-{index}"),
            start_s,
            completion_s,
            exit_code: 0,
        });
        RunOutcome::new(jobs.collect(), Vec::new(), Foreign::default())
    }

    #[test]
    fn a_job_that_is_slower_by_more_than_noise_is_listed() {
        let plain = run(&[(0.0, 100.0), (0.0, 100.0), (0.0, 100.0)]);
        let governed = run(&[(0.0, 70.0), (0.0, 102.0), (0.0, 110.0)]);
        assert_eq!(losers(&plain, &governed), ["job-2"]);
        assert!((change(100.0, 70.0) + 0.3).abs() < 1e-9);
    }

    #[test]
    fn the_json_has_exactly_the_documented_fields() {
        let plain = RunOutcome { work: vec![(0.0, 0.0), (2.0, 3.0)], cpu_s: 1.5, ..run(&[(0.0, 2.0)]) };
        let governed = RunOutcome { work: vec![(0.0, 0.0), (4.0, 3.0)], cpu_s: 1.75, ..run(&[(0.0, 4.0)]) };
        let (plain, governed) = TimedRun::both(plain, governed);
        let comparison = Comparison { runtime: "scope", plain, governed, plot: "/x.svg".into() };
        assert_eq!(
            serde_json::to_string(&comparison).expect("plain numbers"),
            concat!(
                r#"{"runtime":"scope","plain":{"mean_completion_s":2.0,"makespan_s":2.0,"#,
                r#""jobs":[{"name":"job-0","start_s":0.0,"completion_s":2.0,"exit_code":0}],"cpu_s":1.5,"#,
                r#""clock":{"mean_completion_s":2.0,"makespan_s":2.0,"#,
                r#""jobs":[{"name":"job-0","start_s":0.0,"completion_s":2.0,"exit_code":0}]}},"#,
                r#""governed":{"mean_completion_s":2.0,"makespan_s":2.0,"#,
                r#""jobs":[{"name":"job-0","start_s":0.0,"completion_s":2.0,"exit_code":0}],"cpu_s":1.75,"#,
                r#""clock":{"mean_completion_s":4.0,"makespan_s":4.0,"#,
                r#""jobs":[{"name":"job-0","start_s":0.0,"completion_s":4.0,"exit_code":0}]}},"plot":"/x.svg"}"#
            )
        );
    }
}
