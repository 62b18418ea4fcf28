//! The wire types of `/v1/`, built by hand from `model`, so that internal types can change.
//!
//! Within one version fields are only added. Every number that may be unknown or not finite is nullable; names include units
//! (`_s` seconds, `_bytes`, `_unix_ms`, `_per_…`); shares and pressures are fractions of one.

mod cluster;
mod container;
mod ended;
mod event;
mod explanation;
mod gpu;
mod health;
mod history;
mod learning;
mod notice;
mod rule;
mod status;
mod users;

pub use cluster::{
    Alternative, Cluster, ClusterEvent, ClusterEvents, ClusterJob, ClusterNode, GangSubmission, JobEvent, JobOutput,
    OutputLine, Submission, Why,
};
pub use container::{Container, ContainerList, Hold, Limit, Limits, Parameter, Trial};
pub use ended::{Ended, Restarts};
pub use event::{Alert, Event, Gap};
pub use explanation::{ContainerDetail, Decision, Domain, Drift, Explanation, GrowthEfficiency, NoRoom, Threads, Use};
pub use gpu::{Gpu, GpuInstance, GpuUse};
pub use health::Health;
pub use history::{
    BlockRecord, BlockRecords, BlockWork, EventRecords, JobRecord, JobRecords, JobSnapshot, NodeSample, NodeSamples,
    Sample, Samples, UserRecord, UserRecords,
};
pub use learning::{Claim, Estimate, LogAddress, Metric, Progress, Reading, Trend};
pub use notice::Notice;
pub use status::{Configuration, Node, Policy, PolicyChange, Pressure, Status};
pub use users::{User, UserList};

use model::word;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Message about what was done.
    pub done: String,
}

/// The body of `POST /v1/containers/{name}/adopt`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdoptionRequest {
    /// `flowcon.*` labels for the container, in addition to its own.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Adoption of a container without the label by an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Adoption {
    /// Time of the adoption, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Labels given by the operator.
    pub labels: BTreeMap<String, String>,
}

impl Adoption {
    fn of(adoption: &model::Adoption) -> Adoption {
        Adoption { unix_ms: adoption.unix_ms, labels: adoption.labels.clone() }
    }
}

/// The body of every answer with a status of 400 or above.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The error.
    pub error: ProblemDetail,
}

/// An error and the suggested next step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProblemDetail {
    /// Error code: `not-found`, `denied`, `ambiguous`, `refused`, `bad-request`, `too-large`, `busy`, `timeout`, `failed`, …
    pub code: String,
    /// Error message.
    pub message: String,
    /// Suggested next step, usually a command.
    pub next: String,
}

/// Returns `None` for NaN and infinity, which JSON cannot represent.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

fn finite_option(number: Option<f64>) -> Option<f64> {
    number.and_then(finite)
}
