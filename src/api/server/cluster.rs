//! A coordinator's routes: each handler reads the latest status or gives the coordinator a command.
//!
//! Imports: siblings, axum.

use super::access::Peer;
use super::bounded::{Bounds, within};
use super::commands::{object, permitted};
use super::metrics::cluster::ClusterMetrics;
use super::metrics::exposition;
use super::problem::Fault;
use super::shared::{ApiLimits, Counters, json_response};
use super::snapshot::json;
use crate::api::cluster::{ClusterFeed, ClusterRequest, Wanted};
use crate::api::wire::{Cluster, ClusterEvents, Done, Problem, Submission};
use crate::model::cluster::ClusterCommand;
use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use hyper::body::Bytes;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use std::sync::{Arc, LazyLock, PoisonError};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use utoipa::{IntoParams, OpenApi};

/// All routes of a coordinator.
pub(super) fn router(feed: ClusterFeed, limits: ApiLimits, counters: Arc<Counters>) -> Router {
    let routes = Router::new()
        .route("/v1/cluster", get(status))
        .route("/v1/cluster/events", get(events))
        .route("/v1/cluster/jobs", post(submit))
        .route("/v1/cluster/jobs/{name}/move", post(move_job))
        .route("/v1/cluster/jobs/{name}/pause", post(pause))
        .route("/v1/cluster/jobs/{name}/resume", post(resume))
        .route("/v1/cluster/jobs/{name}/node-is-off", post(node_is_off))
        .route("/v1/cluster/nodes/{name}/drain", post(drain))
        .route("/v1/cluster/nodes/{name}/undrain", post(undrain))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(document))
        .with_state(feed);
    within(Bounds { limits, counters }, routes)
}

type Name = Result<Path<String>, PathRejection>;

/// The cluster at one instant: nodes, jobs, and why each is where it is.
#[utoipa::path(get, path = "/v1/cluster", responses((status = 200, body = Cluster), (status = 403, body = Problem)))]
async fn status(State(feed): State<ClusterFeed>) -> Response {
    let status = feed.status.borrow().clone();
    json_response(json(&Cluster::of(&status)))
}

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct After {
    /// Only those after the event of that number.
    #[serde(default)]
    after: u64,
}

/// Recent events, oldest first.
#[utoipa::path(get, path = "/v1/cluster/events", params(After), responses((status = 200, body = ClusterEvents), (status = 400, body = Problem)))]
async fn events(
    State(feed): State<ClusterFeed>,
    after: Result<Query<After>, QueryRejection>,
) -> Result<Response, Fault> {
    let Query(After { after }) = after?;
    let recent = feed.recent.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(json_response(json(&ClusterEvents::of(recent.iter(), after))))
}

/// Queue a training: a service with 0 replicas is made of it.
#[utoipa::path(post, path = "/v1/cluster/jobs", request_body = Submission,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 403, body = Problem), (status = 409, body = Problem)))]
async fn submit(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Result<Response, Fault> {
    permitted(&peer, "submitting a job")?;
    let submission: Submission = object(&body, "a submission")?;
    let asked = submission.asked().map_err(Fault::BadRequest)?;
    ask(&feed, &peer, "submitting a job", Wanted::Submission(Box::new(asked))).await
}

/// Which node.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Node {
    /// Hostname or id.
    node: String,
}

/// Move a job to a node.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/move", params(("name" = String, Path, description = "the service's name or id, or the gang"), Node),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn move_job(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
    node: Result<Query<Node>, QueryRejection>,
) -> Result<Response, Fault> {
    let (Path(job), Query(Node { node })) = (name?, node?);
    carry_out(&feed, &peer, ClusterCommand::Move { job, node }).await
}

/// Stop a job until it is resumed; it saves its state first, as in a move.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/pause", params(("name" = String, Path, description = "the service's name or id, or the gang")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn pause(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let Path(job) = name?;
    carry_out(&feed, &peer, ClusterCommand::Pause(job)).await
}

/// Let a paused job, or one that was given up, go on.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/resume", params(("name" = String, Path, description = "the service's name or id, or the gang")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn resume(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let Path(job) = name?;
    carry_out(&feed, &peer, ClusterCommand::Resume(job)).await
}

/// Take the operator's word that a node is switched off for good, so that the job may start elsewhere.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/node-is-off", params(("name" = String, Path, description = "the service's name or id, or the gang"), Node),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn node_is_off(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
    node: Result<Query<Node>, QueryRejection>,
) -> Result<Response, Fault> {
    let (Path(job), Query(Node { node })) = (name?, node?);
    carry_out(&feed, &peer, ClusterCommand::NodeIsOff { job, node }).await
}

/// Empty a node for maintenance: its jobs move away, and it gets none.
#[utoipa::path(post, path = "/v1/cluster/nodes/{name}/drain", params(("name" = String, Path, description = "hostname or id")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn drain(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let Path(node) = name?;
    carry_out(&feed, &peer, ClusterCommand::Drain(node)).await
}

/// Give a drained node jobs again.
#[utoipa::path(post, path = "/v1/cluster/nodes/{name}/undrain", params(("name" = String, Path, description = "hostname or id")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn undrain(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let Path(node) = name?;
    carry_out(&feed, &peer, ClusterCommand::Undrain(node)).await
}

/// Everything measurable, for Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String,
    content((String = "text/plain"), (String = "application/openmetrics-text")))))]
async fn metrics(State(feed): State<ClusterFeed>, headers: HeaderMap) -> Response {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ClusterMetrics(feed)));
    exposition(&registry, &headers)
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "flowcoord",
        description = "Status and commands of the cluster's coordinator, on a Unix socket. Root and configured users change; members of the group `flowcon` read."
    ),
    paths(status, events, submit, move_job, pause, resume, node_is_off, drain, undrain, metrics, document)
)]
struct Description;

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| json(&Description::openapi()));

/// This description.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json")))]
async fn document() -> Response {
    json_response(DOCUMENT.clone())
}

async fn carry_out(feed: &ClusterFeed, peer: &Peer, command: ClusterCommand) -> Result<Response, Fault> {
    ask(feed, peer, describe(&command), Wanted::Command(command)).await
}

/// Asks the coordinator and waits for its answer; the caller's time limit applies.
async fn ask(feed: &ClusterFeed, peer: &Peer, deed: &str, wanted: Wanted) -> Result<Response, Fault> {
    permitted(peer, deed)?;
    let (reply, answer) = oneshot::channel();
    let request = ClusterRequest { wanted, asked_by: peer.describe(), reply };
    feed.commands.try_send(request).map_err(|error| match error {
        TrySendError::Full(_) => Fault::Busy("too many commands are waiting".to_owned()),
        TrySendError::Closed(_) => Fault::Stopping,
    })?;
    match answer.await {
        Ok(Ok(done)) => Ok(json_response(json(&Done { done }))),
        Ok(Err(refusal)) => Err(Fault::OfACluster(refusal)),
        Err(_dropped) => Err(Fault::Stopping),
    }
}

/// What the command is called in a message to somebody who may not give it.
fn describe(command: &ClusterCommand) -> &'static str {
    match command {
        ClusterCommand::Drain(_) => "draining a node",
        ClusterCommand::Undrain(_) => "undraining a node",
        ClusterCommand::Move { .. } => "moving a job",
        ClusterCommand::Pause(_) => "pausing a job",
        ClusterCommand::Resume(_) => "resuming a job",
        ClusterCommand::NodeIsOff { .. } => "declaring a node off",
    }
}
