//! A cluster as its coordinator sees it, and what can be submitted. Imports: model.

use super::finite;
use crate::api::cluster::ClusterEvent as Happened;
use crate::model::cluster::{
    ClusterJobStatus, ClusterNodeStatus, ClusterStatus, JobState, NodeState, Resources, Submission as Asked, WhyKind,
};
use crate::model::swarm::NodeId;
use crate::model::{Bytes, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// The body of `GET /v1/cluster`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// When, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Whether this coordinator acts: its node is Swarm's leader.
    pub acts: bool,
    /// Why it does not act, and what to do about it.
    pub why: Option<String>,
    /// The nodes.
    pub nodes: Vec<ClusterNode>,
    /// One for each service with the label `flowcon.queue`.
    pub jobs: Vec<ClusterJob>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterNode {
    /// Its id.
    pub id: String,
    /// Its hostname.
    pub name: String,
    /// `ready`, `draining`, `unreachable`, `ungoverned` or `closed`.
    pub state: String,
    /// Why it gets no jobs.
    pub why: Option<String>,
    /// Cores that jobs can have: not those that services that are no jobs reserve. Memory and GPUs likewise.
    pub cores: Option<f64>,
    /// Main memory.
    pub memory_bytes: u64,
    /// GPUs, as a generic resource.
    pub gpus: u32,
    /// Cores in use.
    pub used_cores: Option<f64>,
    /// Workers on it or on their way to it.
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
    /// The job's name, if it has several workers.
    pub gang: Option<String>,
    /// `waiting`, `paused`, `starting`, `running`, `stopping`, `carrying`, `done`, `failed` or `refused`.
    pub state: String,
    /// Hostname of the node where it is, or where its saved state lies.
    pub node: Option<String>,
    /// Hostname of the node that it is going to.
    pub to: Option<String>,
    /// Why it waits or does not get on.
    pub why: Option<Why>,
    /// Why it is where it is, or goes where it goes.
    pub reason: Option<String>,
    /// What went wrong last.
    pub mark: Option<String>,
    /// How often it has been moved.
    pub moves: u32,
    /// Progress units done.
    pub units: Option<f64>,
    /// Units in all.
    pub total: Option<f64>,
    /// Seconds without progress that its last move took.
    pub last_move_s: Option<f64>,
    /// When it should end (`flowcon.deadline`), Unix time in milliseconds.
    pub deadline_unix_ms: Option<u64>,
    /// When it is expected to end, where the plan foresees that: with `queue = "deadlines"`.
    pub expected_end_unix_ms: Option<u64>,
    /// Whether it is or will be late; null where it has no deadline, has ended, or nobody knows.
    pub late: Option<bool>,
    /// Its exit code, if it has ended.
    pub exit_code: Option<i64>,
}

/// Why a worker waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// For programs.
    pub kind: String,
    /// In words, with the next step.
    pub text: String,
}

/// The body of `GET /v1/cluster/events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterEvents {
    /// Oldest first.
    pub events: Vec<ClusterEvent>,
}

/// Something that the coordinator did or noticed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterEvent {
    /// Counts up; begins again at 1 with each start of the coordinator.
    pub number: u64,
    /// When, Unix time in milliseconds.
    pub unix_ms: u64,
    /// The job, by the service's name.
    pub job: Option<String>,
    /// In words.
    pub text: String,
}

/// The body of `POST /v1/cluster/jobs`: a training to be queued.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The service's name, unique in the cluster.
    pub name: String,
    /// The image.
    pub image: String,
    /// Command and arguments; empty = the image's own.
    #[serde(default)]
    pub command: Vec<String>,
    /// `NAME=VALUE`, for its process.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Cores that it reserves.
    #[serde(default)]
    pub cores: f64,
    /// Bytes of memory that it reserves.
    #[serde(default)]
    pub memory_bytes: u64,
    /// GPUs that it reserves.
    #[serde(default)]
    pub gpus: u32,
    /// Labels of the service.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Labels of its containers, for `flowcond`.
    #[serde(default)]
    pub container_labels: BTreeMap<String, String>,
    /// Swarm's constraints, as `node.labels.gpu==a100`.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Volumes by name, and where the container sees each.
    #[serde(default)]
    pub volumes: BTreeMap<String, String>,
    /// Networks by name.
    #[serde(default)]
    pub networks: Vec<String>,
    /// Seconds that it may take to save and stop; 120 unless told.
    pub stop_grace_s: Option<f64>,
    /// How often it is started again after a failure; 3 unless told.
    pub restarts: Option<u64>,
}

const STOP_GRACE: Millis = Millis::from_secs(120);
const STOP_GRACE_MOST_S: f64 = 86_400.0;
const RESTARTS: u64 = 3;

impl Cluster {
    /// As it goes over the wire.
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
            state: node_state(node.state).to_owned(),
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
    fn of(job: &ClusterJobStatus, at: Millis, name: impl Fn(&NodeId) -> String) -> ClusterJob {
        ClusterJob {
            id: job.service.to_string(),
            name: job.name.to_string(),
            gang: job.gang.as_deref().map(str::to_owned),
            state: job_state(job.state).to_owned(),
            node: job.node.as_ref().map(&name),
            to: job.to.as_ref().map(&name),
            why: job.why.as_ref().map(|why| Why { kind: why_kind(why.kind).to_owned(), text: why.text.clone() }),
            reason: job.reason.as_ref().map(ToString::to_string),
            mark: job.mark.clone(),
            moves: job.moves,
            units: job.units.and_then(finite),
            total: job.total.and_then(finite),
            last_move_s: job.last_move_s.and_then(finite),
            deadline_unix_ms: job.deadline.map(|at| at.0),
            expected_end_unix_ms: job.expected_end.map(|at| at.0),
            late: job.is_late(at),
            exit_code: job.exit_code,
        }
    }
}

impl ClusterEvents {
    /// Those after the event of that number.
    pub fn of<'e>(events: impl Iterator<Item = &'e Happened>, after: u64) -> ClusterEvents {
        let event = |event: &Happened| ClusterEvent {
            number: event.number,
            unix_ms: event.unix_ms,
            job: event.job.as_deref().map(str::to_owned),
            text: event.text.clone(),
        };
        ClusterEvents { events: events.filter(|event| event.number > after).map(event).collect() }
    }
}

impl Submission {
    /// What is asked for.
    ///
    /// # Errors
    /// Names the field, its value, and what is expected.
    pub fn asked(self) -> Result<Asked, String> {
        if self.name.trim().is_empty() || self.image.trim().is_empty() {
            return Err("`name` and `image` must be given".to_owned());
        }
        let most = f64::from(u32::MAX);
        if !(0.0..=most).contains(&self.cores) {
            return Err(format!("`cores` is {}; expected a number from 0 on", self.cores));
        }
        let stop_grace = match self.stop_grace_s {
            None => STOP_GRACE,
            Some(seconds) if (0.0..=STOP_GRACE_MOST_S).contains(&seconds) => Millis((seconds * 1000.0) as u64),
            Some(seconds) => return Err(format!("`stop_grace_s` is {seconds}; expected 0 to {STOP_GRACE_MOST_S}")),
        };
        Ok(Asked {
            name: self.name.into(),
            image: self.image.into(),
            command: self.command,
            environment: self.environment,
            request: Resources { cores: self.cores, memory: Bytes(self.memory_bytes), gpus: self.gpus },
            labels: shared(self.labels),
            container_labels: shared(self.container_labels),
            constraints: self.constraints,
            volumes: self.volumes.into_iter().map(|(name, target)| (name.into(), target.into())).collect(),
            networks: self.networks,
            stop_grace,
            restarts: self.restarts.unwrap_or(RESTARTS),
        })
    }
}

fn shared(labels: BTreeMap<String, String>) -> BTreeMap<Arc<str>, Arc<str>> {
    labels.into_iter().map(|(label, value)| (label.into(), value.into())).collect()
}

/// The word for a node's state.
pub(crate) fn node_state(state: NodeState) -> &'static str {
    match state {
        NodeState::Ready => "ready",
        NodeState::Draining => "draining",
        NodeState::Unreachable => "unreachable",
        NodeState::Ungoverned => "ungoverned",
        NodeState::Closed => "closed",
    }
}

/// The word for a job's state.
pub(crate) fn job_state(state: JobState) -> &'static str {
    match state {
        JobState::Waiting => "waiting",
        JobState::Paused => "paused",
        JobState::Starting => "starting",
        JobState::Running => "running",
        JobState::Stopping => "stopping",
        JobState::Carrying => "carrying",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Refused => "refused",
    }
}

fn why_kind(kind: WhyKind) -> &'static str {
    match kind {
        WhyKind::Odd => "odd",
        WhyKind::Foreign => "foreign",
        WhyKind::Paused => "paused",
        WhyKind::NoPlace => "no-place",
        WhyKind::Gang => "gang",
        WhyKind::After => "after",
        WhyKind::NoProof => "no-proof",
        WhyKind::StateOutOfReach => "state-out-of-reach",
        WhyKind::Carrying => "carrying",
        WhyKind::TriedAgainLater => "tried-again-later",
        WhyKind::GaveUp => "gave-up",
        WhyKind::InProgress => "in-progress",
    }
}
