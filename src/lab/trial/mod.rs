//! One run of a schedule of real jobs under a governor of our own: what the demo and the benchmarks are made of.
//!
//! Jobs are started at their times, watched through the governor's API, and waited for. Imports: api, config, daemon, host,
//! workload.

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

/// Between two looks at the governor's status.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Evaluations: (seconds since the run's beginning, value).
type Curve = Vec<(f64, f64)>;

/// What a job's own task tells the trial.
enum News {
    Started(usize, Duration),
    Ended(usize, Duration, JobOutcome, Curve),
}

/// What becomes of a run in which a job ends with another exit code than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The others go on, and the outcome tells.
    GoOn,
    /// The run ends with [`JobFailed`].
    Stop,
}

/// A job ended with another exit code than 0.
#[derive(Debug, thiserror::Error)]
#[error("the job {name} ended with exit code {exit_code}{}", last_words(last_lines))]
pub struct JobFailed {
    /// The job.
    name: String,
    /// 128 + signal when one ended it.
    exit_code: i32,
    /// The end of its output.
    last_lines: Vec<String>,
}

fn last_words(lines: &[String]) -> String {
    match lines {
        [] => " and printed nothing".to_owned(),
        lines => format!("; its last lines:\n    {}", lines.join("\n    ")),
    }
}

/// Runs all jobs to their end.
///
/// # Errors
/// A job could not be started or waited for, or it failed and that is to stop the run. Jobs are left running then, as when the
/// future is dropped: clear the backend.
pub async fn run(
    backend: &Backend,
    governor: &Governor,
    jobs: &[Job],
    view: &ProgressView,
    on_failure: OnFailure,
) -> Result<RunOutcome> {
    let began = Instant::now();
    let cpu_before = CpuTime::now(backend.cores());
    let (tell, mut news) = mpsc::channel(2 * jobs.len().max(1));
    let mut tasks = JoinSet::new();
    for (index, job) in jobs.iter().enumerate() {
        let run = OneRun { began, on_failure, tell: tell.clone() };
        tasks.spawn(run_job(backend.clone(), job.clone(), index, run));
    }
    drop(tell);

    let mut view = view.run(jobs);
    let mut watch =
        Watch { jobs, backend, running: vec![false; jobs.len()], samples: Vec::new(), last: Duration::ZERO };
    let mut outcomes: Vec<Option<(JobOutcome, Curve)>> = vec![None; jobs.len()];
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            told = news.recv() => match told {
                None => break,
                Some(News::Started(job, at)) => {
                    watch.running[job] = true;
                    view.started(job, at);
                }
                Some(News::Ended(job, at, outcome, curve)) => {
                    watch.running[job] = false;
                    view.ended(job, at, Duration::from_secs_f64(outcome.completion_s), outcome.exit_code);
                    outcomes[job] = Some((outcome, curve));
                }
            },
            Some(ended) = tasks.join_next() => ended.context("a job's task ended unexpectedly")??,
            _ = look.tick() => {
                if let Some(status) = governor.status().await {
                    watch.look(began.elapsed(), &status, &mut view);
                }
            }
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a job's task ended unexpectedly")??;
    }
    let (outcomes, curves): (Vec<JobOutcome>, Vec<Curve>) = outcomes.into_iter().flatten().unzip();
    let cpu = cpu_before.zip(CpuTime::now(backend.cores()));
    let used = core_seconds(&watch.samples);
    let length = watch.samples.last().map_or(0.0, |sample| sample.at.as_secs_f64());
    let foreign =
        cpu.map(|(before, after)| foreign_load(after.since(&before), used / length.max(1e-3))).unwrap_or_default();
    let cpu_s = used * backend.cores().count() as f64;
    Ok(RunOutcome { curves, cpu_s, ..RunOutcome::new(outcomes, watch.samples, foreign) })
}

/// What the task of each job knows of the run.
struct OneRun {
    began: Instant,
    on_failure: OnFailure,
    tell: mpsc::Sender<News>,
}

async fn run_job(backend: Backend, job: Job, index: usize, run: OneRun) -> Result<()> {
    let OneRun { began, on_failure, tell } = run;
    tokio::time::sleep(job.start.saturating_sub(began.elapsed())).await;
    let start = began.elapsed();
    let started = backend.start(&job).await?;
    // The trial hears all or is gone; a job does not end because nobody listens.
    let _ = tell.send(News::Started(index, start)).await;
    let (mut collector, mut last_lines) = (LogCollector::of(&job), LastLines::default());
    let hear = |bytes: &[u8]| {
        collector.collect(bytes, began.elapsed());
        last_lines.push(bytes);
    };
    let ended = started.wait(hear).await?;
    if ended.exit_code != 0 {
        let failed = JobFailed { name: job.name.clone(), exit_code: ended.exit_code, last_lines: last_lines.lines() };
        match on_failure {
            OnFailure::Stop => return Err(failed.into()),
            OnFailure::GoOn => eprintln!("flowctl: {failed}"),
        }
    }
    let end = ended.at - began;
    let outcome = JobOutcome {
        name: job.name,
        start_s: start.as_secs_f64(),
        completion_s: (end - start).as_secs_f64(),
        exit_code: ended.exit_code,
    };
    let _ = tell.send(News::Ended(index, end, outcome, collector.curve())).await;
    Ok(())
}

/// What was seen so far.
struct Watch<'a> {
    jobs: &'a [Job],
    backend: &'a Backend,
    running: Vec<bool>,
    samples: Vec<Sample>,
    last: Duration,
}

impl Watch<'_> {
    fn look(&mut self, at: Duration, status: &Status, view: &mut RunProgress<'_>) {
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

/// `machine` is how often the jobs' cores go into the whole machine.
fn view_of(container: &Container, machine: f64) -> View {
    View {
        done: container.progress.as_ref().and_then(|progress| progress.fraction),
        used: container.cpu_used.map(|of_machine| of_machine * machine),
        metric: container.metric.as_ref().and_then(|metric| Some((metric.name.clone()?, metric.value?))),
        list: container.list.clone(),
    }
}

/// Reads the time between two decisions.
pub fn interval(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::from_secs(1), Duration::from_secs(600))
}

/// Ctrl-C, or a polite request to end.
pub async fn interrupted() -> Failure {
    let ended =
        |code, name: &str| Failure::new(code, format!("ended by {name}; everything was removed"), "start it again");
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

/// What the samples add up to: seconds of all cores together.
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

/// What the cores did besides the jobs, which used the part `ours`: what the kernel counted less that.
fn foreign_load(cpu: CpuParts, ours: f64) -> Foreign {
    Foreign { ours, stolen: cpu.stolen, others: (cpu.busy - ours).max(0.0) }
}
