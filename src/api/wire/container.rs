//! One governed container as the lists show it, and its limits. Imports: model, sibling wire types.

use super::{Adoption, Estimate, GpuUse, Metric, Notice, Progress, finite, finite_option, word};
use crate::model::{self, JobStatus, NodeStatus, PlannedLimits, PolicyName, Reason};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of `/v1/containers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContainerList {
    /// The governed containers, ordered by start.
    pub containers: Vec<Container>,
}

/// One governed container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Container {
    /// The runtime's identifier, whole.
    pub id: String,
    /// The form in which people know the identifier.
    pub short_id: String,
    /// Its name; two containers may share one.
    pub name: String,
    /// `docker` or `scope`.
    pub runtime: String,
    /// `running` or `paused`.
    pub state: String,
    /// Time since it started.
    pub uptime_s: f64,
    /// `new`, `watching` or `completing`, under every policy; null before the first decision.
    pub list: Option<String>,
    /// The evaluation function, once one was read.
    pub metric: Option<Metric>,
    /// How far the job says it is.
    pub progress: Option<Progress>,
    /// Metric and progress are as another node's daemon knew them when the job left there: nothing was read here yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_carried: bool,
    /// CPU-seconds to its end, as the policy foresees them; null under every policy but `balanced`, and while nobody knows what a unit costs.
    #[serde(default)]
    pub work_left_cpu_s: Option<Estimate>,
    /// The part of the node that it gets when every container wants more; null before the first decision.
    pub share: Option<f64>,
    /// The limit in the policy's own terms: 1 = free competition.
    pub limit: Option<f64>,
    /// The least share that its owner asked for (`flowcon.min-share`).
    #[serde(default)]
    pub min_share: f64,
    /// The most (`flowcon.max-share`).
    #[serde(default = "all")]
    pub max_share: f64,
    /// The share that an operator pinned it to.
    #[serde(default)]
    pub pinned_share: Option<f64>,
    /// By whose word it is governed, where it lacks the label.
    #[serde(default)]
    pub adopted: Option<Adoption>,
    /// Growth efficiency per node-CPU-second, as last measured.
    pub growth: Option<f64>,
    /// Part of the node's CPU used over the last few seconds.
    pub cpu_used: Option<f64>,
    /// CPU-seconds used since it started.
    #[serde(default)]
    pub cpu_time_s: Option<f64>,
    /// Memory charged now.
    pub memory_bytes: Option<u64>,
    /// What it has of which GPUs; left out where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUse>,
    /// Part of the time over the last minute for which it was frozen, so that another job on its GPU keeps its speed; left out where it is
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_share: Option<f64>,
    /// The CPU weight that stands, on the scale of `cpu.weight`.
    pub cpu_weight: Option<u32>,
    /// The rule that decided, for programs.
    pub rule: Option<String>,
    /// Why, in words.
    pub why: String,
    /// Why its limits are left alone, if they are.
    pub hold: Option<Hold>,
    /// Messages about this container.
    pub notices: Vec<Notice>,
}

/// What an older daemon does not say: no bound.
fn all() -> f64 {
    1.0
}

impl Container {
    /// What is told of `job`, of this status.
    pub fn of(job: &JobStatus, status: &NodeStatus) -> Container {
        let observed = &job.observed;
        let plan = job.plan.as_ref();
        let hold = observed.hold.as_ref().map(|hold| Hold::of(hold, observed.id.short()));
        Container {
            id: observed.id.as_str().to_owned(),
            short_id: observed.id.short().to_owned(),
            name: observed.name.clone(),
            runtime: word(observed.runtime),
            state: word(observed.state),
            uptime_s: status.now.since(observed.started).as_secs_f64(),
            list: plan.and_then(|plan| plan.list).map(word),
            metric: Metric::of(job),
            progress: Progress::of(&observed.learning),
            is_carried: observed.learning.is_carried,
            work_left_cpu_s: job.forecast.and_then(|forecast| Estimate::of(forecast.to_end, 1.0)),
            share: plan.map(|plan| plan.share.fraction()),
            limit: plan.map(|plan| plan.limit.fraction()),
            min_share: job.directives.bounds.min.fraction(),
            max_share: job.directives.bounds.max.fraction(),
            pinned_share: job.pinned.map(|pin| pin.fraction()),
            adopted: job.adopted.as_ref().map(Adoption::of),
            growth: plan.and_then(|plan| finite_option(plan.growth.cpu)),
            cpu_used: finite_option(job.cpu_used),
            cpu_time_s: observed.usage.cpu.map(model::CpuTime::as_secs_f64),
            memory_bytes: observed.usage.memory.map(|bytes| bytes.0),
            gpus: observed.gpus.iter().map(GpuUse::of).collect(),
            frozen_share: finite_option(job.frozen),
            cpu_weight: observed.limits.cpu_weight.map(|weight| weight.number()),
            rule: plan.map(|plan| super::explanation::spelled(&plan.reason).0.to_owned()),
            why: why(job, status),
            hold,
            notices: job.notices.iter().map(Notice::of).collect(),
        }
    }
}

/// Why it has its share, in words, and that it is frozen for parts of the time.
fn why(job: &JobStatus, status: &NodeStatus) -> String {
    let why = why_its_share(job, status);
    match finite_option(job.frozen) {
        Some(frozen) => format!("{why}; frozen {:.0} % of the time for another on its GPU", 100.0 * frozen),
        None => why,
    }
}

/// Why it has its share, in words. A pin that decides says so, and where it does not decide, why not.
fn why_its_share(job: &JobStatus, status: &NodeStatus) -> String {
    let Some(plan) = &job.plan else { return "not decided yet".to_owned() };
    let Some(pin) = job.pinned.filter(|_| job.observed.hold.is_none()) else { return plan.reason.to_string() };
    let short = plan.share.fraction() < pin.fraction() - 0.005;
    match &plan.reason {
        _ if status.settings.policy == PolicyName::Fair => format!("pinned to {pin}, which fair does not heed"),
        Reason::Paused => plan.reason.to_string(),
        _ if short => format!("pinned to {pin}: no more is left for it"),
        Reason::Bounded { wanted, .. } => format!("pinned to {pin} (wanted {wanted})"),
        _ => format!("pinned to {pin}"),
    }
}

/// Why a container's limits are left alone, and how that ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// `operator`, `foreign`, `settling` or `unwritable`.
    pub kind: String,
    /// In words.
    pub why: String,
    /// What ends it.
    pub ends: String,
}

impl Hold {
    fn of(hold: &model::Hold, id: &str) -> Hold {
        let (kind, why, ends) = match hold {
            model::Hold::Operator => {
                ("operator", "an operator released it".to_owned(), format!("`flowctl govern {id}`"))
            }
            model::Hold::Foreign(change) => (
                "foreign",
                format!("somebody else changed a limit, which is now theirs: {change}"),
                format!("`flowctl govern {id}` takes it back"),
            ),
            model::Hold::Settling => (
                "settling",
                "found already running: observed for one full interval first".to_owned(),
                "by itself, at the next decision".to_owned(),
            ),
            model::Hold::Unwritable(failure) => (
                "unwritable",
                format!("its limits could not be written: {failure}"),
                format!("mend that (`flowctl doctor` helps), then `flowctl govern {id}`"),
            ),
        };
        Hold { kind: kind.to_owned(), why, ends }
    }
}

/// One limit: before us, now, and as planned. Null = the kernel has no such limit or it could not be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// What it was before our first change.
    pub original: Option<f64>,
    /// What stands in the cgroup.
    pub standing: Option<f64>,
    /// What the plan wants; the original where the plan leaves it alone.
    pub planned: Option<f64>,
}

impl Limit {
    fn of(original: Option<f64>, standing: Option<f64>, planned: Option<f64>) -> Limit {
        Limit { original, standing, planned: planned.or(original) }
    }
}

/// The limits of one container. Infinity is spelled −1: `memory.high` = `max`, no CPU quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// `cpu.weight`, 1 to 10,000.
    pub cpu_weight: Limit,
    /// `cpu.max` in cores.
    pub cpu_quota_cores: Limit,
    /// `memory.low`; 0 = unprotected.
    pub memory_low_bytes: Limit,
    /// `memory.high`.
    pub memory_high_bytes: Limit,
    /// `io.weight`, 1 to 10,000.
    pub io_weight: Limit,
}

/// How an absent limit is spelled where a number is expected.
const UNLIMITED: f64 = -1.0;

impl Limits {
    pub(super) fn of(original: &model::Limits, standing: &model::Limits, planned: Option<&PlannedLimits>) -> Limits {
        let planned = planned.copied().unwrap_or_default();
        let (before, now) = (Numbers::of(original), Numbers::of(standing));
        Limits {
            cpu_weight: Limit::of(
                before.cpu_weight,
                now.cpu_weight,
                planned.cpu_weight.map(|weight| f64::from(weight.number())),
            ),
            cpu_quota_cores: Limit::of(before.cpu_quota, now.cpu_quota, planned.cpu_quota.map(cores)),
            memory_low_bytes: Limit::of(
                before.memory_low,
                now.memory_low,
                planned.memory_low.map(|bytes| bytes.0 as f64),
            ),
            memory_high_bytes: Limit::of(
                before.memory_high,
                now.memory_high,
                planned.memory_high.map(|bytes| bytes.0 as f64),
            ),
            io_weight: Limit::of(before.io_weight, now.io_weight, planned.io_weight.map(f64::from)),
        }
    }
}

struct Numbers {
    cpu_weight: Option<f64>,
    cpu_quota: Option<f64>,
    memory_low: Option<f64>,
    memory_high: Option<f64>,
    io_weight: Option<f64>,
}

impl Numbers {
    fn of(limits: &model::Limits) -> Numbers {
        Numbers {
            cpu_weight: limits.cpu_weight.map(|weight| f64::from(weight.number())),
            cpu_quota: limits.cpu_quota.map(|quota| quota.map_or(UNLIMITED, cores)),
            memory_low: limits.memory_low.map(|bytes| bytes.0 as f64),
            memory_high: limits.memory_high.map(|high| high.map_or(UNLIMITED, |bytes| bytes.0 as f64)),
            io_weight: limits.io_weight.map(f64::from),
        }
    }
}

fn cores(quota: model::Quota) -> f64 {
    finite(quota.0 as f64 / 1000.0).unwrap_or(UNLIMITED)
}
