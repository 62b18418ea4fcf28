//! Sends commands to a daemon or coordinator: checks rights and parameters, and waits for the reply.

use super::access::{Peer, Right};
use super::problem::Fault;
use super::shared::{Api, json_response};
use super::snapshot::{Snapshot, json};
use crate::wire::{AdoptionRequest, Done, PolicyChange};
use crate::{Command, Refusal, Request};
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use model::{EndedJob, PolicyName};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use utoipa::IntoParams;

/// Sends a command to the daemon and waits until it is done.
pub(super) async fn carry_out(api: &Api, peer: &Peer, command: Command) -> Result<Response, Fault> {
    let done = answered(&api.feed.commands, peer, command, Fault::Refused).await?;
    Ok(json_response(json(&Done { done })))
}

/// Sends a command and waits for the reply; the caller's time limit applies. `refused` is the fault of a refused command.
pub(super) async fn answered<C>(
    commands: &mpsc::Sender<Request<C>>,
    peer: &Peer,
    command: C,
    refused: fn(Refusal) -> Fault,
) -> Result<String, Fault> {
    permitted(peer)?;
    let (reply, answer) = oneshot::channel();
    let request = Request { command, requested_by: peer.describe(), reply };
    commands.try_send(request).map_err(|error| match error {
        TrySendError::Full(_) => Fault::Busy("too many commands are waiting".to_owned()),
        TrySendError::Closed(_) => Fault::Stopping,
    })?;
    match answer.await {
        Ok(answer) => answer.map_err(refused),
        Err(_dropped) => Err(Fault::Stopping),
    }
}

/// Checks that the peer may change things.
pub(super) fn permitted(peer: &Peer) -> Result<(), Fault> {
    match peer.right {
        Right::Change => Ok(()),
        _ => Err(Fault::Denied(format!("{} has read-only access; this request needs full control", peer.describe()))),
    }
}

/// Returns the full id of the container called `name`, so that the daemon acts on exactly that container. The right is checked first, so
/// that the error does not depend on the existence of the container.
pub(super) fn resolved(snapshot: &Snapshot, peer: &Peer, name: &str) -> Result<String, Fault> {
    permitted(peer)?;
    let found = snapshot.job(name).map(|job| job.observed.id.as_str().to_owned());
    match snapshot.ended(name) {
        Some(EndedJob { job, end, .. }) if matches!(found, Err(Fault::NoContainer(_))) => {
            let why = format!("{} has ended: {}", job.observed.name, end.summary());
            Err(Fault::Refused(Refusal::Refused(why)))
        }
        _ => found,
    }
}

/// Query parameters of a pin.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    /// The share as a fraction of the node, more than 0 and at most 1; the current share by default.
    #[param(exclusive_minimum = 0, maximum = 1)]
    share: Option<f64>,
}

/// Checks the share of a pin.
pub(super) fn pinned_share(pin: Result<Query<Pin>, QueryRejection>) -> Result<Option<f64>, Fault> {
    let Query(Pin { share }) = pin?;
    match share {
        Some(share) if !(share > 0.0 && share <= 1.0) => {
            Err(Fault::BadRequest(format!("`share` is {share}; expected more than 0 and at most 1")))
        }
        share => Ok(share),
    }
}

/// Parses the body of `PUT /v1/policy`.
pub(super) fn policy_change(body: &[u8]) -> Result<Command, Fault> {
    let change: PolicyChange = object(body, "a policy change")?;
    let policy = change.policy.parse().map_err(Fault::BadRequest)?;
    match change.objective {
        Some(_) if policy != PolicyName::Balanced => {
            Err(Fault::BadRequest(format!("`objective` requires the policy balanced, not {}", change.policy)))
        }
        Some(objective) if !(0.0..=1.0).contains(&objective) => {
            Err(Fault::BadRequest(format!("`objective` is {objective}; expected 0 (quality) to 1 (completion)")))
        }
        objective => Ok(Command::SetPolicy { policy, objective }),
    }
}

/// Parses the labels in the optional body of `POST /v1/containers/{name}/adopt`.
pub(super) fn adoption_labels(body: &[u8]) -> Result<BTreeMap<String, String>, Fault> {
    if body.is_empty() {
        return Ok(BTreeMap::new());
    }
    object::<AdoptionRequest>(body, "an adoption request").map(|request| request.labels)
}

/// Parses a JSON object. An array is rejected, which serde would accept for a struct in the order of its fields.
pub(super) fn object<T: DeserializeOwned>(body: &[u8], what: &str) -> Result<T, Fault> {
    serde_json::from_slice::<serde_json::Map<_, _>>(body)
        .and_then(|object| serde_json::from_value(object.into()))
        .map_err(|error| Fault::BadRequest(format!("the body is not {what}: {error}")))
}
