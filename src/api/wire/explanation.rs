//! `/v1/containers/{id}`: one container with every number behind its decision. Imports: model, sibling wire types.

use super::{Container, Limits, Pressure, Reading, finite, finite_option};
use crate::model::{self, JobStatus, NodeStatus, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// One container with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContainerDetail {
    /// The container as the lists show it.
    #[serde(flatten)]
    pub container: Container,
    /// Every number behind the decision.
    pub explanation: Explanation,
}

impl ContainerDetail {
    /// The wire form of one job of a snapshot.
    pub fn of(job: &JobStatus, status: &NodeStatus) -> ContainerDetail {
        ContainerDetail { container: Container::of(job, status), explanation: Explanation::of(job, status) }
    }
}

/// Every number behind a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The policy in force.
    pub policy: String,
    /// The rule that decided with its numbers; null before the first decision.
    pub decision: Option<Decision>,
    /// Whom it competes with, and for what; null before the first decision.
    #[serde(default)]
    pub domain: Option<Domain>,
    /// Growth efficiency of every resource.
    pub growth: GrowthEfficiency,
    /// Below this growth a container moves towards the completing list, per node-CPU-second.
    pub growth_threshold: f64,
    /// The positive growth of all containers together, per node-CPU-second: what parts are parts of.
    pub growth_of_all: f64,
    /// How many containers that is.
    pub containers_measured: usize,
    /// What the log reading understood.
    pub reading: Reading,
    /// Limits before us, now, and as planned.
    pub limits: Limits,
    /// What others did to its limits, oldest first: the last few.
    pub drifts: Vec<Drift>,
    /// The least share that the owner asked for (`flowcon.min-share`).
    pub min_share: f64,
    /// The most (`flowcon.max-share`).
    pub max_share: f64,
    /// Importance among the containers (`flowcon.weight`).
    pub weight: f64,
    /// Memory below which it is never squeezed (`flowcon.memory-floor`).
    pub memory_floor_bytes: Option<u64>,
    /// Seconds from now until it should be done (`flowcon.deadline`); zero when that is past.
    pub deadline_in_s: Option<f64>,
    /// Beside whom it would not fit on one GPU; left out where that is nobody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_room: Vec<NoRoom>,
    /// What it has used.
    pub used: Use,
    /// The present interval between decisions.
    pub interval_s: f64,
    /// When the next decision is due.
    pub next_decision_unix_ms: u64,
    /// The same as a distance from now; zero when overdue.
    pub next_decision_in_s: f64,
}

impl Explanation {
    fn of(job: &JobStatus, status: &NodeStatus) -> Explanation {
        let observed = &job.observed;
        let plan = job.plan.as_ref();
        let ahead = status.next_tick.since(status.now);
        let growths = status.jobs.iter().filter_map(|job| finite_option(job.plan.as_ref()?.growth.cpu));
        Explanation {
            policy: super::word(status.settings.policy),
            decision: plan.map(|plan| Decision::of(&plan.reason)),
            domain: plan.map(|plan| Domain::of(&plan.contention, &observed.place)),
            growth: GrowthEfficiency::of(plan.map(|plan| plan.growth).unwrap_or_default()),
            growth_threshold: status.settings.flowcon.growth_threshold,
            growth_of_all: growths.clone().map(|growth| growth.max(0.0)).sum(),
            containers_measured: growths.count(),
            reading: Reading::of(job, status.now),
            limits: Limits::of(&observed.original, &observed.limits, plan.and_then(|plan| plan.limits.as_ref())),
            drifts: job.drifts.iter().map(Drift::of).collect(),
            min_share: job.directives.bounds.min.fraction(),
            max_share: job.directives.bounds.max.fraction(),
            weight: finite(observed.weight).unwrap_or(1.0),
            memory_floor_bytes: observed.memory_floor.map(|bytes| bytes.0),
            deadline_in_s: observed.deadline.map(|deadline| deadline.since(status.now).as_secs_f64()),
            no_room: NoRoom::of(job, status),
            used: Use::of(&observed.usage),
            interval_s: status.interval.as_secs_f64(),
            next_decision_unix_ms: status.unix_ms.saturating_add(ahead.0),
            next_decision_in_s: ahead.as_secs_f64(),
        }
    }
}

/// A container's contention domain: the containers that want the same processors below the same cgroup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// Containers in it, this one included.
    pub containers: usize,
    /// Cores that they can have together, as last measured: neighbours that are not governed use the rest.
    pub cores: f64,
    /// Cores that it could use alone: those that it may run on, less quotas.
    pub most_cores: f64,
    /// Processors that it may run on, `0-3,8`; null = unknown.
    pub processors: Option<String>,
    /// Memory nodes that it may allocate from; null = unknown.
    pub memory_nodes: Option<String>,
    /// The cgroup above its own; null = unknown.
    pub parent: Option<String>,
}

impl Domain {
    fn of(contention: &model::Contention, place: &model::Place) -> Domain {
        Domain {
            containers: contention.containers,
            cores: finite(contention.cores).unwrap_or(0.0),
            most_cores: finite(contention.most).unwrap_or(0.0),
            processors: place.cpus.as_ref().map(ToString::to_string),
            memory_nodes: place.memory_nodes.as_ref().map(ToString::to_string),
            parent: place.parent.as_deref().map(str::to_owned),
        }
    }
}

/// The rule that decided, with the numbers that it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// `not-measured`, `silent`, `paused`, `growing`, `watching`, `converged`, `all-converged`, `observe-only`, `bounded`, `held`, `plain-block`, `ranked`, `ranked-on-gpu` or `unranked`.
    pub rule: String,
    /// In a few words.
    pub text: String,
    /// The whole story in a sentence or two.
    pub story: String,
    /// The rule's numbers by name and unit.
    pub numbers: BTreeMap<String, f64>,
}

impl Decision {
    pub(super) fn of(reason: &Reason) -> Decision {
        let (rule, numbers) = spelled(reason);
        Decision {
            rule: rule.to_owned(),
            text: reason.to_string(),
            story: reason.explanation(),
            numbers: numbers
                .into_iter()
                .filter_map(|(name, number)| Some((name.to_owned(), finite(number)?)))
                .collect(),
        }
    }
}

/// The rule's name for programs, and its numbers by name and unit.
pub(super) fn spelled(reason: &Reason) -> (&'static str, Vec<(&'static str, f64)>) {
    match reason {
        Reason::NotMeasured => ("not-measured", Vec::new()),
        Reason::Silent => ("silent", Vec::new()),
        Reason::Unranked => ("unranked", Vec::new()),
        Reason::Paused => ("paused", Vec::new()),
        Reason::Growing { growth, part } => {
            ("growing", vec![("growth_per_node_cpu_s", *growth), ("part_of_growth", part.fraction())])
        }
        Reason::Watching { growth } => ("watching", vec![("growth_per_node_cpu_s", *growth)]),
        Reason::Converged { growth, floor } => {
            ("converged", vec![("growth_per_node_cpu_s", *growth), ("floor_share", floor.fraction())])
        }
        Reason::AllConverged { interval } => ("all-converged", vec![("interval_s", interval.as_secs_f64())]),
        Reason::ObserveOnly => ("observe-only", Vec::new()),
        Reason::Bounded { wanted, bound } => {
            ("bounded", vec![("wanted_share", wanted.fraction()), ("bound_share", bound.fraction())])
        }
        Reason::PlainBlock { until_unix_ms } => ("plain-block", vec![("until_unix_ms", *until_unix_ms as f64)]),
        Reason::Held { .. } => ("held", Vec::new()),
        Reason::Ranked { work, rank, of, .. } => {
            ("ranked", vec![("work_cpu_s", *work), ("rank", *rank as f64), ("ranked", *of as f64)])
        }
        Reason::RankedOnGpu { gpu, work, rank, of, .. } => {
            let ranks =
                [("gpu", f64::from(*gpu)), ("work_gpu_s", *work), ("rank", *rank as f64), ("ranked", *of as f64)];
            ("ranked-on-gpu", ranks.to_vec())
        }
    }
}

/// A limit that was found changed, and not by the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Drift {
    /// When it was found, Unix time in milliseconds.
    pub unix_ms: u64,
    /// `system` (its original came back by itself) or `somebody` (a value of their own).
    pub by: String,
    /// What was found, and what is done about it.
    pub text: String,
}

impl Drift {
    fn of(drift: &model::LimitDrift) -> Drift {
        Drift { unix_ms: drift.unix_ms, by: super::word(drift.by), text: drift.text.clone() }
    }
}

/// Evaluation gained per unit of each resource; null = not measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GrowthEfficiency {
    /// Range of the evaluation per second on all cores.
    pub per_node_cpu_s: Option<f64>,
    /// Per second with the node's whole memory.
    pub per_node_memory_s: Option<f64>,
    /// Per GiB read or written on block devices.
    pub per_block_io_gib: Option<f64>,
    /// Per GiB received or sent.
    pub per_network_io_gib: Option<f64>,
    /// Per GPU-second; left out where it uses no GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_gpu_s: Option<f64>,
}

impl GrowthEfficiency {
    fn of(growth: model::GrowthEfficiency) -> GrowthEfficiency {
        GrowthEfficiency {
            per_node_cpu_s: finite_option(growth.cpu),
            per_node_memory_s: finite_option(growth.memory),
            per_block_io_gib: finite_option(growth.block_io),
            per_network_io_gib: finite_option(growth.network_io),
            per_gpu_s: finite_option(growth.gpu),
        }
    }
}

/// Another job that it would not fit beside on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NoRoom {
    /// The other job.
    pub beside: String,
    /// The number of the other job's GPU.
    pub gpu: u32,
    /// GPU memory that both hold together.
    pub together_bytes: u64,
    /// Memory that the GPU, or the instance of it, has.
    pub total_bytes: u64,
}

impl NoRoom {
    fn of(job: &JobStatus, status: &NodeStatus) -> Vec<NoRoom> {
        let others = status.jobs.iter().map(|other| &other.observed).filter(|other| other.id != job.observed.id);
        let others = others.map(|other| (other.name.as_str(), other.gpus.as_slice()));
        let told = |model::NoRoom { beside, gpu, together, total }| NoRoom {
            beside,
            gpu,
            together_bytes: together.0,
            total_bytes: total.0,
        };
        model::no_room(&job.observed.gpus, others, &status.gpus).into_iter().map(told).collect()
    }
}

/// What a container has used since it started, and holds now; null = could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Use {
    /// CPU time in core-seconds.
    pub cpu_s: Option<f64>,
    /// CPU time lost to a quota, in core-seconds.
    pub throttled_s: Option<f64>,
    /// Quota periods in which it was throttled.
    pub throttled_periods: Option<u64>,
    /// Memory charged now.
    pub memory_bytes: Option<u64>,
    /// Memory less inactive file cache, now.
    pub working_set_bytes: Option<u64>,
    /// Bytes read and written on block devices.
    pub block_io_bytes: Option<u64>,
    /// Bytes received and sent.
    pub network_io_bytes: Option<u64>,
    /// Its own pressure.
    pub pressure: Pressure,
}

impl Use {
    fn of(usage: &model::Usage) -> Use {
        Use {
            cpu_s: usage.cpu.map(|cpu| cpu.as_secs_f64()),
            throttled_s: usage.throttled.map(|cpu| cpu.as_secs_f64()),
            throttled_periods: usage.throttled_periods,
            memory_bytes: usage.memory.map(|bytes| bytes.0),
            working_set_bytes: usage.working_set.map(|bytes| bytes.0),
            block_io_bytes: usage.block_io.map(|bytes| bytes.0),
            network_io_bytes: usage.network_io.map(|bytes| bytes.0),
            pressure: Pressure::of(&usage.pressure),
        }
    }
}
