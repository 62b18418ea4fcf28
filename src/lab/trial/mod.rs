//! Runs a schedule of real jobs under a private governor: the building block of the demo and the benchmarks.
//!
//! Jobs are started when they are due, by time or by the progress of the others, observed through the governor's API, and waited for.

pub(crate) mod backend;
pub(crate) mod confine;
mod cpu_meter;
pub(crate) mod governor;
mod interruption;
pub(crate) mod job;
mod last_lines;
mod log_collector;
pub(crate) mod outcome;
pub(crate) mod picture;
pub(crate) mod progress_view;
pub(crate) mod stat;
pub(crate) mod temp_dir;
mod warnings;
pub(crate) mod work_clock;

use anyhow::{Context, Result};
use api::wire::{Container, Status};
use backend::Backend;
use cpu_meter::read_cpu;
use governor::Governor;
pub(crate) use interruption::interrupted;
use job::TrialJob;
use last_lines::LastLines;
use log_collector::LogCollector;
use model::Estimate;
use outcome::{Foreign, JobOutcome, RunOutcome, Sample};
use progress_view::{ProgressView, RunProgress, View};
use stat::{CpuParts, CpuTime};
use std::sync::Arc;
use std::time::{Duration, Instant};
use term::when;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use warnings::Warnings;
use work_clock::{StartsCount, WorkClock};

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
pub(crate) enum OnFailure {
    /// Continue; the outcome contains the exit code.
    Continue,
    /// Stop the run with [`JobFailed`].
    Stop,
}

/// A job exited with a non-zero code.
#[derive(Debug, thiserror::Error)]
#[error("the job {name} exited with code {exit_code}{}", describe_output(last_lines))]
pub(crate) struct JobFailed {
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
pub(crate) async fn run(
    backend: &Backend,
    governor: &Governor,
    jobs: &[TrialJob],
    starts: StartsCount,
    view: &ProgressView,
    on_failure: OnFailure,
) -> Result<RunOutcome> {
    let unit = starts.unit();
    let clock = match starts {
        StartsCount::Time => None,
        StartsCount::Work(work) => Some(Arc::new(WorkClock::new(work))),
    };
    let began = Instant::now();
    let cpu_before = CpuTime::now(backend.cores());
    let (sender, mut events) = mpsc::channel(2 * jobs.len().max(1));
    let mut tasks = JoinSet::new();
    let (used_senders, used): (Vec<_>, Vec<_>) = jobs.iter().map(|_| watch::channel(None)).unzip();
    for ((index, job), used) in jobs.iter().enumerate().zip(used_senders) {
        let run = OneRun { began, clock: clock.clone(), on_failure, sender: sender.clone(), used, view: view.clone() };
        tasks.spawn(run_job(backend.clone(), job.clone(), index, run));
    }
    drop(sender);

    let mut view = view.run(jobs, unit);
    let mut monitor = Monitor::new(jobs, backend, used);
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
                let status = governor.status().await;
                monitor.hear(began.elapsed(), status.as_ref(), &mut view);
                monitor.sample(began.elapsed());
            }
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a job's task ended unexpectedly")??;
    }
    let (outcomes, curves): (Vec<JobOutcome>, Vec<Curve>) = outcomes.into_iter().flatten().unzip();
    let length = began.elapsed();
    monitor.sample(length);
    let cpu = cpu_before.zip(CpuTime::now(backend.cores()));
    let foreign = cpu.map(|(before, after)| monitor.foreign_load(after.since(&before), length)).unwrap_or_default();
    let cpu_s = monitor.cpu_seconds();
    let mut warnings = monitor.warnings.conclude(&outcomes);
    let unread = clock.iter().flat_map(|clock| clock.unread()).map(|job| &outcomes[job].name);
    warnings.extend(unread.map(|name| format!("the log of {name} could not be read while it ran")));
    let work = clock.map(|clock| clock.curve()).unwrap_or_default();
    let judged = monitor.forecasts.iter().map(|(job, at_s, forecast)| outcomes[*job].judged(*at_s, *forecast));
    let forecasts = judged.filter(|judged| judged.left_s > 0.0).collect();
    Ok(RunOutcome { curves, work, forecasts, cpu_s, warnings, ..RunOutcome::new(outcomes, monitor.samples, foreign) })
}

/// Context of a job's task.
struct OneRun {
    began: Instant,
    /// `None` = start times count time.
    clock: Option<Arc<WorkClock>>,
    on_failure: OnFailure,
    sender: mpsc::Sender<JobEvent>,
    used: watch::Sender<Option<Duration>>,
    view: ProgressView,
}

async fn run_job(backend: Backend, job: TrialJob, index: usize, run: OneRun) -> Result<()> {
    let OneRun { began, clock, on_failure, sender, used, view } = run;
    match &clock {
        None => tokio::time::sleep(job.start.saturating_sub(began.elapsed())).await,
        Some(clock) => clock.reaches(job.start).await,
    }
    let start = began.elapsed();
    let started = backend.start(&job).await?;
    let reading = read_cpu(started.whereabouts(), &used);
    // Sending fails only if the trial has ended; the job continues in any case.
    let _ = sender.send(JobEvent::Started(index, start)).await;
    let (mut collector, mut last_lines) = (LogCollector::new(&job), LastLines::default());
    let on_output = |bytes: &[u8]| {
        collector.collect(bytes, began.elapsed());
        last_lines.push(bytes);
        if let Some(clock) = &clock {
            clock.printed(index, bytes, began.elapsed());
        }
    };
    let ended = tokio::select! {
        ended = started.wait(on_output) => ended?,
        never = reading => match never {},
    };
    if let Some(clock) = &clock {
        clock.ended(index, began.elapsed());
    }
    if ended.exit_code != 0 {
        let failed = JobFailed { name: job.name.clone(), exit_code: ended.exit_code, last_lines: last_lines.lines() };
        match on_failure {
            OnFailure::Stop => return Err(failed.into()),
            OnFailure::Continue => view.print_error(&format!("flowctl: {failed}")),
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
    backend: &'a Backend,
    /// The name of each job in the governor's status.
    names: Vec<String>,
    warnings: Warnings,
    running: Vec<bool>,
    /// CPU time of each job; `None` = not read.
    used: Vec<watch::Receiver<Option<Duration>>>,
    samples: Vec<Sample>,
    /// The governor's forecasts of the time left: the job, the seconds since the start of the run, and the forecast.
    forecasts: Vec<(usize, f64, Estimate)>,
    /// Time of the last sample, and CPU time of each job then.
    last: (Duration, Vec<Duration>),
}

impl<'a> Monitor<'a> {
    fn new(jobs: &[TrialJob], backend: &'a Backend, used: Vec<watch::Receiver<Option<Duration>>>) -> Monitor<'a> {
        let last = (Duration::ZERO, vec![Duration::ZERO; jobs.len()]);
        let running = vec![false; jobs.len()];
        let names: Vec<String> = jobs.iter().map(|job| backend.container_name(job)).collect();
        let warnings = Warnings::new(jobs, &names);
        Monitor { backend, names, warnings, running, used, samples: Vec::new(), forecasts: Vec::new(), last }
    }

    /// Takes the governor's status, if it replied.
    fn hear(&mut self, at: Duration, status: Option<&Status>, view: &mut RunProgress<'_>) {
        let Some(status) = status else { return self.warnings.unanswered() };
        self.warnings.heard(&status.containers, &status.notices, status.node.policy.interval_s);
        let seen = self.names.iter().enumerate().filter(|(job, _)| self.running[*job]);
        let left = seen.filter_map(|(job, name)| {
            let container = status.containers.iter().find(|container| container.name == *name)?;
            Some((job, at.as_secs_f64(), container.progress.as_ref()?.remaining_s?.into()))
        });
        self.forecasts.extend(left);
        self.show(at, status, view);
    }

    fn show(&self, at: Duration, status: &Status, view: &mut RunProgress<'_>) {
        let machine_in_cores = status.node.cores / self.cores();
        let views: Vec<Option<View>> = self
            .names
            .iter()
            .zip(&self.running)
            .map(|(name, running)| {
                running
                    .then(|| status.containers.iter().find(|c| c.name == *name))
                    .flatten()
                    .map(|container| view_of(container, machine_in_cores))
            })
            .collect();
        view.update(at, &views);
    }

    /// Number of cores that the jobs share.
    fn cores(&self) -> f64 {
        self.backend.cores().count().max(1) as f64
    }

    /// Adds a sample of what each job used since the last one.
    fn sample(&mut self, at: Duration) {
        let cores = self.cores();
        let (since, before) = &self.last;
        let all = at.saturating_sub(*since).as_secs_f64() * cores;
        if all > 0.0 {
            let now: Vec<Duration> = self.used.iter().map(|used| used.borrow().unwrap_or_default()).collect();
            let used =
                now.iter().zip(before.iter()).map(|(now, before)| now.saturating_sub(*before).as_secs_f64() / all);
            self.samples.push(Sample { at, used: used.collect() });
            self.last = (at, now);
        }
    }

    /// CPU-seconds used by all jobs.
    fn cpu_seconds(&self) -> f64 {
        self.used.iter().filter_map(|used| *used.borrow()).map(|used| used.as_secs_f64()).sum()
    }

    /// Foreign load: the busy time of the cores, as counted by the kernel over `length`, minus what the jobs used. Unknown if the use of
    /// none of the jobs could be read.
    fn foreign_load(&self, cpu: CpuParts, length: Duration) -> Foreign {
        let stolen = cpu.stolen;
        if self.used.iter().all(|used| used.borrow().is_none()) {
            return Foreign { stolen, ..Foreign::default() };
        }
        let ours = self.cpu_seconds() / (length.as_secs_f64() * self.cores());
        Foreign { ours, stolen, others: (cpu.busy - ours).max(0.0) }
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
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::from_secs(1), Duration::from_secs(600))
}
