//! Runs a schedule of real jobs under a private governor: the building block of the demo and the benchmarks.
//!
//! Jobs are started at their scheduled times, observed through the governor's API, and waited for. Imports: api, config, daemon,
//! host, workload.

pub mod backend;
pub mod confine;
pub mod governor;
pub mod job;
mod last_lines;
mod log_collector;
pub mod outcome;
pub mod picture;
pub mod progress_view;
pub mod stat;
pub mod temp_dir;

use crate::api::wire::{Container, Status};
use crate::term::exit::{Exit, Failure};
use crate::term::when;
use anyhow::{Context, Result};
use backend::Backend;
use governor::Governor;
use job::Job;
use last_lines::LastLines;
use log_collector::LogCollector;
use outcome::{Foreign, JobOutcome, RunOutcome, Sample};
use progress_view::{ProgressView, RunProgress, View};
use stat::{CpuParts, CpuTime};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Time between two requests of the governor's status.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// Evaluations: (seconds since the start of the run, value).
type Curve = Vec<(f64, f64)>;

/// A message from a job's task.
enum JobEvent {
    Started(usize, Duration),
    Ended(usize, Duration, JobOutcome, Curve),
}

/// What to do when a job exits with a non-zero code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Continue; the outcome contains the exit code.
    Continue,
    /// Stop the run with [`JobFailed`].
    Stop,
}

/// A job exited with a non-zero code.
#[derive(Debug, thiserror::Error)]
#[error("the job {name} exited with code {exit_code}{}", describe_output(last_lines))]
pub struct JobFailed {
    /// Name of the job.
    name: String,
    /// Exit code; 128 + signal if a signal killed it.
    exit_code: i32,
    /// Last lines of its output.
    last_lines: Vec<String>,
}

fn describe_output(lines: &[String]) -> String {
    match lines {
        [] => " and printed nothing".to_owned(),
        lines => format!("; its last lines:\n    {}", lines.join("\n    ")),
    }
}

/// Runs all jobs to completion.
///
/// # Errors
/// A job cannot be started or waited for, or it failed with [`OnFailure::Stop`]. Other jobs are left running, also if the future is
/// dropped: call `clear` on the backend.
pub async fn run(
    backend: &Backend,
    governor: &Governor,
    jobs: &[Job],
    view: &ProgressView,
    on_failure: OnFailure,
) -> Result<RunOutcome> {
    let began = Instant::now();
    let cpu_before = CpuTime::now(backend.cores());
    let (sender, mut events) = mpsc::channel(2 * jobs.len().max(1));
    let mut tasks = JoinSet::new();
    for (index, job) in jobs.iter().enumerate() {
        let run = OneRun { began, on_failure, sender: sender.clone() };
        tasks.spawn(run_job(backend.clone(), job.clone(), index, run));
    }
    drop(sender);

    let mut view = view.run(jobs);
    let mut monitor =
        Monitor { jobs, backend, running: vec![false; jobs.len()], samples: Vec::new(), last: Duration::ZERO };
    let mut outcomes: Vec<Option<(JobOutcome, Curve)>> = vec![None; jobs.len()];
    let mut poll = tokio::time::interval(POLL_EVERY);
    poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                None => break,
                Some(JobEvent::Started(job, at)) => {
                    monitor.running[job] = true;
                    view.started(job, at);
                }
                Some(JobEvent::Ended(job, at, outcome, curve)) => {
                    monitor.running[job] = false;
                    view.ended(job, at, Duration::from_secs_f64(outcome.completion_s), outcome.exit_code);
                    outcomes[job] = Some((outcome, curve));
                }
            },
            Some(ended) = tasks.join_next() => ended.context("a job's task ended unexpectedly")??,
            _ = poll.tick() => {
                if let Some(status) = governor.status().await {
                    monitor.update(began.elapsed(), &status, &mut view);
                }
            }
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a job's task ended unexpectedly")??;
    }
    let (outcomes, curves): (Vec<JobOutcome>, Vec<Curve>) = outcomes.into_iter().flatten().unzip();
    let cpu = cpu_before.zip(CpuTime::now(backend.cores()));
    let used = core_seconds(&monitor.samples);
    let length = monitor.samples.last().map_or(0.0, |sample| sample.at.as_secs_f64());
    let foreign =
        cpu.map(|(before, after)| foreign_load(after.since(&before), used / length.max(1e-3))).unwrap_or_default();
    let cpu_s = used * backend.cores().count() as f64;
    Ok(RunOutcome { curves, cpu_s, ..RunOutcome::new(outcomes, monitor.samples, foreign) })
}

/// Context of a job's task.
struct OneRun {
    began: Instant,
    on_failure: OnFailure,
    sender: mpsc::Sender<JobEvent>,
}

async fn run_job(backend: Backend, job: Job, index: usize, run: OneRun) -> Result<()> {
    let OneRun { began, on_failure, sender } = run;
    tokio::time::sleep(job.start.saturating_sub(began.elapsed())).await;
    let start = began.elapsed();
    let started = backend.start(&job).await?;
    // Sending fails only if the trial has ended; the job continues in any case.
    let _ = sender.send(JobEvent::Started(index, start)).await;
    let (mut collector, mut last_lines) = (LogCollector::new(&job), LastLines::default());
    let on_output = |bytes: &[u8]| {
        collector.collect(bytes, began.elapsed());
        last_lines.push(bytes);
    };
    let ended = started.wait(on_output).await?;
    if ended.exit_code != 0 {
        let failed = JobFailed { name: job.name.clone(), exit_code: ended.exit_code, last_lines: last_lines.lines() };
        match on_failure {
            OnFailure::Stop => return Err(failed.into()),
            OnFailure::Continue => eprintln!("flowctl: {failed}"),
        }
    }
    let end = ended.at - began;
    let outcome = JobOutcome {
        name: job.name,
        start_s: start.as_secs_f64(),
        completion_s: (end - start).as_secs_f64(),
        exit_code: ended.exit_code,
    };
    let _ = sender.send(JobEvent::Ended(index, end, outcome, collector.curve())).await;
    Ok(())
}

/// State and samples of the running jobs.
struct Monitor<'a> {
    jobs: &'a [Job],
    backend: &'a Backend,
    running: Vec<bool>,
    samples: Vec<Sample>,
    last: Duration,
}

impl Monitor<'_> {
    fn update(&mut self, at: Duration, status: &Status, view: &mut RunProgress<'_>) {
        let machine_in_cores = status.node.cores / self.backend.cores().count().max(1) as f64;
        let views: Vec<Option<View>> = self
            .jobs
            .iter()
            .zip(&self.running)
            .map(|(job, running)| {
                let name = self.backend.container_name(job);
                running
                    .then(|| status.containers.iter().find(|c| c.name == name))
                    .flatten()
                    .map(|container| view_of(container, machine_in_cores))
            })
            .collect();
        view.update(at, &views);
        if at > self.last {
            let used = views.iter().map(|view| view.as_ref().and_then(|view| view.used).unwrap_or(0.0)).collect();
            self.samples.push(Sample { at, used });
            self.last = at;
        }
    }
}

/// Creates the view of a container; `machine` is the ratio of the machine's cores to the jobs' cores.
fn view_of(container: &Container, machine: f64) -> View {
    View {
        done: container.progress.as_ref().and_then(|progress| progress.fraction),
        used: container.cpu_used.map(|of_machine| of_machine * machine),
        metric: container.metric.as_ref().and_then(|metric| Some((metric.name.clone()?, metric.value?))),
        list: container.list.clone(),
    }
}

/// Parses the time between two decisions.
pub fn interval(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::from_secs(1), Duration::from_secs(600))
}

/// Waits for SIGINT, SIGTERM or SIGHUP.
pub async fn interrupted() -> Failure {
    let ended = |code, name: &str| {
        Failure::new(code, format!("interrupted by {name}; everything was removed"), "start it again")
    };
    let (Ok(mut int), Ok(mut term), Ok(mut hup)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = int.recv() => ended(Exit::Failed, "Ctrl-C"),
        _ = term.recv() => ended(Exit::Failed, "SIGTERM"),
        _ = hup.recv() => ended(Exit::Failed, "SIGHUP"),
    }
}

/// The sum of the samples: seconds of all cores together.
fn core_seconds(samples: &[Sample]) -> f64 {
    let mut since = 0.0;
    let mut seconds = 0.0;
    for sample in samples {
        let at = sample.at.as_secs_f64();
        seconds += (at - since) * sample.used.iter().sum::<f64>();
        since = at;
    }
    seconds
}

/// Foreign load: the busy time counted by the kernel minus the fraction `ours` used by the jobs.
fn foreign_load(cpu: CpuParts, ours: f64) -> Foreign {
    Foreign { ours, stolen: cpu.stolen, others: (cpu.busy - ours).max(0.0) }
}
