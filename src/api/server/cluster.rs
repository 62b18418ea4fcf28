//! Routes of a coordinator: each handler reads the latest status or sends a command to the coordinator.

use super::access::Peer;
use super::bounded::{Bounds, within};
use super::commands::{answered, object, permitted};
use super::metrics::cluster::ClusterMetrics;
use super::metrics::exposition;
use super::problem::Fault;
use super::shared::{ApiLimits, Counters, json_response};
use super::snapshot::json;
use crate::cluster::{ClusterFeed, Wanted};
use crate::wire::{Cluster, ClusterEvents, Done, GangSubmission, JobOutput, Problem, Submission};
use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use hyper::body::Bytes;
use model::cluster::ClusterCommand;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use std::sync::{Arc, LazyLock, PoisonError};
use utoipa::{IntoParams, OpenApi};

/// Returns all routes of a coordinator.
pub(super) fn router(feed: ClusterFeed, limits: ApiLimits, counters: Arc<Counters>) -> Router {
    let routes = Router::new()
        .route("/v1/cluster", get(status))
        .route("/v1/cluster/events", get(events))
        .route("/v1/cluster/jobs", post(submit))
        .route("/v1/cluster/gangs", post(submit_gang))
        .route("/v1/cluster/jobs/{name}/logs", get(logs))
        .route("/v1/cluster/jobs/{name}/cancel", post(cancel))
        .route("/v1/cluster/jobs/{name}/move", post(move_job))
        .route("/v1/cluster/jobs/{name}/suspend", post(suspend))
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

/// The state of the cluster: nodes, jobs, and the reasons for their placement.
#[utoipa::path(get, path = "/v1/cluster", responses((status = 200, body = Cluster), (status = 403, body = Problem)))]
async fn status(State(feed): State<ClusterFeed>) -> Response {
    let status = feed.status.borrow().clone();
    json_response(json(&Cluster::of(&status)))
}

/// Query parameters of events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct After {
    /// Only events after this sequence number.
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

/// Queue a training as a service with 0 replicas.
#[utoipa::path(post, path = "/v1/cluster/jobs", request_body = Submission,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 403, body = Problem), (status = 409, body = Problem)))]
async fn submit(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Result<Response, Fault> {
    permitted(&peer)?;
    let submission: Submission = object(&body, "a submission")?;
    let submission = submission.checked().map_err(Fault::BadRequest)?;
    ask(&feed, &peer, Wanted::Submissions(vec![submission])).await
}

/// Queue the workers of a gang, each as a service with 0 replicas: all of them, or none.
#[utoipa::path(post, path = "/v1/cluster/gangs", request_body = GangSubmission,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 403, body = Problem), (status = 409, body = Problem)))]
async fn submit_gang(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Result<Response, Fault> {
    permitted(&peer)?;
    let gang: GangSubmission = object(&body, "a gang")?;
    let workers = gang.workers.into_iter().map(Submission::checked).collect::<Result<Vec<_>, _>>();
    ask(&feed, &peer, Wanted::Submissions(workers.map_err(Fault::BadRequest)?)).await
}

/// Query parameters of a job's output.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct OutputParameters {
    /// Only lines after this one, given by its time.
    after: Option<String>,
    /// Maximum number of lines, the last ones.
    #[serde(default = "tail")]
    #[param(maximum = 10_000)]
    tail: u32,
}

/// Default number of lines.
fn tail() -> u32 {
    1000
}

/// The last lines of a job's output, from the node where it runs or ran last; needs full control.
#[utoipa::path(get, path = "/v1/cluster/jobs/{name}/logs", params(("name" = String, Path, description = "name or id of the service (4 characters of the id suffice)"), OutputParameters),
    responses((status = 200, body = JobOutput), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn logs(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
    parameters: Result<Query<OutputParameters>, QueryRejection>,
) -> Result<Response, Fault> {
    let (Path(job), Query(OutputParameters { after, tail })) = (name?, parameters?);
    let wanted = Wanted::Output { job, after, tail: tail.min(10_000) };
    let text = answered(&feed.commands, &peer, wanted, Fault::OfACluster).await?;
    Ok(json_response(json(&JobOutput::of(&text))))
}

/// End a job for good. It stops and may save its state, as in a move, and does not start again.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/cancel", params(("name" = String, Path, description = "name or id of the service (4 characters of the id suffice), or name of the gang")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn cancel(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let Path(job) = name?;
    carry_out(&feed, &peer, ClusterCommand::Cancel(job)).await
}

/// Query parameters with a node.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct NodeParameter {
    /// Hostname or id.
    node: String,
}

/// Move a job to a node.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/move", params(("name" = String, Path, description = "name or id of the service (4 characters of the id suffice), or name of the gang"), NodeParameter),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn move_job(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
    node: Result<Query<NodeParameter>, QueryRejection>,
) -> Result<Response, Fault> {
    let (Path(job), Query(NodeParameter { node })) = (name?, node?);
    carry_out(&feed, &peer, ClusterCommand::Move { job, node }).await
}

/// Stop a job until it is resumed. It saves its state first, as in a move.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/suspend", params(("name" = String, Path, description = "name or id of the service (4 characters of the id suffice), or name of the gang")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn suspend(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let Path(job) = name?;
    carry_out(&feed, &peer, ClusterCommand::Suspend(job)).await
}

/// Continue a suspended job, or one whose restarts were given up.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/resume", params(("name" = String, Path, description = "name or id of the service (4 characters of the id suffice), or name of the gang")),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn resume(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
) -> Result<Response, Fault> {
    let Path(job) = name?;
    carry_out(&feed, &peer, ClusterCommand::Resume(job)).await
}

/// Confirm that a node is switched off permanently, so that the job may start on another node.
#[utoipa::path(post, path = "/v1/cluster/jobs/{name}/node-is-off", params(("name" = String, Path, description = "name or id of the service (4 characters of the id suffice), or name of the gang"), NodeParameter),
    responses((status = 200, body = Done), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn node_is_off(
    State(feed): State<ClusterFeed>,
    Extension(peer): Extension<Peer>,
    name: Name,
    node: Result<Query<NodeParameter>, QueryRejection>,
) -> Result<Response, Fault> {
    let (Path(job), Query(NodeParameter { node })) = (name?, node?);
    carry_out(&feed, &peer, ClusterCommand::NodeIsOff { job, node }).await
}

/// Drain a node for maintenance: its jobs move away, and it gets no new ones.
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

/// End the draining of a node.
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

/// Metrics for Prometheus.
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
        description = "Status and commands of the cluster's coordinator, on a Unix socket. Root and configured users have full control; members of the group `flowcon` have read-only access."
    ),
    paths(
        status,
        events,
        submit,
        submit_gang,
        logs,
        move_job,
        suspend,
        resume,
        cancel,
        node_is_off,
        drain,
        undrain,
        metrics,
        document
    )
)]
struct Description;

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| json(&Description::openapi()));

/// The description of this API.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json")))]
async fn document() -> Response {
    json_response(DOCUMENT.clone())
}

async fn carry_out(feed: &ClusterFeed, peer: &Peer, command: ClusterCommand) -> Result<Response, Fault> {
    ask(feed, peer, Wanted::Command(command)).await
}

/// Sends a request to the coordinator and waits until it is done.
async fn ask(feed: &ClusterFeed, peer: &Peer, wanted: Wanted) -> Result<Response, Fault> {
    let done = answered(&feed.commands, peer, wanted, Fault::OfACluster).await?;
    Ok(json_response(json(&Done { done })))
}
