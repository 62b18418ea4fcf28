//! What an operator may ask of the coordinator. A closed set: whatever comes in becomes one of these or is refused.
//!
//! Imports: model.

use super::Resources;
use crate::model::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request. Jobs are named by the service's name or id, or by the gang; nodes by hostname or id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterCommand {
    /// Empty a node for maintenance.
    Drain(String),
    /// Give a drained node jobs again.
    Undrain(String),
    /// Move a job to a node.
    Move {
        /// Which.
        job: String,
        /// Where to.
        node: String,
    },
    /// Stop a job until it is resumed.
    Pause(String),
    /// Let a paused job, or one that was given up, go on.
    Resume(String),
    /// The operator's word that a node is switched off for good: nothing of this job lives there.
    NodeIsOff {
        /// Which job.
        job: String,
        /// Which node.
        node: String,
    },
}

/// A training to be queued: a service with 0 replicas is made of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// The service's name, unique in the cluster.
    pub name: Arc<str>,
    /// The image.
    pub image: Arc<str>,
    /// Command and arguments; empty = the image's own.
    pub command: Vec<String>,
    /// `NAME=VALUE`, for its process.
    pub environment: Vec<String>,
    /// What it reserves.
    pub request: Resources,
    /// Labels of the service; `flowcon.queue` goes without saying.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Labels of its containers, for `flowcond`; `flowcon.enable` goes without saying.
    pub container_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Swarm's constraints, as `node.labels.gpu==a100`.
    pub constraints: Vec<String>,
    /// Volumes: name and where the container sees it.
    pub volumes: Vec<(Arc<str>, Arc<str>)>,
    /// Networks by name.
    pub networks: Vec<String>,
    /// How long it may take to save and stop.
    pub stop_grace: Millis,
    /// How often it is started again after a failure.
    pub restarts: u64,
}
