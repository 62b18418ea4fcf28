//! The price of a rented node.

use model::cluster::ClusterObservation;

/// Node label: price per hour, in any currency.
pub(super) const PRICE: &str = "flowcon.price";

/// Returns the price of a node per hour; 0 without a valid label.
pub(super) fn price(observation: &ClusterObservation, node: usize) -> f64 {
    let price = observation.nodes[node].labels.get(PRICE).and_then(|price| price.parse().ok());
    price.filter(|price: &f64| price.is_finite() && *price >= 0.0).unwrap_or(0.0)
}
