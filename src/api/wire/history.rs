//! `/v1/history`: what was. Imports: model, sibling wire types.

use super::{Decision, Event, Pressure, finite, finite_option, word};
use crate::model::{self, Hold};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of `/v1/history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobRecords {
    /// In the order in which they were found.
    pub jobs: Vec<JobRecord>,
    /// `after` of the next page; null = that was all.
    pub next: Option<u64>,
}

/// One run of one container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobRecord {
    /// The history's own number.
    pub number: u64,
    /// The runtime's identifier, whole; a container that was started again has several jobs.
    pub id: String,
    /// The form in which people know the identifier.
    pub short_id: String,
    /// Its name.
    pub name: String,
    /// `docker` or `scope`.
    pub runtime: String,
    /// When it started.
    pub started_unix_ms: u64,
    /// When the first sample was kept.
    pub first_unix_ms: u64,
    /// When the last sample was kept.
    pub last_unix_ms: u64,
    /// When it ended; null = it runs, or nobody saw it end yet.
    pub ended_unix_ms: Option<u64>,
    /// The exit code that the engine told; null = it runs, or nobody told (commands of `flowctl run` keep theirs to themselves).
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Its CPU weight before the first change.
    pub original_weight: Option<u32>,
    /// The evaluation function's name.
    pub metric: Option<String>,
    /// `down` or `up`.
    pub direction: Option<String>,
    /// What its progress counts.
    pub unit: Option<String>,
    /// How many units it is to do.
    pub total: Option<f64>,
    /// The last sample within the span that was asked for.
    pub latest: Option<Sample>,
}

impl JobRecord {
    pub(in crate::api) fn of(job: &model::JobRecord, latest: Option<&model::Sample>) -> JobRecord {
        JobRecord {
            number: job.number,
            id: job.id.as_str().to_owned(),
            short_id: job.id.short().to_owned(),
            name: job.name.clone(),
            runtime: word(job.runtime),
            started_unix_ms: job.started_unix_ms,
            first_unix_ms: job.first_unix_ms,
            last_unix_ms: job.last_unix_ms,
            ended_unix_ms: job.ended_unix_ms,
            exit_code: job.exit_code,
            original_weight: job.original_weight.map(|weight| weight.number()),
            metric: job.metric.clone(),
            direction: job.direction.map(word),
            unit: job.unit.map(word),
            total: finite_option(job.total),
            latest: latest.map(Sample::of),
        }
    }
}

/// The body of `/v1/history/samples`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Samples {
    /// Job by job, in the order of time.
    pub samples: Vec<Sample>,
    /// `after` of the next page; null = that was all.
    pub next: Option<String>,
}

/// What stood for one job from one instant on, until its next sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sample {
    /// The job's number.
    pub job: u64,
    /// When.
    pub unix_ms: u64,
    /// CPU time used since its start, in core-seconds.
    pub cpu_s: Option<f64>,
    /// Memory charged.
    pub memory_bytes: Option<u64>,
    /// GPU time had, as a number of whole GPUs; left out where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<f64>,
    /// GPU memory held, on all its GPUs; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_bytes: Option<u64>,
    /// The latest evaluation; null where there was none, or it was not a finite number.
    pub value: Option<f64>,
    /// Progress units done.
    pub progress: Option<f64>,
    /// Part of the final improvement had, 0 to 1, from the fitted curve.
    pub quality: Option<f64>,
    /// The CPU weight that stood.
    pub cpu_weight: Option<u32>,
    /// `running` or `paused`.
    pub state: String,
    /// Why its limits were left alone, if they were.
    pub hold: Option<String>,
    /// `new`, `watching` or `completing`.
    pub list: Option<String>,
    /// Growth efficiency per node-CPU-second.
    pub growth: Option<f64>,
    /// The part of the node that it got when every container wanted more.
    pub share: Option<f64>,
    /// The limit in the policy's own terms: 1 = free competition.
    pub limit: Option<f64>,
    /// The rule that decided, with its numbers; null before the first decision.
    pub decision: Option<Decision>,
}

impl Sample {
    pub(in crate::api) fn of(sample: &model::Sample) -> Sample {
        let decision = sample.decision.as_ref();
        Sample {
            job: sample.job,
            unix_ms: sample.unix_ms,
            cpu_s: sample.cpu.map(|cpu| cpu.as_secs_f64()),
            memory_bytes: sample.memory.map(|bytes| bytes.0),
            gpus: finite_option(sample.gpus),
            gpu_memory_bytes: sample.gpu_memory.map(|bytes| bytes.0),
            value: finite_option(sample.value),
            progress: finite_option(sample.progress),
            quality: finite_option(sample.quality),
            cpu_weight: sample.weight.map(|weight| weight.number()),
            state: word(sample.state),
            hold: sample.hold.as_ref().map(held),
            list: decision.and_then(|decision| decision.list).map(word),
            growth: decision.and_then(|decision| finite_option(decision.growth)),
            share: decision.map(|decision| decision.share.fraction()),
            limit: decision.map(|decision| decision.limit.fraction()),
            decision: decision.map(|decision| Decision::of(&decision.reason)),
        }
    }
}

fn held(hold: &Hold) -> String {
    match hold {
        Hold::Operator => "an operator released it".to_owned(),
        Hold::Foreign(change) => format!("somebody else changed a limit: {change}"),
        Hold::Settling => "found already running: observed for one full interval first".to_owned(),
        Hold::Unwritable(failure) => format!("its limits could not be written: {failure}"),
    }
}

/// The body of `/v1/history/node`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeSamples {
    /// The node's name.
    pub hostname: String,
    /// In the order of time, each until the next; thinned evenly where there are many.
    pub readings: Vec<NodeSample>,
}

/// The node from one instant on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeSample {
    /// When.
    pub unix_ms: u64,
    /// Cores that might be used.
    pub cores: f64,
    /// The interval between decisions.
    pub interval_s: f64,
    /// Whether an operator had paused everything.
    pub paused: bool,
    /// Pressure of the ten seconds before.
    pub pressure: Pressure,
    /// The policy in force.
    pub policy: String,
    /// The part of the credit that the default policy gave to completion.
    pub objective: f64,
    /// The growth below which the paper's policy moved a job on.
    pub growth_threshold: f64,
}

impl NodeSample {
    pub(in crate::api) fn of(node: &model::NodeSample) -> NodeSample {
        NodeSample {
            unix_ms: node.unix_ms,
            cores: finite(node.cores).unwrap_or(0.0),
            interval_s: node.interval.as_secs_f64(),
            paused: node.paused,
            pressure: Pressure::of(&node.pressure),
            policy: word(node.policy),
            objective: finite(node.objective).unwrap_or(0.0),
            growth_threshold: finite(node.growth_threshold).unwrap_or(0.0),
        }
    }
}

/// The body of `/v1/history/blocks`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockRecords {
    /// In the order of time.
    pub blocks: Vec<BlockRecord>,
    /// `after` of the next page; null = that was all.
    pub next: Option<u64>,
}

/// A block of time with a holdback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockRecord {
    /// When it began.
    pub from_unix_ms: u64,
    /// When it ended.
    pub until_unix_ms: u64,
    /// Whether every container had its original limits.
    pub plain: bool,
    /// How long it was looked at, from the wash-out on.
    pub span_s: f64,
    /// What each job got then that was neither paused nor left alone.
    pub work: Vec<BlockWork>,
}

/// What one job got in a block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockWork {
    /// The job's number.
    pub job: u64,
    /// The CPU time that it used then, in core-seconds.
    pub cpu_s: f64,
}

impl BlockRecord {
    pub(in crate::api) fn of(block: &model::BlockRecord) -> BlockRecord {
        let work = |work: &model::BlockWork| BlockWork { job: work.job, cpu_s: work.cpu.as_secs_f64() };
        BlockRecord {
            from_unix_ms: block.from_unix_ms,
            until_unix_ms: block.until_unix_ms,
            plain: block.plain,
            span_s: block.span.as_secs_f64(),
            work: block.work.iter().map(work).collect(),
        }
    }
}

/// The body of `/v1/history/events`. Sequences count since the history began, not since the daemon started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventRecords {
    /// In order.
    pub events: Vec<Event>,
    /// `after` of the next page; null = that was all.
    pub next: Option<u64>,
}

/// The body of `/v1/history/at`: what stood for a job at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobSnapshot {
    /// The instant that was asked for.
    pub asked_unix_ms: u64,
    /// Whose.
    pub job: JobRecord,
    /// What stood then: kept at that instant or before it.
    pub sample: Sample,
    /// The sample kept before that.
    pub earlier: Option<Sample>,
    /// The sample that took its place; null = it still stands, or the job ended.
    pub later: Option<Sample>,
    /// The node then.
    pub node: Option<NodeSample>,
}

impl JobSnapshot {
    pub(in crate::api) fn of(instant: &model::JobSnapshot, asked_unix_ms: u64) -> JobSnapshot {
        JobSnapshot {
            asked_unix_ms,
            job: JobRecord::of(&instant.job, None),
            sample: Sample::of(&instant.sample),
            earlier: instant.earlier.as_ref().map(Sample::of),
            later: instant.later.as_ref().map(Sample::of),
            node: instant.node.as_ref().map(NodeSample::of),
        }
    }
}
