//! Whose saved state a checkpoint volume holds: the record on its node, and the claim with which a job becomes its owner.
//!
//! Saved state has exactly one writer. The agent of the node decides, because only there is the volume: a job starts only after its claim was
//! granted.

use super::id::{NodeId, ServiceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The owner of the saved state in a volume, as recorded on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// The service.
    pub service: ServiceId,
    /// Its name when it was recorded; empty if an older agent recorded it.
    pub name: Arc<str>,
    /// Number of the owner's transfers when it last wrote here: of several copies, the one with the highest number is the newest.
    pub number: u64,
}

/// A volume on a node that holds saved state with a recorded owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SavedState {
    /// Name of the volume.
    pub volume: Arc<str>,
    /// Its owner.
    pub owner: Owner,
}

/// A request to become, or stay, the owner of a local checkpoint volume on a node before the job starts there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The job, and the number of its transfers so far.
    pub owner: Owner,
    /// Name of the volume.
    pub volume: Arc<str>,
    /// Labels of the volume, if it is created.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// The node.
    pub node: NodeId,
    /// The other workers of its gang, which may share the volume on one node.
    pub gang: Vec<ServiceId>,
    /// Owners whose state it may take over: jobs that have ended or were removed.
    pub replaces: Vec<ServiceId>,
    /// Whether it may take over files without a recorded owner: it ran here before owners were recorded, or its own owner allows it.
    pub takes_unowned: bool,
}

/// The answer to a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimOutcome {
    /// The job is recorded as the owner.
    Granted,
    /// The volume holds the state of another job; nothing was changed.
    Owned {
        /// The owner.
        owner: Owner,
        /// Whether the volume has no files yet.
        is_empty: bool,
    },
    /// The volume has files without a recorded owner; nothing was changed.
    Unowned,
    /// A live container of another service, or of none, can write to the volume; nothing was changed.
    InUse(Arc<str>),
    /// Unknown, with the reason.
    Unknown(String),
}
