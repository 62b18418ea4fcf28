//! The state of a Docker Swarm cluster and changes to its services: plain data between the engine client and the coordinator.

mod id;
mod saved_state;

pub use id::{NodeId, ServiceId};
pub use saved_state::{Claim, ClaimOutcome, Owner, SavedState};

use super::cluster::{Constraint, Resources};
use super::{Bytes, Estimate, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long Swarm waits between SIGTERM and SIGKILL if a service does not say it.
pub const SWARMS_GRACE: Millis = Millis::from_secs(10);

/// The Swarm as reported by the engine of one manager: nodes, services and tasks, read with a few requests in quick succession.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Swarm {
    /// The cluster's id: the organisation in its certificates.
    pub cluster: Arc<str>,
    /// The node whose engine reported this.
    #[serde(alias = "told_by")]
    pub reported_by: Option<NodeId>,
    /// Whether that node is the Swarm leader. A coordinator on any other node does not act.
    pub is_leader: bool,
    /// Ordered by id.
    pub nodes: Vec<SwarmNode>,
    /// Ordered by id.
    pub services: Vec<SwarmService>,
    /// Tasks of all services with our labels, including past tasks that Swarm still keeps.
    pub tasks: Vec<SwarmTask>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwarmNode {
    /// Its id.
    pub id: NodeId,
    /// Its host name; not unique.
    pub hostname: Arc<str>,
    /// The address at which other nodes reach it, without a port.
    pub address: Arc<str>,
    /// Version of the object, for compare-and-swap.
    pub version: u64,
    /// Whether its engine is connected to the managers (state `ready`).
    pub is_up: bool,
    /// Availability set by the operator.
    pub availability: Availability,
    /// Whether it is a manager.
    pub is_manager: bool,
    /// `node.labels`.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Cores, memory, and GPUs (as a generic resource).
    pub capacity: Resources,
    /// Resources reserved by tasks of services that are not jobs.
    #[serde(default)]
    pub reserved: Resources,
    /// Version of its engine.
    pub engine: Arc<str>,
}

/// Availability of a node, as set by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// Accepts tasks.
    Active,
    /// Keeps its tasks and accepts no new ones.
    Pause,
    /// Swarm stops its tasks, without proof of their end and without saved state.
    Drain,
}

/// One service, with the properties that matter for a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwarmService {
    /// Its id.
    pub id: ServiceId,
    /// Its name, unique in the cluster.
    pub name: Arc<str>,
    /// Version of the object, for compare-and-swap.
    pub version: u64,
    /// Time of creation, on the managers' wall clock since 1970.
    pub created: Millis,
    /// Labels of the service, as opposed to [`SwarmService::container_labels`].
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Labels of the service before its last update.
    #[serde(default)]
    pub previous_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Labels of its containers, which flowcond reads.
    pub container_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Mode and number of tasks.
    pub mode: ServiceMode,
    /// The node that a constraint `node.id==…` pins it to.
    pub pin: Option<NodeId>,
    /// Constraints `node.labels.…`, without that prefix.
    pub constraints: Vec<Constraint>,
    /// Other constraints, as written (`node.hostname!=a`): Swarm evaluates them, and they are taken into account by requesting their text.
    pub other_constraints: Vec<Arc<str>>,
    /// Resources reserved by each task.
    pub request: Resources,
    /// When Swarm restarts a task.
    pub restart: RestartRule,
    /// Stop grace period of a task; `None` = not set, so Swarm waits [`SWARMS_GRACE`].
    pub stop_grace: Option<Millis>,
    /// Volumes that its tasks mount.
    pub volumes: Vec<MountedVolume>,
    /// Image, entry point and arguments of its containers.
    #[serde(default)]
    pub command: Vec<Arc<str>>,
}

/// The mode of a service, with its number of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceMode {
    /// This number of tasks.
    Replicated(u64),
    /// Global, replicated-job or global-job: never a job of flowcon.
    Other(Arc<str>),
}

/// When Swarm restarts a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartRule {
    /// The condition.
    pub condition: RestartCondition,
    /// Maximum number of restarts; `None` = unlimited.
    pub attempts: Option<u64>,
}

/// The condition under which a task is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartCondition {
    /// Always, even after success: the default of Swarm, with which no training ever ends.
    Any,
    /// After a failure.
    OnFailure,
    /// Never.
    None,
}

/// A volume that a service mounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedVolume {
    /// Its name.
    pub name: Arc<str>,
    /// Mount point inside the container.
    pub target: Arc<str>,
    /// Whether it is on the node's disk (driver `local` without options).
    pub is_local: bool,
    /// Whether its tasks can only read it.
    #[serde(default)]
    pub is_read_only: bool,
    /// Labels that the volume gets when it is created.
    #[serde(default)]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// One task: an attempt of a service to run a container on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwarmTask {
    /// Its id.
    pub id: Arc<str>,
    /// Its service.
    pub service: ServiceId,
    /// Its node; `None` = not assigned yet.
    pub node: Option<NodeId>,
    /// Its state.
    pub state: TaskState,
    /// Whether its desired state is running.
    pub is_wanted: bool,
    /// Exit code of its container, once there is one.
    pub exit_code: Option<i64>,
    /// The failure as described by Swarm.
    pub error: Option<Arc<str>>,
    /// Time of the last state change, on the node's wall clock since 1970.
    pub changed: Millis,
}

/// State of a task. [`TaskState::Running`] proves that a process ran; *no* state proves that no process is running any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// Any state before `running`.
    Preparing,
    /// Its container is running.
    Running,
    /// It ended with code 0.
    Complete,
    /// It failed, was rejected by its node, or its node is lost.
    Failed,
    /// It was stopped.
    Shutdown,
}

/// One change of a service, applied in one update and only if the service still has this version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceChange {
    /// The service.
    pub service: ServiceId,
    /// The version on which the decision is based.
    pub version: u64,
    /// New number of replicas; `None` = no change.
    pub replicas: Option<u64>,
    /// New pin; `None` = no change, `Some(None)` = remove.
    pub pin: Option<Option<NodeId>>,
    /// New stop grace period; `None` = no change. Swarm applies the period that was set when the task was created.
    pub stop_grace: Option<Millis>,
    /// New reservations of its tasks; `None` = no change.
    #[serde(default)]
    pub request: Option<Resources>,
    /// Labels to set, or to remove (`None`).
    pub labels: BTreeMap<Arc<str>, Option<Arc<str>>>,
}

/// One change of a node's labels and availability, applied only if the node still has this version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChange {
    /// The node.
    pub node: NodeId,
    /// The version on which the decision is based.
    pub version: u64,
    /// Labels to set, or to remove (`None`).
    pub labels: BTreeMap<Arc<str>, Option<Arc<str>>>,
    /// New availability; `None` = no change.
    pub availability: Option<Availability>,
}

/// The outcome of a [`ServiceChange`] or a [`NodeChange`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeOutcome {
    /// Applied.
    Done,
    /// The object has been changed since: read it again.
    OutOfDate,
    /// The object no longer exists.
    Gone,
    /// Rejected by Swarm, with its message.
    Refused(String),
    /// No response: it may or may not have been applied. Read the object again.
    Unknown(String),
}

/// The response of a node's agent to the question whether a service still has a live process on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attestation {
    /// No container of the service is alive on the node, and none is about to start.
    Gone,
    /// As [`Attestation::Gone`], but the saved state on the node is not, or not certainly, the one that was transferred.
    Changed,
    /// This number of containers is alive.
    Alive(usize),
    /// Unknown, with the reason.
    Unknown(String),
}

/// A volume to be transferred from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The service whose saved state it holds.
    pub service: ServiceId,
    /// The service's name; empty from older managers.
    #[serde(default)]
    pub name: Arc<str>,
    /// Name of the volume, the same on both nodes.
    pub volume: Arc<str>,
    /// The source node.
    pub from: NodeId,
    /// The target node.
    pub to: NodeId,
    /// Distinguishes this move from all other moves of the job: a second request with the same number is the same transfer.
    pub number: u64,
}

/// The outcome of a [`Transfer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferOutcome {
    /// The volume is complete and durable on the target.
    Carried {
        /// Total size of its files.
        size: Bytes,
        /// SHA-256 of the stream, in hexadecimal.
        sha256: Arc<str>,
    },
    /// The transfer is impossible (disk full, too large, no such volume): a retry does not help.
    Impossible(String),
    /// The transfer failed and may be retried.
    Failed(String),
}

/// The report of a node's agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Version of the agent.
    pub version: Arc<str>,
    /// The node's wall clock since 1970.
    pub clock: Millis,
    /// Whether `flowcond` responds on the node.
    pub is_governed: bool,
    /// Cores that `flowcond` may plan with: fewer than the machine has if a quota applies.
    #[serde(default)]
    pub cores: Option<f64>,
    /// Cores in use by all processes.
    pub used_cores: Option<f64>,
    /// Jobs on the node that belong to a service.
    pub workers: Vec<WorkerReport>,
    /// The last progress of tasks that ended lately.
    #[serde(default)]
    pub ended: Vec<EndedWorker>,
    /// Number of governed containers and commands that belong to no service.
    #[serde(default)]
    pub others: u32,
    /// Leases that the agent holds, including expired ones.
    #[serde(default)]
    pub held: Vec<HeldLease>,
    /// The latest tasks that the agent stopped because their lease had expired, whatever their exit code.
    #[serde(default)]
    pub stopped: Vec<Arc<str>>,
    /// The saved states on the node's disk whose owner is recorded.
    #[serde(default)]
    pub saved: Vec<SavedState>,
}

/// A lease as held by a node's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLease {
    /// The service.
    pub service: ServiceId,
    /// Its expiry on the node's CLOCK_BOOTTIME. Each renewal changes it, so a release of an earlier lease has no effect.
    pub until: Millis,
}

/// The last progress of a task that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedWorker {
    /// The task.
    pub task: Arc<str>,
    /// Progress units done.
    pub units: Option<f64>,
    /// Total units.
    pub total: Option<f64>,
}

/// What `flowcond` on a node knows about a worker there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its service.
    pub service: ServiceId,
    /// Its task.
    pub task: Arc<str>,
    /// Seconds since its process started.
    pub up_s: f64,
    /// Progress units done.
    pub units: Option<f64>,
    /// Total units.
    pub total: Option<f64>,
    /// Seconds between its last two evaluations.
    pub unit_s: Option<f64>,
    /// CPU-seconds to the end of the job.
    pub work_left: Option<Estimate>,
    /// Cores used recently.
    pub cores: Option<f64>,
    /// CPU-seconds used since its process started.
    #[serde(default)]
    pub cpu_time_s: Option<f64>,
    /// Its latest evaluation.
    pub value: Option<f64>,
}
