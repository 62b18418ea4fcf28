//! The snapshot that the daemon publishes after each step; API, metrics and tables read it.

use super::{
    Adoption, ContainerObservation, ContainerPlan, Directives, Estimate, Gpu, HoldbackBlock, JobEnd, Millis, Parameter,
    PolicySettings, Pressure, Restarts, Share, UserObservation, WorkForecast,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Below this effect of CPU weights ([`NodeStatus::weights_effect`]) they are said to have none.
pub const NO_EFFECT_BELOW: f64 = 0.35;

/// The node as the daemon sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeStatus {
    /// Time of the snapshot on the daemon's clock.
    pub now: Millis,
    /// The same instant as Unix time in milliseconds, for display.
    pub unix_ms: u64,
    /// Start of the daemon, on its clock.
    pub since: Millis,
    /// Usable cores.
    pub cores: f64,
    /// Node-wide pressure.
    pub pressure: Pressure,
    /// The effect of CPU weights on who runs: about 1 where they decide, 0 where they do not; `None` while unknown.
    pub weights_effect: Option<f64>,
    /// GPUs by index; empty = there are none, or the driver does not respond.
    pub gpus: Vec<Gpu>,
    /// The settings in force.
    pub settings: PolicySettings,
    /// The current interval; longer than the configured one while backing off.
    pub interval: Millis,
    /// Time of the next decision.
    pub next_tick: Millis,
    /// Decisions made since the daemon started.
    pub ticks: u64,
    /// Whether an operator released everything.
    pub released: bool,
    /// The current block of the holdback experiment, if there is one.
    pub holdback: Option<HoldbackBlock>,
    /// Connection state of each runtime: `docker: connected (28.2.2)`.
    pub runtimes: Vec<String>,
    /// The users who have jobs or used CPU lately, ordered by name.
    pub users: Vec<UserObservation>,
    /// The governed containers, ordered by start.
    pub jobs: Vec<JobStatus>,
    /// The jobs that ended within [`ENDS_WITHIN`](super::ENDS_WITHIN) and do not run again, latest end first, limited in number.
    pub ended: Vec<EndedJob>,
    /// Jobs that ended since the daemon started, by [`End::kind`](super::End::kind).
    pub ends: BTreeMap<&'static str, u64>,
    /// Messages for the operator, newest last, limited in number.
    pub notices: Vec<Notice>,
}

/// A job that ended lately.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedJob {
    /// Its last status.
    pub job: Arc<JobStatus>,
    /// Its end.
    pub end: JobEnd,
    /// When it ended, on the daemon's clock.
    pub at: Millis,
    /// How often it ended within [`ENDS_WITHIN`](super::ENDS_WITHIN), this end included.
    pub recent_ends: u32,
}

/// One governed container: its observation, plan, and learning state.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    /// The latest observation (newer than that of the plan).
    pub observed: ContainerObservation,
    /// The decision in force, once there was one.
    pub plan: Option<ContainerPlan>,
    /// Seconds to its end, with the range in which four of five ends are, as the plan will develop; `None` = unknown.
    pub time_left: Option<Estimate>,
    /// Energy used since its start as far as it was observed, in joules; `None` where the machine does not tell it.
    pub energy: Option<f64>,
    /// The work that it has left, as currently forecast by the policy.
    pub forecast: Option<WorkForecast>,
    /// Fraction of the node's CPU used over the last few seconds, 0 ..= 1.
    pub cpu_used: Option<f64>,
    /// Fraction of the last minute for which it was frozen to protect the speed of a job that shares its GPU, 0 ..= 1; `None` = it is not
    /// frozen for that reason.
    pub frozen: Option<f64>,
    /// What its threads did lately; `None` = it does not compete, or they were not read yet.
    pub threads: Option<ThreadUse>,
    /// Recent values of the metric, oldest first, for a sparkline.
    pub recent: Vec<f64>,
    /// The log line with the latest evaluation, shortened.
    pub line: Option<String>,
    /// Source of the log: `json-file`, `logs API`, `file /logs/train.txt`.
    pub log_source: String,
    /// Where an authorized user can read the whole log again; `None` if the log is not kept.
    pub log_origin: Option<LogOrigin>,
    /// Its parsed labels.
    pub directives: Arc<Directives>,
    /// Changes that others made to its limits, oldest first, limited in number.
    pub drifts: Vec<LimitDrift>,
    /// The share that an operator pinned it to; both of its observed bounds are then equal to it.
    pub pinned: Option<Share>,
    /// The operator's request, if the container is governed without the label.
    pub adopted: Option<Adoption>,
    /// Its restarts, if its engine has restarted it.
    pub restarts: Option<Restarts>,
    /// The numbers in its command.
    pub parameters: Arc<[Parameter]>,
    /// The value of its metric that is expected at its end, if it is a trial of a sweep.
    pub expected_final: Option<Estimate>,
    /// Messages about this container, for example about invalid labels or a log that could not be opened.
    pub notices: Vec<Notice>,
}

/// What the threads of a job did over some seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadUse {
    /// Threads that ran or waited for a processor, on average; `None` where the kernel does not count it.
    pub runnable: Option<f64>,
    /// The part of that time in which they waited, 0 ..= 1; `None` as well if none wanted to run.
    pub waiting: Option<f64>,
    /// Switches a second by threads that had to wait for something else.
    pub voluntary_switches: f64,
    /// Switches a second by the kernel, which gave the processor to another thread.
    pub involuntary_switches: f64,
}

/// A limit that was changed by someone other than flowcon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitDrift {
    /// Time of detection, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Origin of the change.
    pub by: DriftBy,
    /// The value found, and the reaction to it.
    pub text: String,
}

/// The origin of a limit change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftBy {
    /// An engine restart or a `daemon-reload`: the original value returned.
    System,
    /// A person or another program: the value is neither ours nor the original.
    Somebody,
}

/// The location of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogOrigin {
    /// A file on this machine.
    File(PathBuf),
    /// A file inside the container of process `pid`.
    Inside {
        /// Id of a process of the container.
        pid: u32,
        /// The path inside the container.
        path: PathBuf,
    },
    /// File descriptor `fd` of process `pid`, which refers to a command's output.
    Output {
        /// Process id of the command's `flowctl run`.
        pid: u32,
        /// The file descriptor.
        fd: i32,
    },
    /// The logs API of the engine at this socket.
    Engine(PathBuf),
}

/// Severity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeLevel {
    /// Information.
    Info,
    /// Something does not work as requested; the job keeps a fair share.
    Warning,
}

/// A message that is shown once and includes the next step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Severity.
    pub level: NoticeLevel,
    /// Time of the first occurrence, Unix time in milliseconds.
    pub unix_ms: u64,
    /// What happened, where, and what to do.
    pub text: String,
}
