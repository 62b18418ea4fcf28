//! Encodes metric families: gauges and counters, with or without labels.

use model::JobStatus;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt::Error;

/// The type of a metric: a counter only grows.
#[derive(Clone, Copy)]
pub(super) enum Kind {
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

/// Encodes a metric without labels; nothing if its value is unknown.
pub(super) fn single(
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

/// Returns the labels of a container's series.
pub(super) fn identity(job: &JobStatus) -> [(&'static str, String); 2] {
    [("id", job.observed.id.to_string()), ("name", job.observed.name.clone())]
}

/// Encodes a metric with one value for each set of labels; nothing if there are no values.
pub(super) fn family<const N: usize>(
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
