//! The data of a report: the history of a time span, with each job's curves in seconds since the start of the report.

use super::estimate::{Estimate, Life, at, estimate};
use super::measure::{Measurement, measure};
use crate::history::{jobs, past_blocks, past_events, samples, span};
use api::client::Client;
use api::wire::{BlockRecord, Event, JobRecord, NodeSample, NodeSamples, Policy, Sample};
use term::exit::Failure;

/// Samples requested for all jobs together.
const SAMPLES: u64 = 60_000;
/// Minimum number of evaluations needed to report the time to 95 % of the improvement.
const MIN_EVALUATIONS: usize = 5;

/// The total work of a running job is extrapolated only from this fraction of its progress on.
const MIN_PROGRESS: f64 = 0.05;

/// Everything shown on the page.
pub(super) struct Data {
    /// The node's name.
    pub hostname: String,
    /// Start of the report, Unix milliseconds.
    pub since: u64,
    /// End of the report, Unix milliseconds.
    pub until: u64,
    /// Samples of the node.
    pub node: Vec<NodeSample>,
    /// The jobs, ordered by start.
    pub jobs: Vec<Series>,
    /// Commands, holds and notices.
    pub events: Vec<Event>,
    /// Estimated completion times under plain sharing.
    pub estimate: Estimate,
    /// Effect of governing, measured against control periods.
    pub measured: Measurement,
    /// The current holdback settings.
    pub holdback: Holdback,
}

/// One job's curves; times in seconds since the start of the report.
pub(super) struct Series {
    /// Its record in the history.
    pub job: JobRecord,
    /// When it started; 0 if that was before the report.
    pub start_s: f64,
    /// Whether it started in the report.
    pub began_here: bool,
    /// Time from its start, even if that was before the report, to `seen_s`.
    pub took_s: f64,
    /// When it ended.
    pub end_s: Option<f64>,
    /// Its end, or that of the report if it is still running.
    pub seen_s: f64,
    /// CPU time since `start_s`, core-seconds.
    pub work: Vec<(f64, f64)>,
    /// Planned shares of the node, each until the next.
    pub shares: Vec<(f64, f64)>,
    /// CPU weights in force, each until the next.
    pub weights: Vec<(f64, f64)>,
    /// Evaluations as fractions of its improvement, 0 ..= 1.
    pub improvement: Vec<(f64, f64)>,
    /// When it reached 95 % of its improvement.
    pub quality_s: Option<f64>,
    /// First and last finite evaluation.
    pub values: Option<(f64, f64)>,
    /// Whether the last evaluation was not finite.
    pub diverged: bool,
    /// Mean number of GPUs used; `None` if it used none.
    pub gpus: Option<f64>,
    /// Peak GPU memory in bytes.
    pub gpu_memory: Option<u64>,
    /// Its samples from the history.
    pub samples: Vec<Sample>,
}

/// The daemon's holdback settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Holdback {
    /// Fraction of time spent in control periods.
    pub part: f64,
    /// Length of a block in seconds.
    pub block_s: f64,
}

impl Data {
    /// Length of the report in seconds.
    pub(super) fn length_s(&self) -> f64 {
        self.until.saturating_sub(self.since) as f64 / 1000.0
    }

    /// Number of cores in the latest sample of the node.
    pub(super) fn cores(&self) -> f64 {
        self.node.last().map_or(1.0, |node| node.cores).max(0.01)
    }
}

/// Fetches the data of a report from the daemon.
pub(super) async fn fetch(client: &Client, since: u64, until: u64) -> Result<Data, Failure> {
    let jobs = jobs(client, &span(since, until), None).await?;
    // The report starts with its first job.
    let first = jobs.iter().map(|job| job.started_unix_ms.max(since)).min().unwrap_or(since);
    let since = first.min(until);
    let span = span(since, until);
    let node: NodeSamples = client.get(&format!("/v1/history/node?{span}&limit=600")).await?;
    let samples = samples(client, &span, None, sampling_ms(&jobs, since, until)).await?;
    let events = past_events(client, &format!("{span}&kind=command,hold,notice")).await?;
    let blocks = past_blocks(client, &span).await?;
    let policy: Policy = client.get("/v1/policy").await?;
    let mut data = assemble(node, jobs, &samples, events, &blocks, since, until);
    data.holdback = Holdback { part: policy.holdback, block_s: policy.holdback_block_s };
    Ok(data)
}

/// The time between the samples of a job with which all jobs together have about [`SAMPLES`], however long the report is.
pub(super) fn sampling_ms(jobs: &[JobRecord], since: u64, until: u64) -> u64 {
    let lived = |job: &JobRecord| job.last_unix_ms.min(until).saturating_sub(job.first_unix_ms.max(since));
    jobs.iter().map(lived).sum::<u64>() / SAMPLES
}

/// Builds the curves of each job, the estimate and the measurement.
pub(super) fn assemble(
    node: NodeSamples,
    jobs: Vec<JobRecord>,
    samples: &[Sample],
    events: Vec<Event>,
    blocks: &[BlockRecord],
    since: u64,
    until: u64,
) -> Data {
    let own = |job: &JobRecord| samples.iter().filter(|sample| sample.job == job.number).cloned().collect::<Vec<_>>();
    let mut jobs: Vec<Series> =
        jobs.into_iter().map(|job| (own(&job), job)).map(|(own, job)| series(job, own, since, until)).collect();
    jobs.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(a.job.number.cmp(&b.job.number)));
    let cores = node.readings.last().map_or(1.0, |node| node.cores).max(0.01);
    let lives: Vec<Life> = jobs.iter().map(life).collect();
    let estimate = estimate(&lives, cores).meaningful();
    let works = jobs.iter().filter_map(|series| Some((series.job.number, whole_work(&series.job)?)));
    let measured = measure(blocks, &works.collect());
    let holdback = Holdback::default();
    Data { hostname: node.hostname, since, until, node: node.readings, jobs, events, estimate, measured, holdback }
}

/// Core-seconds from a job's start to its end; extrapolated for a running job whose progress is known.
fn whole_work(job: &JobRecord) -> Option<f64> {
    let latest = job.latest.as_ref()?;
    let used = latest.cpu_s.filter(|used| *used > 0.0)?;
    if job.ended_unix_ms.is_some() {
        return Some(used);
    }
    let part = latest.progress? / job.total.filter(|total| *total > 0.0)?;
    (MIN_PROGRESS..=1.0).contains(&part).then(|| used / part)
}

fn series(job: JobRecord, samples: Vec<Sample>, since: u64, until: u64) -> Series {
    let seconds = |unix_ms: u64| (unix_ms as f64 - since as f64) / 1000.0;
    let start_s = seconds(job.started_unix_ms).max(0.0);
    let end_s = job.ended_unix_ms.filter(|ended| *ended <= until).map(seconds).map(|end| end.max(start_s));
    let length = seconds(until);
    let used: Vec<(f64, f64)> =
        samples.iter().filter_map(|sample| Some((seconds(sample.unix_ms), sample.cpu_s?))).collect();
    let began_here = job.started_unix_ms >= since;
    let base = if began_here { 0.0 } else { at(&used, 0.0) };
    let mut work = vec![(start_s, 0.0)];
    work.extend(used.iter().filter(|point| point.0 > start_s).map(|(at, cpu)| (*at, (cpu - base).max(0.0))));
    // The history keeps a sample when the rate changes, so a running job goes on at the last one.
    if job.ended_unix_ms.is_none()
        && let [.., (t0, w0), (t1, w1)] = work.as_slice()
        && length > *t1
        && t1 > t0
    {
        work.push((length, w1 + (w1 - w0) / (t1 - t0) * (length - t1)));
    }
    let stepped = |of: fn(&Sample) -> Option<f64>| -> Vec<(f64, f64)> {
        samples.iter().filter_map(|sample| Some((seconds(sample.unix_ms).max(start_s), of(sample)?))).collect()
    };
    let evaluations: Vec<(f64, f64)> = stepped(|sample| sample.value);
    let improvement = improvement(&evaluations, job.direction.as_deref());
    let diverged = samples.iter().rfind(|sample| sample.value.is_some() || sample.has_diverged());
    let diverged = diverged.is_some_and(Sample::has_diverged);
    // A sample repeats the value of the one before if there was no evaluation in between.
    let known = evaluations.chunk_by(|a, b| a.1 == b.1).count() >= MIN_EVALUATIONS;
    let quality_s = if began_here && known && !diverged {
        improvement.iter().find(|(_, part)| *part >= 0.95).map(|(at, _)| *at)
    } else {
        None
    };
    // A job that does not change has no new sample, so its last one does not tell how long it ran.
    let seen_s = end_s.unwrap_or(length.max(start_s));
    Series {
        start_s,
        began_here,
        took_s: seen_s - seconds(job.started_unix_ms),
        end_s,
        seen_s,
        work,
        shares: stepped(|sample| sample.share),
        weights: stepped(|sample| sample.cpu_weight.map(f64::from)),
        quality_s,
        values: evaluations.first().zip(evaluations.last()).map(|(first, last)| (first.1, last.1)),
        diverged,
        improvement,
        gpus: gpus(&samples),
        gpu_memory: samples.iter().filter_map(|sample| sample.gpu_memory_bytes).max(),
        samples,
        job,
    }
}

/// Mean number of GPUs used, over the time in which it was known; each sample holds until the next.
fn gpus(samples: &[Sample]) -> Option<f64> {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let known =
        pairs.filter_map(|(sample, next)| Some((sample.gpus?, next.unix_ms.saturating_sub(sample.unix_ms) as f64)));
    let (used, time) = known.fold((0.0, 0.0), |(used, time), (gpus, ms)| (used + gpus * ms, time + ms));
    (time > 0.0).then(|| used / time)
}

/// Each evaluation as a fraction of the way from the first to the best.
fn improvement(evaluations: &[(f64, f64)], direction: Option<&str>) -> Vec<(f64, f64)> {
    let Some((_, first)) = evaluations.first() else { return Vec::new() };
    let sign = if direction == Some("up") { 1.0 } else { -1.0 };
    let gained = |value: f64| sign * (value - first);
    let best = evaluations.iter().map(|(_, value)| gained(*value)).fold(0.0, f64::max);
    if best <= 0.0 {
        return Vec::new();
    }
    evaluations.iter().map(|(at, value)| (*at, gained(*value) / best)).collect()
}

fn life(series: &Series) -> Life {
    Life {
        start_s: series.start_s,
        is_whole: series.began_here,
        end_s: series.end_s,
        work: series.work.clone(),
        weights: series.weights.clone(),
        plain_weight: series.job.original_weight.map_or(100.0, f64::from),
        quality_s: series.quality_s,
    }
}
