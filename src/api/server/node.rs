//! Handlers for the node and its containers: each reads the latest snapshot or sends a command to the daemon.

use super::access::Peer;
use super::commands;
use super::problem::Fault;
use super::shared::{Api, json_response};
use super::snapshot::{Snapshot, json};
use crate::Command;
use crate::wire::{
    AdoptionRequest, Configuration, ContainerDetail, ContainerList, Done, Policy, PolicyChange, Problem, Status,
    UserList,
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

/// The state of the daemon.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status), (status = 403, body = Problem)))]
pub(super) async fn status(State(api): State<Arc<Api>>) -> Response {
    json_response(latest(&api).status_json())
}

/// The governed containers.
#[utoipa::path(get, path = "/v1/containers", responses((status = 200, body = ContainerList)))]
pub(super) async fn containers(State(api): State<Arc<Api>>) -> Response {
    json_response(latest(&api).containers_json())
}

/// One container, by name, id or id prefix, with all numbers behind its decision; also one that ended within ten minutes, if no running one is
/// called that.
#[utoipa::path(get, path = "/v1/containers/{name}", params(("name" = String, Path, description = "name, id or beginning of an id")),
    responses((status = 200, body = ContainerDetail), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn container(State(api): State<Arc<Api>>, name: Name) -> Result<Response, Fault> {
    latest(&api).container_json(&readable(name)?).map(json_response)
}

/// The users of the node, with what their jobs have together.
#[utoipa::path(get, path = "/v1/users", responses((status = 200, body = UserList), (status = 403, body = Problem)))]
pub(super) async fn users(State(api): State<Arc<Api>>) -> Response {
    json_response(json(&UserList::of(&latest(&api).status)))
}

/// The current policy.
#[utoipa::path(get, path = "/v1/policy", responses((status = 200, body = Policy)))]
pub(super) async fn policy(State(api): State<Arc<Api>>) -> Response {
    json_response(latest(&api).policy_json())
}

/// All current settings, merged from defaults, files, environment and flags.
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

/// Restore the original limits of one container and stop governing it.
#[utoipa::path(post, path = "/v1/containers/{name}/release", params(("name" = String, Path, description = "name, id or beginning of an id")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn release_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let id = commands::resolved(&latest(&api), &peer, &readable(name)?)?;
    commands::carry_out(&api, &peer, Command::Release(Some(id))).await
}

/// Govern one container again; also ends a hold after a foreign change.
#[utoipa::path(post, path = "/v1/containers/{name}/govern", params(("name" = String, Path, description = "name, id or beginning of an id")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn govern_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let id = commands::resolved(&latest(&api), &peer, &readable(name)?)?;
    commands::carry_out(&api, &peer, Command::Govern(Some(id))).await
}

/// Pin the share of one container to its current or another value until it is unpinned, within the bounds of its labels.
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

/// Let the policy decide the share of one container again.
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

/// Govern a running container that lacks the label as if it had these labels, until it is removed or disowned.
#[utoipa::path(post, path = "/v1/containers/{name}/adopt", params(("name" = String, Path, description = "name, id or beginning of an id, as its engine knows it")),
    request_body(content = AdoptionRequest, description = "optional; no labels by default"),
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn adopt_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
    body: Bytes,
) -> Result<Response, Fault> {
    let (name, labels) = (readable(name)?, commands::adoption_labels(&body)?);
    commands::carry_out(&api, &peer, Command::Adopt { name, labels }).await
}

/// Restore the original limits of an adopted container and stop governing it.
#[utoipa::path(post, path = "/v1/containers/{name}/disown", params(("name" = String, Path, description = "name, id or beginning of an id, whether it runs or not")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn disown_container(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Disown(readable(name)?)).await
}

/// Restore the original limits of all containers and stop governing them.
#[utoipa::path(post, path = "/v1/release", responses((status = 200, body = Done), (status = 403, body = Problem)))]
pub(super) async fn release(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Release(None)).await
}

/// Govern all containers again.
#[utoipa::path(post, path = "/v1/govern", responses((status = 200, body = Done), (status = 403, body = Problem)))]
pub(super) async fn govern(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Govern(None)).await
}

/// Restore all original limits and release everything.
#[utoipa::path(post, path = "/v1/restore", responses((status = 200, body = Done), (status = 403, body = Problem)))]
pub(super) async fn restore(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Restore).await
}

/// Read the configuration again; on an error the current one is kept.
#[utoipa::path(post, path = "/v1/reload", responses((status = 200, body = Done), (status = 403, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn reload(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    commands::carry_out(&api, &peer, Command::Reload).await
}
