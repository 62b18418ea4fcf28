//! The wire types of `/v1/`: written by hand from `model`, so that inner types stay free to change.
//!
//! Within one version fields are only added. Every number that may be unknown or not finite is nullable; names carry units
//! (`_s` seconds, `_bytes`, `_unix_ms`, `_per_…`); shares and pressures are fractions of one. Imports: model, serde, utoipa.

mod cluster;
mod container;
mod event;
mod explanation;
mod gpu;
mod history;
mod learning;
mod notice;
mod status;

pub use cluster::{Cluster, ClusterEvent, ClusterEvents, ClusterJob, ClusterNode, Submission, Why};
pub(crate) use cluster::{job_state, node_state};
pub use container::{Container, ContainerList, Hold, Limit, Limits};
pub use event::{Event, Gap};
pub use explanation::{ContainerDetail, Decision, Domain, Drift, Explanation, GrowthEfficiency, NoRoom, Use};
pub use gpu::{Gpu, GpuInstance, GpuUse};
pub use history::{
    BlockRecord, BlockRecords, BlockWork, EventRecords, JobRecord, JobRecords, JobSnapshot, NodeSample, NodeSamples,
    Sample, Samples,
};
pub use learning::{Claim, Estimate, LogAddress, Metric, Progress, Reading, Trend};
pub use notice::Notice;
pub use status::{Configuration, Node, Policy, PolicyChange, Pressure, Status};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// What was done, in words.
    pub done: String,
}

/// The body of `POST /v1/containers/{name}/adopt`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdoptionRequest {
    /// `flowcon.*` labels that the container is taken to have, besides its own.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Governed by an operator's word, without the label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Adoption {
    /// When it was adopted, Unix time in milliseconds.
    pub unix_ms: u64,
    /// The labels that it was given.
    pub labels: BTreeMap<String, String>,
}

impl Adoption {
    fn of(adoption: &crate::model::Adoption) -> Adoption {
        Adoption { unix_ms: adoption.unix_ms, labels: adoption.labels.clone() }
    }
}

/// The body of every answer with a status of 400 or above.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What went wrong.
    pub error: ProblemDetail,
}

/// What went wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProblemDetail {
    /// For programs: `not-found`, `denied`, `ambiguous`, `refused`, `bad-request`, `too-large`, `busy`, `timeout`, `failed`, …
    pub code: String,
    /// For people: what was asked and why it was not done.
    pub message: String,
    /// The next thing to do, usually a command.
    pub next: String,
}

/// JSON has no NaN and no infinity: such a number is told as unknown.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

fn finite_option(number: Option<f64>) -> Option<f64> {
    number.and_then(finite)
}

/// The words that serde gives to a unit variant, so that the wire and the stored forms agree on spelling.
fn word<T: Serialize>(variant: T) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "unknown".to_owned(),
    }
}
