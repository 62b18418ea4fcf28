//! `/metrics` in Prometheus' conventions: base units, ratios of one, one family a quantity.
//!
//! Built afresh from the snapshot at each scrape, so that nothing is left behind by a container that ended.
//! Imports: siblings, prometheus-client.

mod classic;
mod node;
mod own;

pub(super) use own::Counters;

use super::routes::Api;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use node::NodeMetrics;
use own::OwnMetrics;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::Error;
use std::sync::Arc;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Everything measurable, for Prometheus: as OpenMetrics for who accepts that, otherwise in the older text format.
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String,
    content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(super) async fn scrape(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(NodeMetrics(api.snapshots.latest().status.clone())));
    registry.register_collector(Box::new(OwnMetrics(api.clone())));
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) if accepts_open_metrics(&headers) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Ok(()) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], classic::classic(&text)).into_response(),
        // Writing to a string fails only when a label set does, and ours are plain strings.
        Err(Error) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.contains("application/openmetrics-text")
}

/// Whether a number only ever grows.
#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

impl Kind {
    fn metric_type(self) -> MetricType {
        match self {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
        }
    }

    fn encode(self, encoder: &mut MetricEncoder<'_>, number: f64) -> Result<(), Error> {
        match self {
            Kind::Gauge => encoder.encode_gauge(&number),
            Kind::Counter => encoder.encode_counter::<NoLabelSet, f64, f64>(&number, None),
        }
    }
}

/// One number without labels; nothing at all where it is unknown.
fn single(
    out: &mut DescriptorEncoder<'_>,
    kind: Kind,
    name: &str,
    help: &str,
    number: Option<f64>,
) -> Result<(), Error> {
    match number {
        Some(number) => kind.encode(&mut out.encode_descriptor(name, help, None, kind.metric_type())?, number),
        None => Ok(()),
    }
}

/// One number for each set of labels.
fn family<const N: usize>(
    out: &mut DescriptorEncoder<'_>,
    kind: Kind,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = ([(&'static str, String); N], f64)>,
) -> Result<(), Error> {
    let mut series = series.into_iter().peekable();
    if series.peek().is_none() {
        return Ok(());
    }
    let mut encoder = out.encode_descriptor(name, help, None, kind.metric_type())?;
    for (labels, number) in series {
        kind.encode(&mut encoder.encode_family(&labels)?, number)?;
    }
    Ok(())
}
