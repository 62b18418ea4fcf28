//! What an agent may be asked, and by whom. Imports: model.

use crate::model::Millis;
use crate::model::swarm::{Carriage, ServiceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// How the node is; managers only. Renews leases.
pub(super) const REPORT: &str = "/v1/report";
/// Whether a service has something alive here; managers only.
pub(super) const ATTEST: &str = "/v1/attest";
/// A node may fetch a volume from here; managers only.
pub(super) const OFFER: &str = "/v1/offer";
/// Fetch a volume from another node; managers only.
pub(super) const FETCH: &str = "/v1/fetch";
/// The volume itself, as a tar stream; the node that it was offered to.
pub(super) const VOLUME: &str = "/v1/volume";
/// What was sent, to compare; the node that it was offered to.
pub(super) const SUM: &str = "/v1/sum";

/// The body of [`REPORT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportRequest {
    /// Services whose leases are renewed.
    pub(super) leases: Vec<ServiceId>,
    /// How long each may run without a word.
    pub(super) lease: Millis,
}

/// The body of [`ATTEST`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttestRequest {
    pub(super) service: ServiceId,
    /// Is the state here still the one that this carriage took?
    pub(super) carried: Option<u64>,
    /// While something lives the answer may wait for so long.
    pub(super) patience: Millis,
}

/// The body of [`FETCH`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FetchRequest {
    pub(super) carriage: Carriage,
    /// The source's address, without a port.
    pub(super) from: Arc<str>,
}

/// The answer to [`OFFER`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// It may be fetched.
    Made,
    /// It cannot be carried, and why.
    Refused(String),
}

/// The answer to [`SUM`]. Who does not know a field of it does without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sum {
    /// Bytes of the stream.
    pub(super) bytes: u64,
    /// Their SHA-256 in hexadecimal.
    pub(super) sha256: Arc<str>,
    /// What the source's flowcond knows of the job, for the target's; an older agent does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) record: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn agents_of_before_and_after_understand_each_others_sums() {
        let old = json!({"bytes": 3, "sha256": "00"});
        let sum: Sum = serde_json::from_value(old.clone()).expect("of an older agent");
        assert_eq!((sum.record.as_ref(), serde_json::to_value(&sum).ok()), (None, Some(old)));
    }
}
