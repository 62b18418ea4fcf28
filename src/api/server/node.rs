//! What is asked of the node and done to it: each handler reads the latest snapshot or gives the daemon a command.
//!
//! Imports: siblings, axum.

use super::access::Peer;
use super::commands;
use super::problem::Fault;
use super::shared::{Api, json_response};
use super::snapshot::{Snapshot, json};
use crate::api::Command;
use crate::api::wire::{
    AdoptionRequest, Configuration, ContainerDetail, ContainerList, Done, Policy, PolicyChange, Problem, Status,
};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use hyper::body::Bytes;
use std::sync::Arc;

fn latest(api: &Api) -> Arc<Snapshot> {
    api.snapshots.latest()
}

type Name = Result<Path<String>, PathRejection>;

fn readable(name: Name) -> Result<String, Fault> {
    let Path(name) = name?;
    Ok(name)
}

/// Everything that the daemon knows, at one instant.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status), (status = 403, body = Problem)))]
pub(super) async fn status(State(api): State<Arc<Api>>) -> Response {
    json_response(latest(&api).status_json())
}

/// The governed containers.
#[utoipa::path(get, path = "/v1/containers", responses((status = 200, body = ContainerList)))]
pub(super) async fn containers(State(api): State<Arc<Api>>) -> Response {
    json_response(latest(&api).containers_json())
}

/// One container, by name, id or the beginning of its id, with every number behind its decision.
#[utoipa::path(get, path = "/v1/containers/{name}", params(("name" = String, Path, description = "name, id or beginning of an id")),
    responses((status = 200, body = ContainerDetail), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn container(State(api): State<Arc<Api>>, name: Name) -> Result<Response, Fault> {
    latest(&api).container_json(&readable(name)?).map(json_response)
}

/// The policy in force.
#[utoipa::path(get, path = "/v1/policy", responses((status = 200, body = Policy)))]
pub(super) async fn policy(State(api): State<Arc<Api>>) -> Response {
    json_response(latest(&api).policy_json())
}

/// Every setting in force: defaults, files, environment and flags, as the daemon took them.
#[utoipa::path(get, path = "/v1/config", responses((status = 200, body = Configuration)))]
pub(super) async fn configuration(State(api): State<Arc<Api>>) -> Response {
    let toml = api.feed.configuration.borrow().to_string();
    json_response(json(&Configuration { toml }))
}

/// Use another policy until the next reload or restart.
#[utoipa::path(put, path = "/v1/policy", request_body = PolicyChange,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 403, body = Problem)))]
pub(super) async fn set_policy(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, commands::policy_change(&body)?).await
}

/// Leave one container alone, with its original limits.
#[utoipa::path(post, path = "/v1/containers/{name}/pause", params(("name" = String, Path, description = "name, id or beginning of an id")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn pause_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let id = commands::resolved(&latest(&api), &peer, &readable(name)?)?;
    commands::carry_out(&api, &peer, Command::Pause(Some(id))).await
}

/// Govern one container again; also ends a hold after a foreign change.
#[utoipa::path(post, path = "/v1/containers/{name}/resume", params(("name" = String, Path, description = "name, id or beginning of an id")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn resume_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let id = commands::resolved(&latest(&api), &peer, &readable(name)?)?;
    commands::carry_out(&api, &peer, Command::Resume(Some(id))).await
}

/// Hold the share of one container where it is, or at another, until it is unpinned; within its owner's bounds.
#[utoipa::path(post, path = "/v1/containers/{name}/pin", params(("name" = String, Path, description = "name, id or beginning of an id"), commands::Pin),
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn pin_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
    pin: Result<Query<commands::Pin>, QueryRejection>,
) -> Result<Response, Fault> {
    let share = commands::pinned_share(pin)?;
    let name = commands::resolved(&latest(&api), &peer, &readable(name)?)?;
    commands::carry_out(&api, &peer, Command::Pin { name, share }).await
}

/// Let the policy decide about the share of one container again.
#[utoipa::path(post, path = "/v1/containers/{name}/unpin", params(("name" = String, Path, description = "name, id or beginning of an id")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn unpin_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let id = commands::resolved(&latest(&api), &peer, &readable(name)?)?;
    commands::carry_out(&api, &peer, Command::Unpin(id)).await
}

/// Govern a running container that lacks the label, as if it had these labels, until it is removed or disowned.
#[utoipa::path(post, path = "/v1/containers/{name}/adopt", params(("name" = String, Path, description = "name, id or beginning of an id, as its engine knows it")),
    request_body(content = AdoptionRequest, description = "may be left out: no labels"),
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn adopt_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
    body: Bytes,
) -> Result<Response, Fault> {
    let (name, labels) = (readable(name)?, commands::labels_given(&body)?);
    commands::carry_out(&api, &peer, Command::Adopt { name, labels }).await
}

/// Put the original limits of an adopted container back and forget it.
#[utoipa::path(post, path = "/v1/containers/{name}/disown", params(("name" = String, Path, description = "name, id or beginning of an id, whether it runs or not")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn disown_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Disown(readable(name)?)).await
}

/// Leave every container alone, with its original limits.
#[utoipa::path(post, path = "/v1/pause", responses((status = 200, body = Done), (status = 403, body = Problem)))]
pub(super) async fn pause(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Pause(None)).await
}

/// Govern again.
#[utoipa::path(post, path = "/v1/resume", responses((status = 200, body = Done), (status = 403, body = Problem)))]
pub(super) async fn resume(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Resume(None)).await
}

/// Put every original limit back and pause everything.
#[utoipa::path(post, path = "/v1/restore", responses((status = 200, body = Done), (status = 403, body = Problem)))]
pub(super) async fn restore(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Restore).await
}

/// Read the configuration again; the old one stays on an error.
#[utoipa::path(post, path = "/v1/reload", responses((status = 200, body = Done), (status = 403, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn reload(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Reload).await
}
