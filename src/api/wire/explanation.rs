//! `/v1/containers/{id}`: one container with all numbers behind its decision.

use super::rule::spelled;
use super::{Container, Limits, Pressure, Reading, User, finite, finite_option};
use model::{EndedJob, JobStatus, NodeStatus, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// One container with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContainerDetail {
    /// The container as in lists.
    #[serde(flatten)]
    pub container: Container,
    /// All numbers behind the decision.
    pub explanation: Explanation,
}

impl ContainerDetail {
    /// Converts a job of a snapshot.
    pub fn of(job: &JobStatus, status: &NodeStatus) -> ContainerDetail {
        ContainerDetail { container: Container::of(job, status), explanation: Explanation::of(job, status) }
    }

    /// Converts a job that ended; the explanation is the last one before.
    pub fn of_ended(ended: &EndedJob, status: &NodeStatus) -> ContainerDetail {
        let explanation = Explanation::of(&ended.job, status);
        ContainerDetail { container: Container::of_ended(ended, status), explanation }
    }
}

/// All numbers behind a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The current policy.
    pub policy: String,
    /// The rule that decided, with its numbers; null before the first decision.
    pub decision: Option<Decision>,
    /// The evidence for its health and the next step, in sentences.
    #[serde(default)]
    pub health: String,
    /// Its contention domain; null before the first decision.
    pub domain: Option<Domain>,
    /// Growth efficiency of every resource.
    pub growth: GrowthEfficiency,
    /// Growth per node-CPU-second below which a container moves towards the completing list.
    pub growth_threshold: f64,
    /// Sum of the positive growth of all containers, per node-CPU-second.
    pub growth_of_all: f64,
    /// Number of containers in that sum.
    pub containers_measured: usize,
    /// Details of log reading.
    pub reading: Reading,
    /// Original, current and planned limits.
    pub limits: Limits,
    /// Latest changes of its limits by others, oldest first.
    pub drifts: Vec<Drift>,
    /// Minimum share (`flowcon.min-share`).
    pub min_share: f64,
    /// Maximum share (`flowcon.max-share`).
    pub max_share: f64,
    /// Relative importance (`flowcon.weight`).
    pub weight: f64,
    /// Its user, whose part it shares; omitted unless the node is divided between users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// Memory below which it is never squeezed (`flowcon.memory-floor`).
    pub memory_floor_bytes: Option<u64>,
    /// Seconds to its deadline (`flowcon.deadline`); zero if it has passed.
    pub deadline_in_s: Option<f64>,
    /// Number of the rung at which it is stopped if it has lost there (`flowcon.group-stop`); omitted if it never is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_stop_rung: Option<u8>,
    /// Jobs that would not fit with it on one GPU; omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_room: Vec<NoRoom>,
    /// Its resource usage.
    pub used: Use,
    /// What its threads did lately; null while it does not compete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Threads>,
    /// Current interval between decisions.
    pub interval_s: f64,
    /// Time of the next decision.
    pub next_decision_unix_ms: u64,
    /// Time to the next decision; zero if overdue.
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
            health: super::health::evidence(job),
            domain: plan.map(|plan| Domain::of(&plan.contention, &observed.place)),
            growth: GrowthEfficiency::of(plan.map(|plan| plan.growth).unwrap_or_default()),
            growth_threshold: status.settings.growth_threshold(),
            growth_of_all: growths.clone().map(|growth| growth.max(0.0)).sum(),
            containers_measured: growths.count(),
            reading: Reading::of(job, status.now),
            limits: Limits::of(&observed.original, &observed.limits, plan.and_then(|plan| plan.limits.as_ref())),
            drifts: job.drifts.iter().map(Drift::of).collect(),
            min_share: job.directives.bounds.min.fraction(),
            max_share: job.directives.bounds.max.fraction(),
            weight: finite(observed.weight).unwrap_or(1.0),
            user: User::of_job(job, status).filter(|_| status.settings.divides_between_users()),
            memory_floor_bytes: observed.memory_floor.map(|bytes| bytes.0),
            deadline_in_s: observed.deadline.map(|deadline| deadline.since(status.now).as_secs_f64()),
            group_stop_rung: observed.trial.as_ref().and_then(|trial| trial.stop_at),
            no_room: NoRoom::of(job, status),
            used: Use::of(&observed.usage),
            threads: job.threads.as_ref().map(Threads::of),
            interval_s: status.interval.as_secs_f64(),
            next_decision_unix_ms: status.unix_ms.saturating_add(ahead.0),
            next_decision_in_s: ahead.as_secs_f64(),
        }
    }
}

/// A container's contention domain: the containers that compete for the same processors under the same cgroup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// Number of containers, including this one.
    pub containers: usize,
    /// Cores available to all of them, as last measured: without those used by neighbours that are not governed.
    pub cores: f64,
    /// Cores available to this container alone, within its cpuset and quotas.
    pub most_cores: f64,
    /// Processors that it may run on, `0-3,8`; null = unknown.
    pub processors: Option<String>,
    /// Memory nodes that it may allocate from; null = unknown.
    pub memory_nodes: Option<String>,
    /// Its parent cgroup; null = unknown.
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

/// The rule that decided, with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// `not-measured`, `silent`, `paused`, `broken`, `growing`, `watching`, `converged`, `all-converged`, `observe-only`, `bounded`, `held`,
    /// `plain-block`, `ranked`, `ranked-on-gpu` or `unranked`.
    pub rule: String,
    /// Short explanation.
    pub text: String,
    /// Full explanation in one or two sentences.
    pub story: String,
    /// Numbers of the rule, by name with unit.
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

/// A limit that was changed by something other than the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Drift {
    /// Time of detection, Unix time in milliseconds.
    pub unix_ms: u64,
    /// `system` (the limit was reset to its original) or `somebody` (another program set another value).
    pub by: String,
    /// The change, and the reaction of the daemon.
    pub text: String,
}

impl Drift {
    fn of(drift: &model::LimitDrift) -> Drift {
        Drift { unix_ms: drift.unix_ms, by: super::word(drift.by), text: drift.text.clone() }
    }
}

/// Evaluation gained per unit of each resource; null = not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GrowthEfficiency {
    /// Range of the evaluation per second on all cores.
    pub per_node_cpu_s: Option<f64>,
    /// Per second with the node's whole memory.
    pub per_node_memory_s: Option<f64>,
    /// Per GiB read or written on block devices.
    pub per_block_io_gib: Option<f64>,
    /// Per GiB received or sent.
    pub per_network_io_gib: Option<f64>,
    /// Per GPU-second; omitted if it uses no GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// Another job that would not fit with it on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NoRoom {
    /// The other job.
    pub beside: String,
    /// Index of the other job's GPU.
    pub gpu: u32,
    /// GPU memory held by both.
    pub together_bytes: u64,
    /// Total memory of the GPU or MIG instance.
    pub total_bytes: u64,
}

impl NoRoom {
    fn of(job: &JobStatus, status: &NodeStatus) -> Vec<NoRoom> {
        let others = status.jobs.iter().map(|other| &other.observed).filter(|other| other.id != job.observed.id);
        let others = others.map(|other| (other.name.as_str(), other.gpus.as_slice()));
        let converted = |model::NoRoom { beside, gpu, together, total }| NoRoom {
            beside,
            gpu,
            together_bytes: together.0,
            total_bytes: total.0,
        };
        model::no_room(&job.observed.gpus, others, &status.gpus).into_iter().map(converted).collect()
    }
}

/// What the threads of a job did over the last seconds in which they were watched; null = the kernel does not count it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Threads {
    /// Threads that ran or waited for a processor, on average.
    pub runnable: Option<f64>,
    /// The part of that time in which they waited; null as well if none wanted to run.
    pub waiting_ratio: Option<f64>,
    /// Switches a second by threads that had to wait for something else.
    pub voluntary_switches_per_s: f64,
    /// Switches a second by the kernel, which gave the processor to another thread.
    pub involuntary_switches_per_s: f64,
}

impl Threads {
    fn of(used: &model::ThreadUse) -> Threads {
        Threads {
            runnable: finite_option(used.runnable),
            waiting_ratio: finite_option(used.waiting),
            voluntary_switches_per_s: finite(used.voluntary_switches).unwrap_or(0.0),
            involuntary_switches_per_s: finite(used.involuntary_switches).unwrap_or(0.0),
        }
    }
}

/// Resource usage of a container since it started; null = could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Use {
    /// CPU time in core-seconds.
    pub cpu_s: Option<f64>,
    /// CPU time lost to a quota, in core-seconds.
    pub throttled_s: Option<f64>,
    /// Quota periods in which it was throttled.
    pub throttled_periods: Option<u64>,
    /// Memory currently charged.
    pub memory_bytes: Option<u64>,
    /// Memory currently charged without inactive file cache.
    pub working_set_bytes: Option<u64>,
    /// Bytes read and written on block devices.
    pub block_io_bytes: Option<u64>,
    /// Bytes received and sent.
    pub network_io_bytes: Option<u64>,
    /// Pressure in its cgroup.
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
