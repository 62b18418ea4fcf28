//! What the daemon publishes after each step: the one snapshot that the API, the metrics and the tables read.

use super::{
    Adoption, ContainerObservation, ContainerPlan, Directives, Gpu, HoldbackBlock, Millis, PolicySettings, Pressure,
    Share, WorkForecast,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// The node as the daemon sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatus {
    /// Snapshot's instant on the daemon's clock.
    pub now: Millis,
    /// The same instant as Unix time in milliseconds, for people.
    pub unix_ms: u64,
    /// When the daemon started, on its own clock.
    pub since: Millis,
    /// Cores that may be used.
    pub cores: f64,
    /// Node-wide pressure.
    pub pressure: Pressure,
    /// Its GPUs by their number; empty = none, or none that answers.
    pub gpus: Vec<Gpu>,
    /// The settings in force.
    pub settings: PolicySettings,
    /// The present interval; longer than the configured one while backing off.
    pub interval: Millis,
    /// When the next decision is due.
    pub next_tick: Millis,
    /// Decisions taken since the daemon started.
    pub ticks: u64,
    /// Whether an operator paused everything.
    pub paused: bool,
    /// The block of time that it falls into, with a holdback.
    pub holdback: Option<HoldbackBlock>,
    /// What each runtime's connection is like: `docker: connected (28.2.2)`.
    pub runtimes: Vec<String>,
    /// The governed containers, ordered by start.
    pub jobs: Vec<JobStatus>,
    /// What an operator should know, newest last, bounded.
    pub notices: Vec<Notice>,
}

/// One governed container: last observed, last planned, last understood.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    /// Fresh observation (newer than the plan's).
    pub observed: ContainerObservation,
    /// The decision in force, once there was one.
    pub plan: Option<ContainerPlan>,
    /// What is ahead of it, as the policy foresees it now.
    pub forecast: Option<WorkForecast>,
    /// Part of the node's CPU used over the last few seconds, 0 ..= 1.
    pub cpu_used: Option<f64>,
    /// Part of the time over the last minute for which it was frozen, so that a job which shares its GPU keeps its speed, 0 ..= 1; `None` =
    /// it is not.
    pub frozen: Option<f64>,
    /// Recent values of the metric, oldest first, for a sparkline.
    pub recent: Vec<f64>,
    /// The log line that the latest evaluation was read from, shortened.
    pub line: Option<String>,
    /// Where the log is read from: `json-file`, `logs API`, `file /logs/train.txt`.
    pub log_source: String,
    /// Where whoever may can read the whole log again; `None` where nothing is kept.
    pub log_origin: Option<LogOrigin>,
    /// What its labels ask for.
    pub directives: Arc<Directives>,
    /// What others did to its limits, oldest first, bounded.
    pub drifts: Vec<LimitDrift>,
    /// The share that an operator pinned it to; its observed bounds are both that.
    pub pinned: Option<Share>,
    /// Governed by an operator's word, not by its label.
    pub adopted: Option<Adoption>,
    /// Clear messages about this container: labels that could not be read, a log that could not be opened.
    pub notices: Vec<Notice>,
}

/// A limit that was found changed, and not by us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitDrift {
    /// When it was found, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Who did it.
    pub by: DriftBy,
    /// What was found, and what is done about it.
    pub text: String,
}

/// Who changed a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftBy {
    /// An engine restart, a `daemon-reload`: the original came back by itself.
    System,
    /// A person, or a program of theirs: the value is neither ours nor the original.
    Somebody,
}

/// Where a log stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogOrigin {
    /// A file of this machine.
    File(PathBuf),
    /// A file inside the container that process `pid` lives in.
    Inside {
        /// A process of the container.
        pid: u32,
        /// The path as the container sees it.
        path: PathBuf,
    },
    /// Descriptor `fd` of process `pid`, which shows a command's output.
    Output {
        /// The `flowctl run` of the command.
        pid: u32,
        /// Its descriptor.
        fd: i32,
    },
    /// The engine at this socket gives it out.
    Engine(PathBuf),
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeLevel {
    /// Worth knowing.
    Info,
    /// Something does not work as asked; the job keeps a fair share.
    Warning,
}

/// A message said once, with the next step in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// How much it matters.
    pub level: NoticeLevel,
    /// When it was first said, Unix time in milliseconds.
    pub unix_ms: u64,
    /// What, where, and what to do.
    pub text: String,
}
