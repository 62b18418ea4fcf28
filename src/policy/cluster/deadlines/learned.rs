//! Run times t(job, node type, GPUs) learned from the nodes' histories: the runs of each class of jobs.
//!
//! Only observed times are returned: nothing is extrapolated to another number of GPUs or another type.

use std::collections::BTreeMap;

/// Runs that completed less than this fraction of the job are ignored.
const LEAST_PART: f64 = 0.2;
/// Maximum number of runs per kind that are used; the latest count.
const RUNS_MOST: usize = 32;

/// One run of a job on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Class of the job.
    pub class: String,
    /// GPU type of the node.
    pub gpu_type: String,
    /// Number of GPUs.
    pub gpus: usize,
    /// Seconds from the start to the end, or until it was last seen.
    pub seconds: f64,
    /// Completed fraction of the whole job, above 0 and at most 1; 1 = it ran to its end.
    pub part: f64,
}

/// Run time of a class of jobs on a number of GPUs of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedTime {
    /// Class of the jobs.
    pub class: String,
    /// GPU type.
    pub gpu_type: String,
    /// Number of GPUs.
    pub gpus: usize,
    /// Seconds of the whole job: the median of the runs.
    pub seconds: f64,
    /// Number of runs in the median.
    pub runs: usize,
}

/// Returns the table of run times, from runs in the order of their starts. Partial runs count only where no run came to its end.
pub fn learned(runs: &[RunRecord]) -> Vec<LearnedTime> {
    type Seconds = Vec<f64>;
    let mut kinds: BTreeMap<(&str, &str, usize), (Seconds, Seconds)> = BTreeMap::new();
    let counts =
        |run: &&RunRecord| run.seconds.is_finite() && run.seconds > 0.0 && run.gpus > 0 && run.part >= LEAST_PART;
    for run in runs.iter().filter(counts) {
        let (whole, parts) = kinds.entry((&run.class, &run.gpu_type, run.gpus)).or_default();
        if run.part >= 1.0 { whole.push(run.seconds) } else { parts.push(run.seconds / run.part) }
    }
    let time = |((class, gpu_type, gpus), (whole, parts)): ((&str, &str, usize), (Seconds, Seconds))| {
        let all = if whole.is_empty() { parts } else { whole };
        let mut latest = all[all.len().saturating_sub(RUNS_MOST)..].to_vec();
        latest.sort_by(f64::total_cmp);
        let (low, high) = (latest[(latest.len() - 1) / 2], latest[latest.len() / 2]);
        LearnedTime {
            class: class.to_owned(),
            gpu_type: gpu_type.to_owned(),
            gpus,
            seconds: (low + high) / 2.0,
            runs: latest.len(),
        }
    };
    kinds.into_iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(class: &str, gpus: usize, seconds: f64, part: f64) -> RunRecord {
        RunRecord { class: class.into(), gpu_type: "K80".into(), gpus, seconds, part }
    }

    fn seconds(runs: &[RunRecord]) -> Vec<(usize, f64, usize)> {
        learned(runs).into_iter().map(|time| (time.gpus, time.seconds, time.runs)).collect()
    }

    #[test]
    fn partial_runs_count_only_without_whole_ones_and_the_median_ignores_an_outlier() {
        let runs = [run("a", 1, 90.0, 1.0), run("a", 1, 100.0, 1.0), run("a", 1, 9000.0, 1.0), run("a", 1, 10.0, 0.5)];
        assert_eq!(seconds(&runs), [(1, 100.0, 3)]);
        assert_eq!(seconds(&runs[3..]), [(1, 20.0, 1)], "half of it took ten seconds");
    }

    #[test]
    fn kinds_are_kept_apart_and_short_or_invalid_runs_are_ignored() {
        let mut other = run("a", 1, 50.0, 1.0);
        other.gpu_type = "M60".into();
        let runs =
            [run("a", 2, 60.0, 1.0), run("a", 1, 100.0, 1.0), other, run("b", 1, 5.0, 0.1), run("b", 1, f64::NAN, 1.0)];
        assert_eq!(seconds(&runs), [(1, 100.0, 1), (2, 60.0, 1), (1, 50.0, 1)]);
    }

    #[test]
    fn the_latest_runs_count() {
        let runs: Vec<RunRecord> = (0..100).map(|at| run("a", 1, if at < 50 { 500.0 } else { 100.0 }, 1.0)).collect();
        assert_eq!(seconds(&runs), [(1, 100.0, RUNS_MOST)]);
    }
}
