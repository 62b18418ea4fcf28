//! What jobs cost: their part of a node's price, and their lateness.

use super::queue::weight;
use model::cluster::{ClusterJob, ClusterNode, ClusterObservation, Priority, Resources};

/// Node label: price per hour, in any currency.
pub(super) const PRICE: &str = "flowcon.price";
/// Price of a node per hour that has none: of free nodes, too, the job should use little.
pub(super) const FREE: f64 = 1e-3;
/// Default cost of an hour of lateness at the default priority, in hours of the dearest node. In the thesis it is 30 to 100.
const LATE: f64 = 50.0;

/// Returns the price of a node per hour; 0 without a valid label.
pub(super) fn price(observation: &ClusterObservation, node: usize) -> f64 {
    price_of(&observation.nodes[node])
}

/// Like [`price`], for one node.
pub(super) fn price_of(node: &ClusterNode) -> f64 {
    let price = node.labels.get(PRICE).and_then(|price| price.parse().ok());
    price.filter(|price: &f64| price.is_finite() && *price >= 0.0).unwrap_or(0.0)
}

/// Returns the cost of each hour of a job after its deadline, given the price of the dearest node.
pub(super) fn late_cost(job: &ClusterJob, dearest: f64) -> f64 {
    job.late_cost.unwrap_or(LATE * dearest * weight(job.priority) / weight(Priority::default()))
}

/// Returns the price of an hour of what a job reserves on a node: its part of the node's price.
pub fn rent_of_part(node: &ClusterNode, request: Resources) -> f64 {
    price_of(node) * parts(request, node.capacity).into_iter().flatten().fold(0.0, f64::max).min(1.0)
}

/// Returns the parts that some resources are of others; `None` if there are none of them.
pub(super) fn parts(some: Resources, of: Resources) -> [Option<f64>; 3] {
    let part = |some: f64, of: f64| (of > 0.0).then(|| some / of);
    [
        part(some.cores, of.cores),
        part(some.memory.0 as f64, of.memory.0 as f64),
        part(f64::from(some.gpus), f64::from(of.gpus)),
    ]
}
