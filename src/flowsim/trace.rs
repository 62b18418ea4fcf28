//! The command `flowsim trace`: a trace of jobs on a cluster of GPUs.

use crate::output::{read_text, write_whole};
use clap::Args;
use std::path::PathBuf;
use traces::{Discipline, Gpus, TraceJob, TraceOutcome};

/// `flowsim trace`.
#[derive(Args)]
pub(crate) struct TraceArguments {
    /// A CSV file with the columns job_id, submit_s, num_gpus, duration_s.
    pub file: PathBuf,
    /// GPUs of the cluster: `64` without placement, `64x8` for 64 nodes of 8, `16x4:v100,32x8:k80` for nodes of several types.
    #[arg(long)]
    pub gpus: Gpus,
    /// A CSV file with the speed of each model on each type: gpu_type, model, num_gpus, steps_per_s (or exec_time_s). The trace then has
    /// the columns model and total_steps in place of duration_s.
    #[arg(long, value_name = "FILE")]
    pub speeds: Option<PathBuf>,
    /// fifo, fjf, shortest (srpt), shortest-gpu, dlas, dlas-gpu (las).
    #[arg(long, short)]
    pub policy: Discipline,
    /// Seconds by which a preempted job runs longer.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub restart_cost: u64,
    /// Prints a CSV line job_id,start_s,end_s for each job instead of a summary.
    #[arg(long)]
    pub per_job: bool,
    /// Writes to this file instead of standard output.
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
}

/// Runs `flowsim trace` and returns its output.
///
/// # Errors
/// File, line, column and what is expected; a file that cannot be written.
pub(crate) fn run(arguments: &TraceArguments) -> Result<String, String> {
    let gpus = &arguments.gpus;
    let speeds = arguments.speeds.as_ref().map(|file| {
        let (path, text) = read_text(file, "the speeds")?;
        let speeds = traces::Speeds::parse(&path, &text)?;
        speeds.check(gpus).map(|()| speeds)
    });
    let speeds = speeds.transpose()?;
    let (path, text) = read_text(&arguments.file, "the trace")?;
    let jobs = traces::read(&path, &text, gpus, speeds.as_ref())?;
    let outcome = traces::run(&jobs, gpus, arguments.policy, arguments.restart_cost);
    let result = if arguments.per_job { trace_lines(&jobs, &outcome) } else { trace_summary(&jobs, &outcome) };
    match &arguments.out {
        Some(out) => write_whole(out, result.as_bytes()).map(|()| String::new()),
        None => Ok(result),
    }
}

fn trace_lines(jobs: &[TraceJob], outcome: &TraceOutcome) -> String {
    let mut lines = String::from("job_id,start_s,end_s\n");
    for (job, span) in jobs.iter().zip(&outcome.spans) {
        lines += &format!("{},{},{}\n", job.id, span.start_s, span.end_s);
    }
    lines
}

fn trace_summary(jobs: &[TraceJob], outcome: &TraceOutcome) -> String {
    let mut waits: Vec<u64> = jobs.iter().zip(&outcome.spans).map(|(job, span)| span.end_s - job.submit_s).collect();
    waits.sort_unstable();
    let mean = waits.iter().map(|wait| *wait as f64).sum::<f64>() / waits.len().max(1) as f64;
    let quantile = |part: f64| waits.get((part * waits.len() as f64) as usize).or(waits.last()).copied().unwrap_or(0);
    let end = outcome.spans.iter().map(|span| span.end_s).max().unwrap_or(0);
    format!(
        "{} jobs, {} events, {} preemptions\nmean completion {mean:.4} s, median {} s, p95 {} s, last end {end} s\n",
        jobs.len(),
        outcome.events,
        outcome.preemptions,
        quantile(0.5),
        quantile(0.95),
    )
}
