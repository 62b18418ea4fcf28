//! Paths → snapshots, commands and streams. Every answer is JSON, also every refusal; hyper alone answers what is not HTTP.
//!
//! Imports: siblings, axum.

use super::problem::Fault;
use super::shared::{Api, ApiLimits};
use super::{events, history, metrics, node, openapi, recording};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, body};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use std::sync::Arc;

/// All routes. The peer is put in as an extension by whoever accepted the connection.
pub(super) fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/status", get(node::status))
        .route("/v1/containers", get(node::containers))
        .route("/v1/containers/{name}", get(node::container))
        .route("/v1/containers/{name}/pause", post(node::pause_container))
        .route("/v1/containers/{name}/resume", post(node::resume_container))
        .route("/v1/containers/{name}/pin", post(node::pin_container))
        .route("/v1/containers/{name}/unpin", post(node::unpin_container))
        .route("/v1/containers/{name}/adopt", post(node::adopt_container))
        .route("/v1/containers/{name}/disown", post(node::disown_container))
        .route("/v1/pause", post(node::pause))
        .route("/v1/resume", post(node::resume))
        .route("/v1/restore", post(node::restore))
        .route("/v1/reload", post(node::reload))
        .route("/v1/config", get(node::configuration))
        .route("/v1/policy", get(node::policy).put(node::set_policy))
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
