//! The state of a cluster, and submissions of jobs.

use super::{finite, word};
use crate::cluster::ClusterEvent as PublishedEvent;
use model::cluster::{
    AlternativeStatus, ClusterJobStatus, ClusterNodeStatus, ClusterStatus, Cost, Resources,
    Submission as ModelSubmission,
};
use model::swarm::{NodeId, SWARMS_GRACE};
use model::{Bytes, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// The body of `GET /v1/cluster`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Time of this status, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Whether this coordinator is active: its node is Swarm's leader.
    pub acts: bool,
    /// Why it is not active, and what to do.
    pub why: Option<String>,
    /// The nodes.
    pub nodes: Vec<ClusterNode>,
    /// The workers: services with the label `flowcon.queue`.
    pub jobs: Vec<ClusterJob>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterNode {
    /// Node id.
    pub id: String,
    /// Hostname.
    pub name: String,
    /// `ready`, `draining`, `unreachable`, `ungoverned` or `closed`.
    pub state: String,
    /// Why it gets no jobs.
    pub why: Option<String>,
    /// Cores available to jobs, without those reserved by other services. The same applies to memory and GPUs.
    pub cores: Option<f64>,
    /// Main memory.
    pub memory_bytes: u64,
    /// GPUs, as a generic resource.
    pub gpus: u32,
    /// Cores in use.
    pub used_cores: Option<f64>,
    /// Number of workers on it or moving to it.
    pub workers: usize,
    /// Version of its agent.
    pub agent: Option<String>,
}

/// One worker: a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterJob {
    /// The service's id.
    pub id: String,
    /// The service's name.
    pub name: String,
    /// Name of the job, if it has several workers.
    pub gang: Option<String>,
    /// `waiting`, `suspended`, `starting`, `running`, `stopping`, `carrying`, `done`, `failed`, `cancelled` or `refused`.
    pub state: String,
    /// Hostname of its node, or of the node with its saved state.
    pub node: Option<String>,
    /// Hostname of the target node of a move.
    pub to: Option<String>,
    /// Why it waits or makes no progress.
    pub why: Option<Why>,
    /// Why it was started, moved or stopped last.
    pub reason: Option<String>,
    /// Its latest events, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<JobEvent>,
    /// The latest error.
    pub mark: Option<String>,
    /// Number of moves.
    pub moves: u32,
    /// Progress units done.
    pub units: Option<f64>,
    /// Total units.
    pub total: Option<f64>,
    /// Seconds without progress during the last move.
    pub last_move_s: Option<f64>,
    /// Its deadline (`flowcon.deadline`), Unix time in milliseconds.
    pub deadline_unix_ms: Option<u64>,
    /// Expected end, with `queue = "deadlines"`.
    pub expected_end_unix_ms: Option<u64>,
    /// Whether it is or will be late; null without a deadline, after its end, or if unknown.
    pub late: Option<bool>,
    /// Its alternatives (`flowcon.alternatives`), as the last plan compared them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// What it has cost so far with `queue = "deadlines"`, in the currency of `flowcon.price`.
    #[serde(default)]
    pub cost: Option<f64>,
    /// Exit code, after its end.
    pub exit_code: Option<i64>,
}

/// One alternative of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alternative {
    /// As its owner wrote it.
    pub text: String,
    /// Whether the job runs or is to run in it.
    pub chosen: bool,
    /// Seconds to the end of the job in it; null if no node can run it. The same applies to the costs.
    pub seconds: Option<f64>,
    /// Price of its part of the node until then.
    pub node_cost: Option<f64>,
    /// Cost of its lateness.
    pub late_cost: Option<f64>,
}

/// An event of one job. The latest ones are kept with the job, so they survive a restart of the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobEvent {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Message.
    pub text: String,
}

/// Why a worker waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// Code of the reason.
    pub kind: String,
    /// Message, with the next step.
    pub text: String,
}

/// The body of `GET /v1/cluster/events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterEvents {
    /// Oldest first.
    pub events: Vec<ClusterEvent>,
}

/// An action or observation of the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterEvent {
    /// Sequence number, from 1 at each start of the coordinator.
    pub number: u64,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Service name of the job.
    pub job: Option<String>,
    /// Message.
    pub text: String,
}

/// The body of `POST /v1/cluster/jobs`: a training to queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The service's name, unique in the cluster.
    pub name: String,
    /// The image.
    pub image: String,
    /// Command and arguments; empty = the default of the image.
    #[serde(default)]
    pub command: Vec<String>,
    /// Environment variables, `NAME=VALUE`.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Reserved cores.
    #[serde(default)]
    pub cores: f64,
    /// Reserved memory in bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Reserved GPUs.
    #[serde(default)]
    pub gpus: u32,
    /// Labels of the service.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Labels of its containers, for `flowcond`.
    #[serde(default)]
    pub container_labels: BTreeMap<String, String>,
    /// Placement constraints of Swarm, such as `node.labels.gpu==a100`.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Volumes: name and mount point.
    #[serde(default)]
    pub volumes: BTreeMap<String, String>,
    /// Names of the volumes that are mounted read-only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<String>,
    /// Networks by name.
    #[serde(default)]
    pub networks: Vec<String>,
    /// Maximum seconds to save its state and stop; by default 120 with a checkpoint (label `flowcon.checkpoint`), else 10.
    pub stop_grace_s: Option<f64>,
    /// Maximum restarts after failures; 3 by default.
    pub restarts: Option<u64>,
}

/// The body of `POST /v1/cluster/gangs`: the workers of a gang.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GangSubmission {
    /// One service per worker; all are queued, or none.
    pub workers: Vec<Submission>,
}

/// The body of `GET /v1/cluster/jobs/{name}/logs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobOutput {
    /// Oldest first.
    pub lines: Vec<OutputLine>,
}

/// One line of a job's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OutputLine {
    /// When its engine got it, in UTC with nanoseconds.
    pub time: String,
    /// The line.
    pub text: String,
}

const STOP_GRACE: Millis = Millis::from_secs(120);
const MAX_STOP_GRACE_S: f64 = 86_400.0;
const RESTARTS: u64 = 3;

impl Cluster {
    /// Converts a status.
    pub fn of(status: &ClusterStatus) -> Cluster {
        let name = |id: &NodeId| {
            let node = status.nodes.iter().find(|node| node.id == *id);
            node.map_or_else(|| id.to_string(), |node| node.name.to_string())
        };
        Cluster {
            unix_ms: status.at.0,
            acts: status.acts,
            why: status.why.clone(),
            nodes: status.nodes.iter().map(ClusterNode::of).collect(),
            jobs: status.jobs.iter().map(|job| ClusterJob::of(job, status.at, name)).collect(),
        }
    }
}

impl ClusterNode {
    fn of(node: &ClusterNodeStatus) -> ClusterNode {
        let Resources { cores, memory, gpus } = node.capacity;
        ClusterNode {
            id: node.id.to_string(),
            name: node.name.to_string(),
            state: word(node.state),
            why: node.why.clone(),
            cores: finite(cores),
            memory_bytes: memory.0,
            gpus,
            used_cores: node.used_cores.and_then(finite),
            workers: node.workers,
            agent: node.agent.as_deref().map(str::to_owned),
        }
    }
}

impl ClusterJob {
    /// Whether it has ended, and does not start again by itself.
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "done" | "failed" | "cancelled")
    }

    fn of(job: &ClusterJobStatus, at: Millis, name: impl Fn(&NodeId) -> String) -> ClusterJob {
        ClusterJob {
            id: job.service.to_string(),
            name: job.name.to_string(),
            gang: job.gang.as_deref().map(str::to_owned),
            state: word(job.state),
            node: job.node.as_ref().map(&name),
            to: job.to.as_ref().map(&name),
            why: job.why.as_ref().map(|why| Why { kind: word(why.kind), text: why.text.clone() }),
            reason: job.reason.as_ref().map(ToString::to_string),
            log: job.log.iter().map(|(at, text)| JobEvent { unix_ms: at.0, text: text.to_string() }).collect(),
            mark: job.mark.clone(),
            moves: job.moves,
            units: job.units.and_then(finite),
            total: job.total.and_then(finite),
            last_move_s: job.last_move_s.and_then(finite),
            deadline_unix_ms: job.deadline.map(|at| at.0),
            expected_end_unix_ms: job.expected_end.map(|at| at.0),
            late: job.is_late(at),
            alternatives: job.alternatives.iter().map(Alternative::of).collect(),
            cost: job.cost.and_then(finite),
            exit_code: job.exit_code,
        }
    }
}

impl Alternative {
    fn of(alternative: &AlternativeStatus) -> Alternative {
        let of = |part: fn(&Cost) -> f64| alternative.cost.as_ref().map(part).and_then(finite);
        Alternative {
            text: alternative.text.to_string(),
            chosen: alternative.is_chosen,
            seconds: of(|cost| cost.seconds),
            node_cost: of(|cost| cost.node),
            late_cost: of(|cost| cost.lateness),
        }
    }
}

impl ClusterEvents {
    /// Converts the events after the sequence number `after`.
    pub fn of<'e>(events: impl Iterator<Item = &'e PublishedEvent>, after: u64) -> ClusterEvents {
        let event = |event: &PublishedEvent| ClusterEvent {
            number: event.number,
            unix_ms: event.unix_ms,
            job: event.job.as_deref().map(str::to_owned),
            text: event.text.clone(),
        };
        ClusterEvents { events: events.filter(|event| event.number > after).map(event).collect() }
    }
}

impl JobOutput {
    /// Splits lines that each begin with their time.
    pub fn of(text: &str) -> JobOutput {
        let line = |line: &str| {
            let (time, text) = line.split_once(' ').unwrap_or((line, ""));
            OutputLine { time: time.to_owned(), text: text.to_owned() }
        };
        JobOutput { lines: text.lines().map(line).collect() }
    }
}

impl Submission {
    /// Checks the values and converts the submission.
    ///
    /// # Errors
    /// A message with the field, its value, and the expected values.
    pub fn checked(self) -> Result<ModelSubmission, String> {
        if self.name.trim().is_empty() || self.image.trim().is_empty() {
            return Err("`name` and `image` are required".to_owned());
        }
        let most = f64::from(u32::MAX);
        if !(0.0..=most).contains(&self.cores) {
            return Err(format!("`cores` is {}; expected a number of at least 0", self.cores));
        }
        let stop_grace = match self.stop_grace_s {
            None if self.labels.contains_key("flowcon.checkpoint") => STOP_GRACE,
            None => SWARMS_GRACE,
            Some(seconds) if (0.0..=MAX_STOP_GRACE_S).contains(&seconds) => Millis((seconds * 1000.0) as u64),
            Some(seconds) => return Err(format!("`stop_grace_s` is {seconds}; expected 0 to {MAX_STOP_GRACE_S}")),
        };
        if let Some(unknown) = self.read_only.iter().find(|name| !self.volumes.contains_key(*name)) {
            return Err(format!("`read_only` names `{unknown}`, which is not in `volumes`"));
        }
        Ok(ModelSubmission {
            name: self.name.into(),
            image: self.image.into(),
            command: self.command,
            environment: self.environment,
            request: Resources { cores: self.cores, memory: Bytes(self.memory_bytes), gpus: self.gpus },
            labels: shared(self.labels),
            container_labels: shared(self.container_labels),
            constraints: self.constraints,
            volumes: self.volumes.into_iter().map(|(name, target)| (name.into(), target.into())).collect(),
            read_only: self.read_only.into_iter().map(Arc::from).collect(),
            networks: self.networks,
            stop_grace,
            restarts: self.restarts.unwrap_or(RESTARTS),
        })
    }
}

fn shared(labels: BTreeMap<String, String>) -> BTreeMap<Arc<str>, Arc<str>> {
    labels.into_iter().map(|(label, value)| (label.into(), value.into())).collect()
}
