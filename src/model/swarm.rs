//! What Docker Swarm tells of a cluster, and what is changed of a service: plain data between whoever talks to the engine and whoever decides.
//!
//! Imports: std and serde.

use super::cluster::{Constraint, Resources};
use super::{Bytes, Estimate, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A node's id in its Swarm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub Arc<str>);

/// A service's id in its Swarm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceId(pub Arc<str>);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The Swarm as one manager's engine tells it: nodes, services and tasks of one instant, as near as a few requests can be to one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Swarm {
    /// The cluster's id: the organisation in its certificates.
    pub cluster: Arc<str>,
    /// The node whose engine told this.
    pub told_by: Option<NodeId>,
    /// Whether that node is Swarm's leader. Who is not acts on nothing.
    pub is_leader: bool,
    /// In the order of their ids.
    pub nodes: Vec<SwarmNode>,
    /// In the order of their ids.
    pub services: Vec<SwarmService>,
    /// Of every service that has our labels, also past tasks that Swarm still keeps.
    pub tasks: Vec<SwarmTask>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwarmNode {
    /// Its id.
    pub id: NodeId,
    /// The name that it gives itself; not unique.
    pub hostname: Arc<str>,
    /// The address that other nodes reach it at, without a port.
    pub address: Arc<str>,
    /// Version of the object, for compare-and-swap.
    pub version: u64,
    /// Whether its engine answers the managers (state `ready`).
    pub is_up: bool,
    /// What its operator allows.
    pub availability: Availability,
    /// It is a manager.
    pub is_manager: bool,
    /// `node.labels`.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Cores, memory, and GPUs as a generic resource.
    pub capacity: Resources,
    /// What tasks of services that are no jobs reserve of that.
    #[serde(default)]
    pub reserved: Resources,
    /// Version of its engine.
    pub engine: Arc<str>,
}

/// What an operator allows a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// It takes tasks.
    Active,
    /// It keeps what it has and takes nothing.
    Pause,
    /// Swarm stops what it has: without a proof and without saved state.
    Drain,
}

/// One service, as far as it concerns a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwarmService {
    /// Its id.
    pub id: ServiceId,
    /// Its name, unique in the cluster.
    pub name: Arc<str>,
    /// Version of the object, for compare-and-swap.
    pub version: u64,
    /// When it was created, on the managers' wall clock since 1970.
    pub created: Millis,
    /// The service's labels. Those of its container are [`SwarmService::container_labels`].
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Labels of its containers: what flowcond reads.
    pub container_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// How many tasks it wants, and of what kind.
    pub mode: ServiceMode,
    /// The node that it is pinned to by a constraint `node.id==…`.
    pub pin: Option<NodeId>,
    /// Constraints `node.labels.…`, without that word before the label.
    pub constraints: Vec<Constraint>,
    /// Constraints of other kinds, as written (`node.hostname!=a`): they are Swarm's, and honoured by asking for their text.
    pub other_constraints: Vec<Arc<str>>,
    /// What each task reserves.
    pub request: Resources,
    /// When Swarm starts a task again.
    pub restart: RestartRule,
    /// How long a task may take to stop; `None` = nobody said, and Swarm waits 10 s.
    pub stop_grace: Option<Millis>,
    /// Volumes that its tasks mount.
    pub volumes: Vec<MountedVolume>,
    /// Image and command, for people.
    pub image: Arc<str>,
}

/// How many tasks a service wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceMode {
    /// So many, somewhere.
    Replicated(u64),
    /// Global, replicated-job or global-job: never a job of ours.
    Other(Arc<str>),
}

/// When Swarm starts a task again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartRule {
    /// After which ends.
    pub condition: RestartCondition,
    /// How often at most; `None` = for ever.
    pub attempts: Option<u64>,
}

/// After which ends a task is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartCondition {
    /// After every one, also after success: Swarm's default, with which no training ever ends.
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
    /// Where the container sees it.
    pub target: Arc<str>,
    /// Whether it lies on the node's own disk (driver `local` without options).
    pub is_local: bool,
}

/// One task: a service's try to run a container on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwarmTask {
    /// Its id.
    pub id: Arc<str>,
    /// Whose.
    pub service: ServiceId,
    /// Where; `None` = not assigned yet.
    pub node: Option<NodeId>,
    /// How far it came.
    pub state: TaskState,
    /// Whether Swarm wants it to run.
    pub is_wanted: bool,
    /// Its container's exit code, once it has one.
    pub exit_code: Option<i64>,
    /// What Swarm says of its failure.
    pub error: Option<Arc<str>>,
    /// When its state changed, on the node's wall clock since 1970.
    pub changed: Millis,
}

/// How far a task came. Only [`TaskState::Running`] says that a process ran; *none* says that no process runs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// Anything before `running`.
    Preparing,
    /// Its container runs.
    Running,
    /// It ended with code 0.
    Complete,
    /// It failed, was rejected by its node, or its node is lost.
    Failed,
    /// It was stopped.
    Shutdown,
}

/// One change of a service: all of it in one update, and only if the service still has this version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceChange {
    /// Which.
    pub service: ServiceId,
    /// The version that was decided on.
    pub version: u64,
    /// Replicas from now on; `None` = as they are.
    pub replicas: Option<u64>,
    /// The pin from now on; `None` = as it is, `Some(None)` = none.
    pub pin: Option<Option<NodeId>>,
    /// How long its tasks may take to stop from now on; `None` = as it is. Swarm keeps to what stood when a task was made.
    pub stop_grace: Option<Millis>,
    /// Labels to set, or with `None` to take away.
    pub labels: BTreeMap<Arc<str>, Option<Arc<str>>>,
}

/// One change of a node's labels and availability, and only if the node still has this version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChange {
    /// Which.
    pub node: NodeId,
    /// The version that was decided on.
    pub version: u64,
    /// Labels to set, or with `None` to take away.
    pub labels: BTreeMap<Arc<str>, Option<Arc<str>>>,
    /// Its availability from now on; `None` = as it is.
    pub availability: Option<Availability>,
}

/// What became of a [`ServiceChange`] or a [`NodeChange`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeOutcome {
    /// It stands.
    Done,
    /// Somebody changed the service since: look again.
    OutOfDate,
    /// There is no such service any more.
    Gone,
    /// Swarm refuses it, with its words.
    Refused(String),
    /// No answer: it may stand or not. Look again.
    Unknown(String),
}

/// What a node's agent answers when it is asked whether a service still has a live process there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attestation {
    /// No container of the service is alive on the node, and none is on its way.
    Gone,
    /// Neither, but the saved state there is not, or not for certain, the one that was carried.
    Changed,
    /// So many are.
    Alive(usize),
    /// Nobody could tell, and why.
    Unknown(String),
}

/// A volume to be carried from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carriage {
    /// Whose saved state it is.
    pub service: ServiceId,
    /// The volume's name, the same on both nodes.
    pub volume: Arc<str>,
    /// Where it lies.
    pub from: NodeId,
    /// Where it is wanted.
    pub to: NodeId,
    /// Distinguishes this move from every other one of the job: a second carriage with the same number is the same.
    pub number: u64,
}

/// What became of a [`Carriage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CarriageOutcome {
    /// It lies whole and durable on the target.
    Carried {
        /// Bytes of its files.
        size: Bytes,
        /// SHA-256 of the stream, in hexadecimal.
        sha256: Arc<str>,
    },
    /// It cannot be carried there (disk full, too large, no such volume): trying again does not help.
    Impossible(String),
    /// It was not carried, and may be tried again.
    Failed(String),
}

/// What a node's agent tells of its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Version of the agent.
    pub version: Arc<str>,
    /// The node's wall clock since 1970.
    pub clock: Millis,
    /// Whether `flowcond` answers there.
    pub is_governed: bool,
    /// Cores that `flowcond` may plan with: fewer than the machine's where a quota lies above it.
    #[serde(default)]
    pub cores: Option<f64>,
    /// Cores in use, whoever uses them.
    pub used_cores: Option<f64>,
    /// Jobs of the node that belong to a service.
    pub workers: Vec<WorkerReport>,
}

/// What `flowcond` on a node knows of a worker there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its service.
    pub service: ServiceId,
    /// Its task.
    pub task: Arc<str>,
    /// Seconds since its process started.
    pub up_s: f64,
    /// Progress units done, and of how many.
    pub units: Option<f64>,
    /// Units in all.
    pub total: Option<f64>,
    /// Seconds between its last two evaluations.
    pub unit_s: Option<f64>,
    /// CPU-seconds to its end.
    pub work_left: Option<Estimate>,
    /// Cores that it has used lately.
    pub cores: Option<f64>,
    /// CPU-seconds that it has used since its process started.
    #[serde(default)]
    pub cpu_time_s: Option<f64>,
    /// Its newest evaluation value.
    pub value: Option<f64>,
}
