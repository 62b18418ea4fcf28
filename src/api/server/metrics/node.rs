//! Metrics of the node and its containers.
//!
//! Cardinality is bounded: the series of a container have only its id and name as labels, exist while the container does, and are
//! exported for at most [`MAX_CONTAINERS`] containers. The number of omitted containers is a metric.

use super::family::{Kind, family, identity, single};
use super::gpu;
use model::{JobStatus, List, NodeStatus, NoticeLevel, Pressure, word};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt::Error;
use std::sync::Arc;

/// Maximum number of containers whose series are exported.
const MAX_CONTAINERS: usize = 1000;

#[derive(Debug)]
pub(super) struct NodeMetrics(pub(super) Arc<NodeStatus>);

impl Collector for NodeMetrics {
    fn encode(&self, mut out: DescriptorEncoder) -> Result<(), Error> {
        node(&self.0, &mut out)?;
        gpu::gpus(&self.0.gpus, &mut out)?;
        let jobs = &self.0.jobs[..self.0.jobs.len().min(MAX_CONTAINERS)];
        containers(jobs, &mut out)?;
        gpu::of_containers(jobs, &mut out)
    }
}

fn node(status: &NodeStatus, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let ahead = status.next_tick.since(status.now).as_secs_f64();
    let jobs = status.jobs.len();
    let version = [("version", env!("CARGO_PKG_VERSION").to_owned())];
    let policy = crate::wire::Policy::of(&status.settings).policy;
    family(out, Kind::Gauge, "flowcon_build_info", "Always 1; the version is a label", [(version, 1.0)])?;
    family(
        out,
        Kind::Gauge,
        "flowcon_policy_info",
        "Always 1; the current policy is a label",
        [([("policy", policy)], 1.0)],
    )?;
    single(out, Kind::Gauge, "flowcon_cores", "Usable cores", Some(status.cores))?;
    single(
        out,
        Kind::Gauge,
        "flowcon_released",
        "Whether an operator released everything",
        Some(f64::from(u8::from(status.released))),
    )?;
    single(
        out,
        Kind::Gauge,
        "flowcon_plain_block",
        "Whether this is a control period, in which all containers have their original limits",
        Some(f64::from(u8::from(status.holdback.is_some_and(|block| block.plain)))),
    )?;
    single(out, Kind::Counter, "flowcon_decisions", "Decisions taken", Some(status.ticks as f64))?;
    single(
        out,
        Kind::Gauge,
        "flowcon_interval_seconds",
        "Current interval between decisions",
        Some(status.interval.as_secs_f64()),
    )?;
    single(
        out,
        Kind::Gauge,
        "flowcon_next_decision_timestamp_seconds",
        "Time of the next decision",
        Some(status.unix_ms as f64 / 1000.0 + ahead),
    )?;
    single(
        out,
        Kind::Gauge,
        "flowcon_snapshot_timestamp_seconds",
        "Time of the snapshot",
        Some(status.unix_ms as f64 / 1000.0),
    )?;
    family(
        out,
        Kind::Gauge,
        "flowcon_pressure_ratio",
        "Fraction of the last ten seconds in which some task waited",
        pressures(&status.pressure),
    )?;
    single(
        out,
        Kind::Gauge,
        "flowcon_weights_effect_ratio",
        "Effect of CPU weights on who runs: about 1 where they decide, 0 where they do not",
        status.weights_effect,
    )?;
    family(
        out,
        Kind::Counter,
        "flowcon_jobs_ended",
        "Jobs that ended since the daemon started, by how they ended",
        status.ends.iter().map(|(kind, count)| ([("end", (*kind).to_owned())], *count as f64)),
    )?;
    single(out, Kind::Gauge, "flowcon_containers", "Governed containers", Some(jobs as f64))?;
    single(
        out,
        Kind::Gauge,
        "flowcon_containers_omitted",
        "Governed containers whose series are omitted, to bound their number",
        Some(jobs.saturating_sub(MAX_CONTAINERS) as f64),
    )
}

fn pressures(pressure: &Pressure) -> impl Iterator<Item = ([(&'static str, String); 1], f64)> {
    [("cpu", pressure.cpu), ("memory", pressure.memory), ("io", pressure.io)]
        .into_iter()
        .filter_map(|(resource, number)| Some(([("resource", resource.to_owned())], number?)))
}

/// A value of one container, if known.
type ContainerValue = fn(&JobStatus) -> Option<f64>;

const CONTAINER_METRICS: &[(Kind, &str, &str, ContainerValue)] = &[
    (Kind::Gauge, "flowcon_container_share_ratio", "Share of the node under contention", |job| {
        Some(job.plan.as_ref()?.share.fraction())
    }),
    (Kind::Gauge, "flowcon_container_limit_ratio", "Limit in the terms of the policy, 1 = free competition", |job| {
        Some(job.plan.as_ref()?.limit.fraction())
    }),
    (Kind::Gauge, "flowcon_container_growth_efficiency", "Range of the evaluation gained per node-CPU-second", |job| {
        job.plan.as_ref()?.growth.cpu
    }),
    (
        Kind::Gauge,
        "flowcon_container_growth_efficiency_memory",
        "Range of the evaluation gained per second with the node's whole memory",
        |job| job.plan.as_ref()?.growth.memory,
    ),
    (
        Kind::Gauge,
        "flowcon_container_growth_efficiency_block_io",
        "Range of the evaluation gained per GiB read or written on block devices",
        |job| job.plan.as_ref()?.growth.block_io,
    ),
    (
        Kind::Gauge,
        "flowcon_container_growth_efficiency_network_io",
        "Range of the evaluation gained per GiB received or sent",
        |job| job.plan.as_ref()?.growth.network_io,
    ),
    (Kind::Gauge, "flowcon_container_cpu_weight", "Current CPU weight, scale of cpu.weight", |job| {
        Some(f64::from(job.observed.limits.cpu_weight?.number()))
    }),
    (Kind::Gauge, "flowcon_container_cpu_used_ratio", "Recent fraction of the node's CPU used", |job| job.cpu_used),
    (Kind::Counter, "flowcon_container_cpu_seconds", "CPU time used", |job| {
        Some(job.observed.usage.cpu?.as_secs_f64())
    }),
    (Kind::Counter, "flowcon_container_energy_joules", "Energy used, where the machine tells it", |job| job.energy),
    (Kind::Counter, "flowcon_container_cpu_throttled_seconds", "CPU time lost to a quota", |job| {
        Some(job.observed.usage.throttled?.as_secs_f64())
    }),
    (Kind::Gauge, "flowcon_container_memory_bytes", "Memory charged", |job| Some(job.observed.usage.memory?.0 as f64)),
    (Kind::Gauge, "flowcon_container_working_set_bytes", "Memory charged without inactive file cache", |job| {
        Some(job.observed.usage.working_set?.0 as f64)
    }),
    (Kind::Counter, "flowcon_container_block_io_bytes", "Bytes read and written on block devices", |job| {
        Some(job.observed.usage.block_io?.0 as f64)
    }),
    (Kind::Counter, "flowcon_container_network_io_bytes", "Bytes received and sent", |job| {
        Some(job.observed.usage.network_io?.0 as f64)
    }),
    (Kind::Gauge, "flowcon_container_evaluation", "Latest value of the evaluation function, as printed", |job| {
        Some(job.observed.learning.latest?.value)
    }),
    (Kind::Counter, "flowcon_container_evaluations", "Evaluations read", |job| {
        Some(job.observed.learning.evaluations as f64)
    }),
    (Kind::Gauge, "flowcon_container_reading_confidence_ratio", "Confidence of the log reading", |job| {
        Some(job.observed.learning.confidence)
    }),
    (Kind::Gauge, "flowcon_container_progress_ratio", "Fraction of the work done, from the log", |job| {
        let progress = job.observed.learning.progress?;
        Some((progress.current / progress.total.filter(|total| *total > 0.0)?).clamp(0.0, 1.0))
    }),
    (Kind::Gauge, "flowcon_container_remaining_seconds", "Time to completion, as forecast", |job| {
        Some(job.time_left?.likely)
    }),
    (
        Kind::Gauge,
        "flowcon_container_cpu_waste_ratio",
        "CPU per progress unit beside other jobs, as a multiple of that in its own turn",
        |job| job.forecast?.waste,
    ),
    (
        Kind::Counter,
        "flowcon_container_cpu_lost_seconds",
        "CPU-seconds that progress units cost beside other jobs in addition to their cost in the job's own turn",
        |job| job.forecast?.lost_s,
    ),
    (
        Kind::Gauge,
        "flowcon_container_runnable_threads",
        "Threads that ran or waited for a processor, on average, while the job competes",
        |job| job.threads?.runnable,
    ),
    (Kind::Gauge, "flowcon_container_run_queue_ratio", "Part of that time in which its threads waited", |job| {
        job.threads?.waiting
    }),
    (
        Kind::Gauge,
        "flowcon_container_switches_per_second",
        "Switches between its threads and others, while the job competes",
        |job| Some(job.threads?.voluntary_switches + job.threads?.involuntary_switches),
    ),
    (Kind::Gauge, "flowcon_container_held", "Whether its limits are left alone", |job| {
        Some(f64::from(u8::from(job.observed.hold.is_some())))
    }),
    (Kind::Gauge, "flowcon_container_warnings", "Warnings about this container", |job| {
        Some(job.notices.iter().filter(|notice| notice.level == NoticeLevel::Warning).count() as f64)
    }),
];

fn containers(jobs: &[JobStatus], out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    for (kind, name, help, reading) in CONTAINER_METRICS {
        let series = jobs.iter().filter_map(|job| {
            let number = reading(job).filter(|number| number.is_finite())?;
            Some((identity(job), number))
        });
        family(out, *kind, name, help, series)?;
    }
    let lists = jobs.iter().filter_map(|job| Some((job, job.plan.as_ref()?.list?))).flat_map(|(job, list)| {
        [("new", List::New), ("watching", List::Watching), ("completing", List::Completing)].map(|(word, each)| {
            let [id, name] = identity(job);
            ([id, name, ("list", word.to_owned())], f64::from(u8::from(each == list)))
        })
    });
    family(out, Kind::Gauge, "flowcon_container_list", "1 for the list that the container is in", lists)?;
    let health = jobs.iter().map(|job| {
        let [id, name] = identity(job);
        ([id, name, ("condition", word(job.observed.health.condition))], 1.0)
    });
    family(out, Kind::Gauge, "flowcon_container_health", "Always 1; the condition of the job is a label", health)
}
