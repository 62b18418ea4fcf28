//! Paths → snapshots, commands and streams. Every answer is JSON, also every refusal; hyper alone answers what is not HTTP.
//!
//! Imports: siblings, axum.

use super::access::Peer;
use super::metrics::Counters;
use super::openapi;
use super::problem::Fault;
use super::server::ApiLimits;
use super::snapshot::{Snapshot, Snapshots};
use super::wire::{AdoptionRequest, ContainerDetail, ContainerList, Done, Policy, PolicyChange, Problem, Status};
use super::{Command, Feed, commands, events, history, metrics, recording};
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, body};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::{Semaphore, watch};

/// What every handler shares.
pub(super) struct Api {
    pub(super) feed: Feed,
    pub(super) snapshots: Snapshots,
    pub(super) limits: ApiLimits,
    pub(super) streams: Arc<Semaphore>,
    pub(super) counters: Counters,
    pub(super) closed: watch::Receiver<bool>,
    /// Tells this daemon's events from those of the one before it.
    pub(super) run: u64,
}

impl Api {
    pub(super) fn new(feed: Feed, limits: ApiLimits, closed: watch::Receiver<bool>) -> Arc<Api> {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Arc::new(Api {
            snapshots: Snapshots::new(feed.clone()),
            feed,
            streams: Arc::new(Semaphore::new(limits.streams)),
            limits,
            counters: Counters::default(),
            closed,
            run: u64::try_from(started.as_millis()).unwrap_or_default(),
        })
    }
}

/// All routes. The peer is put in as an extension by whoever accepted the connection.
pub(super) fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/containers", get(containers))
        .route("/v1/containers/{name}", get(container))
        .route("/v1/containers/{name}/pause", post(pause_container))
        .route("/v1/containers/{name}/resume", post(resume_container))
        .route("/v1/containers/{name}/pin", post(pin_container))
        .route("/v1/containers/{name}/unpin", post(unpin_container))
        .route("/v1/containers/{name}/adopt", post(adopt_container))
        .route("/v1/containers/{name}/disown", post(disown_container))
        .route("/v1/pause", post(pause))
        .route("/v1/resume", post(resume))
        .route("/v1/restore", post(restore))
        .route("/v1/reload", post(reload))
        .route("/v1/policy", get(policy).put(set_policy))
        .route("/v1/events", get(events::stream))
        .route("/v1/history", get(history::jobs))
        .route("/v1/history/moments", get(history::moments))
        .route("/v1/history/node", get(history::node))
        .route("/v1/history/blocks", get(history::blocks))
        .route("/v1/history/events", get(history::events))
        .route("/v1/history/at", get(history::at))
        .route("/v1/recording", get(recording::stream))
        .route("/metrics", get(metrics::scrape))
        .route("/openapi.json", get(openapi::document))
        .fallback(|uri: Uri| async move { Fault::NoRoute(uri.path().to_owned()) })
        .method_not_allowed_fallback(|method: Method| async move { Fault::WrongMethod(method.to_string()) })
        .layer(middleware::from_fn_with_state(api.clone(), bounded))
        .with_state(api)
}

/// Takes the body in within its size and time, then gives the handler its own time.
async fn bounded(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let answer = match collected(body, &api.limits).await {
        Ok(bytes) => {
            let request = Request::from_parts(head, Body::from(bytes));
            match tokio::time::timeout(api.limits.request_time, next.run(request)).await {
                Ok(response) => response,
                Err(_elapsed) => Fault::Timeout.into_response(),
            }
        }
        // What is left of the body stays unread, so that the connection cannot be used again.
        Err(fault) => ([(header::CONNECTION, "close")], fault).into_response(),
    };
    api.counters.answered(answer.status());
    answer
}

async fn collected(body: body::Body, limits: &ApiLimits) -> Result<Bytes, Fault> {
    let collecting = Limited::new(body, limits.body).collect();
    match tokio::time::timeout(limits.request_time, collecting).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Fault::TooLarge(limits.body)),
        Ok(Err(error)) => Err(Fault::BadRequest(format!("the request's body cannot be read: {error}"))),
        Err(_elapsed) => Err(Fault::BodyTimeout),
    }
}

pub(super) fn json_response(document: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

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
