//! `/v1/history`: jobs, samples, events and control periods of the past.

use super::{Decision, Estimate, Event, Pressure, Trial, finite, finite_option, word};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of `/v1/history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobRecords {
    /// Jobs in the order of their discovery.
    pub jobs: Vec<JobRecord>,
    /// `after` of the next page; null on the last page.
    pub next: Option<u64>,
}

/// One run of one container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobRecord {
    /// Number of the job in the history.
    pub number: u64,
    /// Full id in the runtime; each start of a container is a separate job.
    pub id: String,
    /// Short id.
    pub short_id: String,
    /// Name.
    pub name: String,
    /// `docker`, `scope`, `pod` or `containerd`.
    pub runtime: String,
    /// Time of its start.
    pub started_unix_ms: u64,
    /// Time of the first sample.
    pub first_unix_ms: u64,
    /// Time of the last sample.
    pub last_unix_ms: u64,
    /// Time of its end; null while it runs, or if its end was not observed yet.
    pub ended_unix_ms: Option<u64>,
    /// Exit code reported by the engine or by `flowctl run`; null while it runs, or if unknown.
    pub exit_code: Option<i32>,
    /// `done`, `failed`, `killed-for-memory`, `signalled`, `stopped`, `unknown` or `group-stop`; null while it runs, or if an earlier
    /// version recorded its end.
    #[serde(default)]
    pub end: Option<String>,
    /// CPU weight before the first change.
    pub original_weight: Option<u32>,
    /// Name of the evaluation function.
    pub metric: Option<String>,
    /// `down` or `up`.
    pub direction: Option<String>,
    /// Unit of progress.
    pub unit: Option<String>,
    /// Total units.
    pub total: Option<f64>,
    /// The user to whom it belongs; null if it belongs to nobody, or if an earlier version recorded it.
    #[serde(default)]
    pub user: Option<String>,
    /// CPU-seconds lost beside other jobs, as in `/v1/status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_cpu_s: Option<f64>,
    /// Its sweep, and the numbers in its command; null if it was no trial.
    #[serde(default)]
    pub trial: Option<Trial>,
    /// The last sample within the requested span.
    pub latest: Option<Sample>,
}

impl JobRecord {
    pub(crate) fn of(job: &model::JobRecord, latest: Option<&model::Sample>) -> JobRecord {
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
            end: job.end.map(|end| end.kind().to_owned()),
            original_weight: job.original_weight.map(|weight| weight.number()),
            metric: job.metric.clone(),
            direction: job.direction.map(word),
            unit: job.unit.map(word),
            total: finite_option(job.total),
            user: job.user.clone(),
            lost_cpu_s: finite_option(job.lost_s),
            trial: job.trial.as_ref().map(Trial::of_record),
            latest: latest.map(Sample::of),
        }
    }
}

/// The body of `/v1/history/samples`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Samples {
    /// By job, then by time.
    pub samples: Vec<Sample>,
    /// `after` of the next page; null on the last page.
    pub next: Option<String>,
}

/// State of one job, valid until its next sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sample {
    /// Number of the job.
    pub job: u64,
    /// Time of the sample.
    pub unix_ms: u64,
    /// CPU time used since its start, in core-seconds.
    pub cpu_s: Option<f64>,
    /// Memory charged.
    pub memory_bytes: Option<u64>,
    /// GPU time as a number of whole GPUs; omitted if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<f64>,
    /// GPU memory held on all its GPUs; omitted if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory_bytes: Option<u64>,
    /// The latest evaluation; null if there was none, or it was not finite.
    pub value: Option<f64>,
    /// False if the latest evaluation was NaN or infinite; otherwise omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_is_finite: Option<bool>,
    /// Progress units done.
    pub progress: Option<f64>,
    /// Fraction of the final improvement reached, 0 to 1, from the fitted curve.
    pub quality: Option<f64>,
    /// Seconds to its end, as forecast then; omitted if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_s: Option<Estimate>,
    /// Energy used since its start, in joules; omitted where the machine does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// The CPU weight.
    pub cpu_weight: Option<u32>,
    /// `running` or `paused`.
    pub state: String,
    /// Why its limits were left alone, if they were.
    pub hold: Option<String>,
    /// `new`, `watching` or `completing`.
    pub list: Option<String>,
    /// Growth efficiency per node-CPU-second.
    pub growth: Option<f64>,
    /// Growth efficiency per second with the node's whole memory; omitted if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_memory: Option<f64>,
    /// Growth efficiency per GiB read or written; omitted if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_block_io: Option<f64>,
    /// Growth efficiency per GiB received or sent; omitted if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_network_io: Option<f64>,
    /// Share of the node under contention.
    pub share: Option<f64>,
    /// Limit in the terms of the policy: 1 = free competition.
    pub limit: Option<f64>,
    /// The rule that decided, with its numbers; null before the first decision.
    pub decision: Option<Decision>,
}

impl Sample {
    /// Whether the latest evaluation was NaN or infinite.
    pub fn has_diverged(&self) -> bool {
        self.value_is_finite == Some(false)
    }

    pub(crate) fn of(sample: &model::Sample) -> Sample {
        let decision = sample.decision.as_ref();
        let growth = decision.map(|decision| decision.growth).unwrap_or_default();
        Sample {
            job: sample.job,
            unix_ms: sample.unix_ms,
            cpu_s: sample.cpu.map(|cpu| cpu.as_secs_f64()),
            memory_bytes: sample.memory.map(|bytes| bytes.0),
            gpus: finite_option(sample.gpus),
            gpu_memory_bytes: sample.gpu_memory.map(|bytes| bytes.0),
            value: finite_option(sample.value),
            value_is_finite: sample.value.filter(|value| !value.is_finite()).map(|_| false),
            progress: finite_option(sample.progress),
            quality: finite_option(sample.quality),
            remaining_s: sample.time_left.and_then(|left| Estimate::of(left, 1.0)),
            energy_j: finite_option(sample.energy),
            cpu_weight: sample.weight.map(|weight| weight.number()),
            state: word(sample.state),
            hold: sample.hold.as_ref().map(ToString::to_string),
            list: decision.and_then(|decision| decision.list).map(word),
            growth: finite_option(growth.cpu),
            growth_memory: finite_option(growth.memory),
            growth_block_io: finite_option(growth.block_io),
            growth_network_io: finite_option(growth.network_io),
            share: decision.map(|decision| decision.share.fraction()),
            limit: decision.map(|decision| decision.limit.fraction()),
            decision: decision.map(|decision| Decision::of(&decision.reason)),
        }
    }
}

/// The body of `/v1/history/node`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeSamples {
    /// Hostname.
    pub hostname: String,
    /// In chronological order, each valid until the next; thinned evenly if there are many.
    pub readings: Vec<NodeSample>,
}

/// State of the node, valid until its next sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeSample {
    /// Time of the sample.
    pub unix_ms: u64,
    /// Usable cores.
    pub cores: f64,
    /// Interval between decisions.
    pub interval_s: f64,
    /// Whether an operator had released everything.
    pub released: bool,
    /// Pressure of the ten seconds before.
    pub pressure: Pressure,
    /// The policy.
    pub policy: String,
    /// Fraction of the credit that the default policy gave to completion.
    pub objective: f64,
    /// Growth below which the policy `flowcon` moved a job to the next list.
    pub growth_threshold: f64,
}

impl NodeSample {
    pub(crate) fn of(node: &model::NodeSample) -> NodeSample {
        NodeSample {
            unix_ms: node.unix_ms,
            cores: finite(node.cores).unwrap_or(0.0),
            interval_s: node.interval.as_secs_f64(),
            released: node.released,
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
    /// In chronological order.
    pub blocks: Vec<BlockRecord>,
    /// `after` of the next page; null on the last page.
    pub next: Option<u64>,
}

/// A block of the switchback experiment that measures the effect of governing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockRecord {
    /// Start of the block.
    pub from_unix_ms: u64,
    /// End of the block.
    pub until_unix_ms: u64,
    /// Whether it is a control period, in which all containers have their original limits.
    pub plain: bool,
    /// Measured time, from the end of the wash-out on.
    pub span_s: f64,
    /// Work of each job that was neither paused nor held.
    pub work: Vec<BlockWork>,
}

/// Work of one job in a block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockWork {
    /// Number of the job.
    pub job: u64,
    /// CPU time used in the block, in core-seconds.
    pub cpu_s: f64,
}

impl BlockRecord {
    pub(crate) fn of(block: &model::BlockRecord) -> BlockRecord {
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

/// The body of `/v1/history/events`. Sequence numbers count from the beginning of the history, not from the start of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventRecords {
    /// Oldest first.
    pub events: Vec<Event>,
    /// `after` of the next page; null on the last page.
    pub next: Option<u64>,
}

/// The body of `/v1/history/at`: the state of a job at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobSnapshot {
    /// The requested instant.
    pub asked_unix_ms: u64,
    /// The job.
    pub job: JobRecord,
    /// The latest sample at or before that instant.
    pub sample: Sample,
    /// The sample before it.
    pub earlier: Option<Sample>,
    /// The sample after it; null if it is still current, or the job has ended.
    pub later: Option<Sample>,
    /// The node at that instant.
    pub node: Option<NodeSample>,
}

impl JobSnapshot {
    pub(crate) fn of(instant: &model::JobSnapshot, asked_unix_ms: u64) -> JobSnapshot {
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

/// The body of `/v1/history/users`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserRecords {
    /// The users whose jobs lived in the span, ordered by name.
    pub users: Vec<UserRecord>,
}

/// What the jobs of one user used in a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserRecord {
    /// Name; `-` is the user of all jobs that belong to nobody.
    pub name: String,
    /// Number of jobs.
    pub jobs: usize,
    /// Their CPU time in the span, in core-seconds.
    pub cpu_s: f64,
}

impl UserRecord {
    pub(crate) fn of(user: &model::UserRecord) -> UserRecord {
        UserRecord { name: user.name.clone(), jobs: user.jobs, cpu_s: user.cpu.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_finite_differs_from_a_missing_one() {
        let of = |value: Option<f64>| {
            let sample = model::Sample {
                job: 1,
                unix_ms: 1,
                cpu: None,
                memory: None,
                gpus: None,
                gpu_memory: None,
                value,
                progress: None,
                quality: None,
                time_left: None,
                energy: None,
                weight: None,
                state: model::RunState::Running,
                hold: None,
                decision: None,
                is_turn: true,
            };
            serde_json::to_value(Sample::of(&sample)).expect("JSON")
        };
        for diverged in [f64::NAN, f64::INFINITY].map(Some).map(of) {
            assert!(diverged["value"].is_null() && diverged["value_is_finite"] == false, "{diverged}");
        }
        for other in [None, Some(1.5)].map(of) {
            assert!(other.get("value_is_finite").is_none(), "{other}");
            assert!(!serde_json::from_value::<Sample>(other).expect("a sample").has_diverged());
        }
    }
}
