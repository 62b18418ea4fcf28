//! From a request to the daemon's answer: rights, the closed command, the bounded channel. Imports: siblings.

use super::access::{Peer, Right};
use super::problem::{Fault, describe};
use super::shared::{Api, json_response};
use super::snapshot::{Snapshot, json};
use crate::api::wire::{AdoptionRequest, Done, PolicyChange};
use crate::api::{Command, Request};
use crate::model::PolicyName;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use utoipa::IntoParams;

/// Asks the daemon and waits for its answer; the caller's time limit applies.
pub(super) async fn carry_out(api: &Api, peer: &Peer, command: Command) -> Result<Response, Fault> {
    let done = answered(api, peer, command).await?;
    Ok(json_response(json(&Done { done })))
}

/// The same, for what is told in place of what was done.
pub(super) async fn answered(api: &Api, peer: &Peer, command: Command) -> Result<String, Fault> {
    permitted(peer, describe(&command))?;
    let (reply, answer) = oneshot::channel();
    api.feed.commands.try_send(Request { command, asked_by: peer.describe(), reply }).map_err(|error| match error {
        TrySendError::Full(_) => Fault::Busy("too many commands are waiting".to_owned()),
        TrySendError::Closed(_) => Fault::Stopping,
    })?;
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(refusal)) => Err(Fault::Refused(refusal)),
        Err(_dropped) => Err(Fault::Stopping),
    }
}

/// Who may not change anything is told what is not allowed.
pub(super) fn permitted(peer: &Peer, deed: &str) -> Result<(), Fault> {
    match peer.right {
        Right::Change => Ok(()),
        _ => Err(Fault::Denied(format!("{} may read, but {deed} is not allowed", peer.describe()))),
    }
}

/// The whole id of the one container that was meant, so that the daemon cannot take it for another. Who may change nothing is told
/// that first, whether or not there is such a container.
pub(super) fn resolved(snapshot: &Snapshot, peer: &Peer, name: &str) -> Result<String, Fault> {
    permitted(peer, &format!("to change `{name}`"))?;
    snapshot.job(name).map(|job| job.observed.id.as_str().to_owned())
}

/// What a pin may ask for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    /// The share as a part of the node, more than 0 and at most 1; where it is, without.
    #[param(exclusive_minimum = 0, maximum = 1)]
    share: Option<f64>,
}

/// The share that a pin asks for.
pub(super) fn pinned_share(pin: Result<Query<Pin>, QueryRejection>) -> Result<Option<f64>, Fault> {
    let Query(Pin { share }) = pin?;
    match share {
        Some(share) if !(share > 0.0 && share <= 1.0) => {
            Err(Fault::BadRequest(format!("`share` is {share}; it is more than 0 and at most 1")))
        }
        share => Ok(share),
    }
}

/// The command that a `PUT /v1/policy` body asks for.
pub(super) fn policy_change(body: &[u8]) -> Result<Command, Fault> {
    let change: PolicyChange = object(body, "a policy change")?;
    let policy = change.policy.parse().map_err(Fault::BadRequest)?;
    match change.objective {
        Some(_) if policy != PolicyName::Balanced => {
            Err(Fault::BadRequest(format!("`objective` goes with the policy balanced, not with {}", change.policy)))
        }
        Some(objective) if !(0.0..=1.0).contains(&objective) => {
            Err(Fault::BadRequest(format!("`objective` is {objective}; it goes from 0 (quality) to 1 (completion)")))
        }
        objective => Ok(Command::SetPolicy { policy, objective }),
    }
}

/// The labels of a `POST /v1/containers/{name}/adopt` body, which may be left out.
pub(super) fn labels_given(body: &[u8]) -> Result<BTreeMap<String, String>, Fault> {
    if body.is_empty() {
        return Ok(BTreeMap::new());
    }
    object::<AdoptionRequest>(body, "an adoption with its labels").map(|asked| asked.labels)
}

/// serde would also take an array for a struct, by the order of its fields.
pub(super) fn object<T: DeserializeOwned>(body: &[u8], what: &str) -> Result<T, Fault> {
    serde_json::from_slice::<serde_json::Map<_, _>>(body)
        .and_then(|object| serde_json::from_value(object.into()))
        .map_err(|error| Fault::BadRequest(format!("the body is not {what}: {error}")))
}
