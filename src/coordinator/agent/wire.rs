//! Requests and responses of the agent's API, and who may send them.

use model::Millis;
use model::swarm::{HeldLease, ServiceId, Transfer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the node's report, and renews and releases leases; managers only.
pub(super) const REPORT: &str = "/v1/report";
/// Attests whether any container of a service is alive here; managers only.
pub(super) const ATTEST: &str = "/v1/attest";
/// Records a job as the owner of a checkpoint volume here, unless that holds the state of another; managers only.
pub(super) const CLAIM: &str = "/v1/claim";
/// Returns the last lines of a service's output here; managers only.
pub(super) const OUTPUT: &str = "/v1/output";
/// Allows another node to fetch a volume from here; managers only.
pub(super) const OFFER: &str = "/v1/offer";
/// Fetches a volume from another node; managers only.
pub(super) const FETCH: &str = "/v1/fetch";
/// Sends an offered volume as a tar stream; only to the node that it was offered to.
pub(super) const VOLUME: &str = "/v1/volume";
/// Returns the checksum of the sent volume; only to the node that it was offered to.
pub(super) const SUM: &str = "/v1/sum";

/// The body of [`REPORT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportRequest {
    /// Services whose leases are renewed.
    pub(super) leases: Vec<ServiceId>,
    /// Duration of the leases.
    pub(super) lease: Millis,
    /// How long these jobs may take to save and stop once their lease has expired. Left out if empty: older agents do not know the field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) graces: BTreeMap<ServiceId, Millis>,
    /// Leases to be removed without stopping their jobs, unless renewed since. Left out if empty: older agents do not know the field, and
    /// report no leases to release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) release: Vec<HeldLease>,
}

/// The body of [`ATTEST`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttestRequest {
    pub(super) service: ServiceId,
    /// Number of a transfer from here whose state is to be compared with the current one.
    pub(super) carried: Option<u64>,
    /// How long the response may wait for live containers to exit.
    pub(super) patience: Millis,
}

/// The body of [`OUTPUT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputRequest {
    pub(super) service: ServiceId,
    /// Only lines after this time.
    pub(super) after: Option<String>,
    /// Maximum number of lines.
    pub(super) tail: u32,
}

/// The body of [`FETCH`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FetchRequest {
    pub(super) carriage: Transfer,
    /// The source's address, without a port.
    pub(super) from: Arc<str>,
}

/// The response to [`OFFER`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// The volume may be fetched.
    Made,
    /// The volume cannot be transferred, with the reason.
    Refused(String),
}

/// The response to [`SUM`]. Unknown fields are ignored, for compatibility with newer agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sum {
    /// Bytes of the stream.
    pub(super) bytes: u64,
    /// Their SHA-256 in hexadecimal.
    pub(super) sha256: Arc<str>,
    /// Job record of the source's flowcond, for the target's; missing from older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) record: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn report_requests_of_and_to_older_versions_are_compatible() {
        let old = json!({"leases": ["s"], "lease": 60_000});
        let request: ReportRequest = serde_json::from_value(old.clone()).expect("of an older manager");
        assert!(request.release.is_empty() && request.graces.is_empty());
        assert_eq!(serde_json::to_value(&request).ok(), Some(old), "an older agent rejects unknown fields");
    }

    #[test]
    fn checksums_of_older_agents_are_compatible() {
        let old = json!({"bytes": 3, "sha256": "00"});
        let sum: Sum = serde_json::from_value(old.clone()).expect("of an older agent");
        assert_eq!((sum.record.as_ref(), serde_json::to_value(&sum).ok()), (None, Some(old)));
    }
}
