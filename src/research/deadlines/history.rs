//! Histories of nodes, as written by `flowctl history --json`: one file per node, with its type of GPU.

use policy::cluster::deadlines::{LearnedTime, RunRecord};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A job of a node's history, with the fields for its run time.
#[derive(Deserialize)]
struct HistoryJob {
    name: String,
    started_unix_ms: u64,
    ended_unix_ms: Option<u64>,
    exit_code: Option<i32>,
    total: Option<f64>,
    latest: Option<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    unix_ms: u64,
    progress: Option<f64>,
    gpus: Option<f64>,
}

/// A node's history: file name, text, and the node's type of GPU.
pub type NodeHistory<'t> = (&'t str, &'t str, &'t str);

/// Returns the run times that some nodes have learned.
///
/// # Errors
/// Names the file and the expected content.
pub fn learned(nodes: &[NodeHistory<'_>]) -> Result<Vec<LearnedTime>, String> {
    Ok(policy::cluster::deadlines::learned(&runs(nodes)?))
}

/// Returns the runs of some nodes, sorted by start. A job's class is its name up to the first dot; a job without a GPU counts as using one.
/// A run after a failed or unfinished one of the same class is left out: it may have continued from a checkpoint.
///
/// # Errors
/// Names the file and the expected content.
fn runs(nodes: &[NodeHistory<'_>]) -> Result<Vec<RunRecord>, String> {
    let mut jobs: Vec<(HistoryJob, &str)> = Vec::new();
    for (path, text, gpu_type) in nodes {
        let read: Vec<HistoryJob> = serde_json::from_str(text).map_err(|error| {
            format!("{path}: {error}; expected the output of `flowctl history --since 30d --json` on a node")
        })?;
        jobs.extend(read.into_iter().map(|job| (job, *gpu_type)));
    }
    jobs.sort_by_key(|(job, _)| job.started_unix_ms);
    let mut was_successful: BTreeMap<String, bool> = BTreeMap::new();
    let mut runs = Vec::new();
    for (job, gpu_type) in &jobs {
        let before = was_successful.insert(job.class().to_owned(), job.is_whole());
        runs.extend(job.run(gpu_type).filter(|_| before != Some(false)));
    }
    Ok(runs)
}

impl HistoryJob {
    fn class(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }

    fn is_whole(&self) -> bool {
        self.ended_unix_ms.is_some() && self.exit_code == Some(0)
    }

    fn run(&self, gpu_type: &str) -> Option<RunRecord> {
        let latest = self.latest.as_ref();
        let until = self.ended_unix_ms.or(latest.map(|latest| latest.unix_ms))?;
        let done = latest.and_then(|latest| latest.progress).zip(self.total).filter(|(_, total)| *total > 0.0);
        let part = done.map(|(done, total)| (done / total).clamp(0.0, 1.0));
        let gpus = latest.and_then(|latest| latest.gpus).unwrap_or(1.0).ceil().clamp(1.0, 1024.0) as usize;
        Some(RunRecord {
            class: self.class().to_owned(),
            gpu_type: gpu_type.to_owned(),
            gpus,
            seconds: until.saturating_sub(self.started_unix_ms) as f64 / 1000.0,
            part: if self.is_whole() { 1.0 } else { part? },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, started: u64, ended: &str, exit: &str, progress: f64) -> String {
        format!(
            "{{\"number\":1,\"name\":\"{name}.1.x\",\"started_unix_ms\":{started},\"ended_unix_ms\":{ended},\"exit_code\":{exit},\
             \"total\":50.0,\"latest\":{{\"unix_ms\":61000,\"progress\":{progress:?},\"gpus\":1.4}}}}"
        )
    }

    fn summary(runs: &[RunRecord]) -> Vec<(&str, usize, f64, f64)> {
        runs.iter().map(|run| (&*run.class, run.gpus, run.seconds, run.part)).collect()
    }

    #[test]
    fn runs_are_read_from_the_output_of_flowctl() {
        let text = format!("[{},{}]", job("a", 1000, "101000", "0", 50.0), job("b", 1000, "null", "null", 25.0));
        assert_eq!(summary(&runs(&[("f", &text, "K80")]).unwrap()), [("a", 2, 100.0, 1.0), ("b", 2, 60.0, 0.5)]);
        assert!(runs(&[("f.json", "{}", "K80")]).unwrap_err().starts_with("f.json: "));
    }

    #[test]
    fn a_run_that_may_have_continued_from_a_checkpoint_is_left_out() {
        let stopped = format!("[{}]", job("a", 1000, "31000", "143", 25.0));
        let continued = format!("[{},{}]", job("a", 40_000, "50000", "0", 50.0), job("a", 60_000, "160000", "0", 50.0));
        let runs = runs(&[("two", &continued, "M60"), ("one", &stopped, "K80")]).unwrap();
        assert_eq!(summary(&runs), [("a", 2, 30.0, 0.5), ("a", 2, 100.0, 1.0)]);
    }
}
