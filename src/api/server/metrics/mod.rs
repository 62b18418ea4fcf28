//! `/metrics` in Prometheus' conventions: base units, ratios of one, one family per quantity.
//!
//! The metrics are built from the snapshot at each scrape, so that series of ended containers disappear.

mod classic;
pub(super) mod cluster;
mod family;
mod gpu;
mod node;
mod own;

use super::shared::Api;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use node::NodeMetrics;
use own::OwnMetrics;
use prometheus_client::registry::Registry;
use std::fmt::Error;
use std::sync::Arc;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics for Prometheus: as OpenMetrics if the client accepts it, otherwise in the older text format.
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String,
    content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(super) async fn scrape(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(NodeMetrics(api.snapshots.latest().status.clone())));
    registry.register_collector(Box::new(OwnMetrics(api.clone())));
    exposition(&registry, &headers)
}

/// Encodes the registered metrics as OpenMetrics or in the older text format.
pub(super) fn exposition(registry: &Registry, headers: &HeaderMap) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, registry) {
        Ok(()) if accepts_open_metrics(headers) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Ok(()) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], classic::classic(&text)).into_response(),
        // Writing to a string fails only if a label set fails, and the label sets are plain strings.
        Err(Error) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.contains("application/openmetrics-text")
}
