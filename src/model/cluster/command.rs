//! The closed set of operator commands for the coordinator; every request is parsed into one of them or rejected.

use super::Resources;
use crate::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A command. A job is named by its service or gang, see [`crate::named`]; a node by its hostname or id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterCommand {
    /// Drains a node for maintenance.
    Drain(String),
    /// Makes a drained node available again.
    Undrain(String),
    /// Moves a job to a node.
    Move {
        /// The job.
        job: String,
        /// The target node.
        node: String,
    },
    /// Stops a job until it is resumed.
    Suspend(String),
    /// Resumes a job that was suspended or given up.
    Resume(String),
    /// Ends a job for good: it stops, and does not start again.
    Cancel(String),
    /// Confirms that a node is switched off for good, so that nothing of this job is running there.
    NodeIsOff {
        /// The job.
        job: String,
        /// The node.
        node: String,
    },
}

/// A training to be queued; the coordinator creates a service with 0 replicas from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// Name of the service, unique in the cluster.
    pub name: Arc<str>,
    /// The image.
    pub image: Arc<str>,
    /// Command and arguments; empty = those of the image.
    pub command: Vec<String>,
    /// Environment of the process, `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Reserved resources.
    pub request: Resources,
    /// Labels of the service; `flowcon.queue` is added automatically.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Labels of its containers, for `flowcond`; `flowcon.enable` is added automatically.
    pub container_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Swarm constraints, such as `node.labels.gpu==a100`.
    pub constraints: Vec<String>,
    /// Volumes: name and mount point.
    pub volumes: Vec<(Arc<str>, Arc<str>)>,
    /// Names of the volumes that it can only read.
    #[serde(default)]
    pub read_only: Vec<Arc<str>>,
    /// Networks by name.
    pub networks: Vec<String>,
    /// Stop grace period.
    pub stop_grace: Millis,
    /// Maximum number of restarts after a failure.
    pub restarts: u64,
}
