//! Routes of the daemon. Every answer is JSON, including errors, except hyper's answer to invalid HTTP.

use super::bounded::{Bounds, within};
use super::shared::Api;
use super::{events, history, metrics, node, openapi, recording, services};
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

/// Returns all routes. The caller adds the peer as an extension.
pub(super) fn router(api: Arc<Api>) -> Router {
    let bounds = Bounds { limits: api.limits.clone(), counters: api.counters.clone() };
    let routes = Router::new()
        .route("/v1/status", get(node::status))
        .route("/v1/containers", get(node::containers))
        .route("/v1/containers/{name}", get(node::container))
        .route("/v1/containers/{name}/release", post(node::release_container))
        .route("/v1/containers/{name}/govern", post(node::govern_container))
        .route("/v1/containers/{name}/pin", post(node::pin_container))
        .route("/v1/containers/{name}/unpin", post(node::unpin_container))
        .route("/v1/containers/{name}/adopt", post(node::adopt_container))
        .route("/v1/containers/{name}/disown", post(node::disown_container))
        .route("/v1/users", get(node::users))
        .route("/v1/release", post(node::release))
        .route("/v1/govern", post(node::govern))
        .route("/v1/restore", post(node::restore))
        .route("/v1/reload", post(node::reload))
        .route("/v1/config", get(node::configuration))
        .route("/v1/policy", get(node::policy).put(node::set_policy))
        .route("/v1/events", get(events::stream))
        .route("/v1/history", get(history::jobs))
        .route("/v1/history/samples", get(history::samples))
        .route("/v1/history/node", get(history::node))
        .route("/v1/history/blocks", get(history::blocks))
        .route("/v1/history/users", get(history::users))
        .route("/v1/history/events", get(history::events))
        .route("/v1/history/at", get(history::at))
        .route("/v1/services/{service}/record", get(services::record).put(services::expect))
        .route("/v1/recording", get(recording::stream))
        .route("/metrics", get(metrics::scrape))
        .route("/openapi.json", get(openapi::document))
        .with_state(api);
    within(bounds, routes)
}
