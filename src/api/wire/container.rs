//! A governed container in lists, and its limits.

use super::rule::spelled;
use super::{Adoption, Ended, Estimate, GpuUse, Health, Metric, Notice, Progress, Restarts, finite_option, word};
use model::{EndedJob, JobStatus, LimitKind, NodeStatus, PolicyName, Reason, Setting};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of `/v1/containers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContainerList {
    /// The governed containers, ordered by start.
    pub containers: Vec<Container>,
}

/// One governed container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Container {
    /// Full id in the runtime.
    pub id: String,
    /// Short id.
    pub short_id: String,
    /// Name; not necessarily unique.
    pub name: String,
    /// `docker`, `scope`, `pod` or `containerd`.
    pub runtime: String,
    /// The user to whom it belongs; omitted if nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `running`, `paused` or `ended`.
    pub state: String,
    /// Time since it started, or from its start to its end.
    pub uptime_s: f64,
    /// Its health; null from daemons that do not judge it.
    #[serde(default)]
    pub health: Option<Health>,
    /// `new`, `watching` or `completing`, under every policy; null before the first decision.
    pub list: Option<String>,
    /// The evaluation function, once a value was read.
    pub metric: Option<Metric>,
    /// Its sweep; omitted if it runs beside no other run of the same training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Progress, from the log.
    pub progress: Option<Progress>,
    /// Whether metric and progress come from another node and nothing was read here since the job moved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_carried: bool,
    /// Forecast of the CPU-seconds to its end; only under `balanced`, and null while the cost per unit is unknown.
    pub work_left_cpu_s: Option<Estimate>,
    /// CPU per progress unit beside other jobs, as a multiple of that in its own turn; omitted until both are known. Above 1.5 its threads
    /// waste CPU waiting for each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waste: Option<f64>,
    /// CPU-seconds that it paid beside other jobs so far in addition to what the same units cost in its own turn; omitted like `waste`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_cpu_s: Option<f64>,
    /// Share of the node under contention; null before the first decision.
    pub share: Option<f64>,
    /// Limit in the terms of the policy: 1 = free competition.
    pub limit: Option<f64>,
    /// Minimum share (`flowcon.min-share`).
    #[serde(default)]
    pub min_share: f64,
    /// Maximum share (`flowcon.max-share`).
    #[serde(default = "all")]
    pub max_share: f64,
    /// Share pinned by an operator.
    pub pinned_share: Option<f64>,
    /// Its adoption by an operator, if it lacks the label.
    pub adopted: Option<Adoption>,
    /// Growth efficiency per node-CPU-second, as last measured.
    pub growth: Option<f64>,
    /// Fraction of the node's CPU used over the last few seconds.
    pub cpu_used: Option<f64>,
    /// CPU-seconds used since it started.
    pub cpu_time_s: Option<f64>,
    /// Energy used since the daemon found it, in joules: its part of what processors, memory and GPUs used; omitted where the machine does
    /// not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Memory charged.
    pub memory_bytes: Option<u64>,
    /// Its use of GPUs; omitted if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUse>,
    /// Fraction of the last minute in which it was frozen for another job on its GPU; omitted if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_share: Option<f64>,
    /// Current CPU weight, on the scale of `cpu.weight`.
    pub cpu_weight: Option<u32>,
    /// The rule that decided its share.
    pub rule: Option<String>,
    /// Explanation of its share.
    pub why: String,
    /// Why its limits are left alone, if they are.
    pub hold: Option<Hold>,
    /// Messages about this container.
    pub notices: Vec<Notice>,
    /// Its restarts by its engine; omitted if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Restarts>,
    /// How it ended; omitted while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// Default for daemons that do not report a bound.
fn all() -> f64 {
    1.0
}

impl Container {
    /// Converts `job` of this status.
    pub fn of(job: &JobStatus, status: &NodeStatus) -> Container {
        let observed = &job.observed;
        let plan = job.plan.as_ref();
        let hold = observed.hold.as_ref().map(|hold| Hold::of(hold, observed.id.short()));
        let known = job.forecast.filter(|forecast| forecast.is_known);
        Container {
            id: observed.id.as_str().to_owned(),
            short_id: observed.id.short().to_owned(),
            name: observed.name.clone(),
            runtime: word(observed.runtime),
            user: observed.user.as_deref().map(str::to_owned),
            state: word(observed.state),
            uptime_s: status.now.since(observed.started).as_secs_f64(),
            health: Some(Health::of(job, status.now)),
            list: plan.and_then(|plan| plan.list).map(word),
            metric: Metric::of(job),
            trial: Trial::of(job),
            progress: Progress::of(&observed.learning, job.time_left),
            is_carried: observed.learning.is_carried,
            work_left_cpu_s: known.and_then(|forecast| Estimate::of(forecast.to_end, 1.0)),
            waste: job.forecast.and_then(|forecast| finite_option(forecast.waste)),
            lost_cpu_s: job.forecast.and_then(|forecast| finite_option(forecast.lost_s)),
            share: plan.map(|plan| plan.share.fraction()),
            limit: plan.map(|plan| plan.limit.fraction()),
            min_share: job.directives.bounds.min.fraction(),
            max_share: job.directives.bounds.max.fraction(),
            pinned_share: job.pinned.map(|pin| pin.fraction()),
            adopted: job.adopted.as_ref().map(Adoption::of),
            growth: plan.and_then(|plan| finite_option(plan.growth.cpu)),
            cpu_used: finite_option(job.cpu_used),
            cpu_time_s: observed.usage.cpu.map(model::CpuTime::as_secs_f64),
            energy_j: finite_option(job.energy),
            memory_bytes: observed.usage.memory.map(|bytes| bytes.0),
            gpus: observed.gpus.iter().map(GpuUse::of).collect(),
            frozen_share: finite_option(job.frozen),
            cpu_weight: observed.limits.cpu_weight.map(|weight| weight.number()),
            rule: plan.map(|plan| spelled(&plan.reason).0.to_owned()),
            why: why(job, status),
            hold,
            notices: job.notices.iter().map(Notice::of).collect(),
            restarts: job.restarts.as_ref().map(|restarts| Restarts::of(restarts, observed, status)),
            ended: None,
        }
    }

    /// Converts a job that ended: what was last known of it, without what only a running job has.
    pub fn of_ended(ended: &EndedJob, status: &NodeStatus) -> Container {
        let last = Container::of(&ended.job, status);
        let end = Ended::of(ended, status);
        Container {
            state: "ended".to_owned(),
            uptime_s: ended.at.since(ended.job.observed.started).as_secs_f64(),
            progress: last.progress.map(|progress| Progress { remaining_s: None, units_per_s: None, ..progress }),
            health: None,
            work_left_cpu_s: None,
            waste: None,
            share: None,
            limit: None,
            growth: None,
            cpu_used: None,
            gpus: Vec::new(),
            frozen_share: None,
            rule: None,
            why: end.story.clone(),
            hold: None,
            ended: Some(end),
            ..last
        }
    }
}

/// Returns the explanation of its share, and the fraction of time for which it is frozen.
fn why(job: &JobStatus, status: &NodeStatus) -> String {
    let why = why_its_share(job, status);
    match finite_option(job.frozen) {
        Some(frozen) => format!("{why}; frozen {:.0} % of the time for another job on its GPU", 100.0 * frozen),
        None => why,
    }
}

/// Returns the explanation of its share. For a pinned container it also says why the pin is not reached.
fn why_its_share(job: &JobStatus, status: &NodeStatus) -> String {
    let Some(plan) = &job.plan else { return "not decided yet".to_owned() };
    let Some(pin) = job.pinned.filter(|_| job.observed.hold.is_none()) else { return plan.reason.to_string() };
    let short = plan.share.fraction() < pin.fraction() - 0.005;
    match &plan.reason {
        _ if status.settings.policy == PolicyName::Fair => format!("pinned to {pin}, which the policy fair ignores"),
        Reason::Paused => plan.reason.to_string(),
        _ if short => format!("pinned to {pin}: the node has no more to give"),
        Reason::Bounded { wanted, .. } => format!("pinned to {pin} (wanted {wanted})"),
        _ => format!("pinned to {pin}"),
    }
}

/// One run of a training that is started several times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Trial {
    /// Identifies its sweep on this node.
    pub group: String,
    /// The name given to the sweep by `flowcon.group`; null if it was found by image and command.
    pub group_name: Option<String>,
    /// The numbers in its command, in order.
    pub parameters: Vec<Parameter>,
    /// The value of its metric that is expected at its end; null in the history.
    pub expected: Option<Estimate>,
}

/// A number in a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Parameter {
    /// Name of the option, or `#1`.
    pub name: String,
    /// The number as written.
    pub value: String,
}

impl Parameter {
    fn of(parameter: &model::Parameter) -> Parameter {
        Parameter { name: parameter.name.clone(), value: parameter.value.clone() }
    }
}

impl Trial {
    /// Converts a record of the history.
    pub(super) fn of_record(trial: &model::TrialRecord) -> Trial {
        Trial {
            group: trial.group.clone(),
            group_name: trial.group_name.clone(),
            parameters: trial.parameters.iter().map(Parameter::of).collect(),
            expected: None,
        }
    }

    fn of(job: &JobStatus) -> Option<Trial> {
        let trial = job.observed.trial.as_ref()?;
        Some(Trial {
            group: trial.group.to_string(),
            group_name: job.directives.group.name().map(str::to_owned),
            parameters: job.parameters.iter().map(Parameter::of).collect(),
            expected: job.expected_final.and_then(|expected| Estimate::of(expected, 1.0)),
        })
    }
}

/// Why a container's limits are left alone, and what ends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// `released`, `foreign`, `moved`, `settling` or `unwritable`.
    pub kind: String,
    /// Explanation.
    pub why: String,
    /// What ends the hold.
    pub ends: String,
}

impl Hold {
    fn of(hold: &model::Hold, id: &str) -> Hold {
        let (kind, ends) = match hold {
            model::Hold::Released => ("released", format!("`flowctl govern {id}`")),
            model::Hold::Foreign(_) => ("foreign", format!("`flowctl govern {id}` takes it back")),
            model::Hold::Moved(_) => ("moved", "by itself, when they are back in its own cgroup".to_owned()),
            model::Hold::Settling => ("settling", "by itself, at the next decision".to_owned()),
            model::Hold::Unwritable(_) => {
                ("unwritable", format!("fix the cause (see `flowctl doctor`), then run `flowctl govern {id}`"))
            }
        };
        Hold { kind: kind.to_owned(), why: hold.to_string(), ends }
    }
}

/// One limit: original, current and planned. Null = the kernel has no such limit, or it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// Value before flowcon's first change.
    pub original: Option<f64>,
    /// Current value in the cgroup.
    pub standing: Option<f64>,
    /// Planned value; the original if the plan does not change it.
    pub planned: Option<f64>,
}

/// The limits of one container. −1 means unlimited: `memory.high` = `max`, or no CPU quota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
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

/// The value of an absent limit.
const UNLIMITED: f64 = -1.0;

impl Limits {
    pub(super) fn of(original: &model::Limits, standing: &model::Limits, planned: Option<&model::Limits>) -> Limits {
        let limit = |kind: LimitKind| {
            let value = |limits: &model::Limits| limits.get(kind).map(number);
            let original = value(original);
            Limit { original, standing: value(standing), planned: planned.and_then(value).or(original) }
        };
        Limits {
            cpu_weight: limit(LimitKind::CpuWeight),
            cpu_quota_cores: limit(LimitKind::CpuQuota),
            memory_low_bytes: limit(LimitKind::MemoryLow),
            memory_high_bytes: limit(LimitKind::MemoryHigh),
            io_weight: limit(LimitKind::IoWeight),
        }
    }
}

/// Returns a value in the unit of its field of [`Limits`].
fn number(setting: Setting) -> f64 {
    match (setting, setting.number()) {
        (_, None) => UNLIMITED,
        (Setting::CpuQuota(_), Some(thousandths)) => thousandths as f64 / 1000.0,
        (_, Some(number)) => number as f64,
    }
}
