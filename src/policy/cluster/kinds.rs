//! Nodes that are equal for the jobs of an instance, and how they are divided into units.

use super::capacity::{allows, holds};
use super::deadlines::Catalogue;
use super::price::{FREE, parts, price};
use model::cluster::{Alternative, ClusterObservation, Constraint, Cost, NodeState, Resources};
use std::collections::BTreeMap;

/// Bounds of the number of units of a node: fewer divide it too coarsely, more take too long.
const UNITS: (usize, usize) = (8, 32);
pub(super) const HOUR_S: f64 = 3600.0;
const ROUNDING: f64 = 1e-6;

/// Nodes that are equal for the jobs in question.
pub(super) struct Kind {
    /// One of them.
    pub(super) node: usize,
    pub(super) units: usize,
    pub(super) price: f64,
}

/// The nodes of an instance, and their types: kind, and number of units that are left.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) numbers: Vec<usize>,
    pub(super) fixed: Vec<usize>,
    pub(super) open: Vec<Option<usize>>,
    types: Vec<(usize, usize)>,
}

impl Nodes {
    pub(super) fn add(&mut self, node: usize, kind: usize, units: usize, is_open: bool) {
        if units == 0 {
            return;
        }
        let known = self.types.iter().position(|known| *known == (kind, units));
        let node_type = known.unwrap_or_else(|| {
            self.types.push((kind, units));
            self.types.len() - 1
        });
        self.numbers.push(node);
        self.fixed.push(node_type);
        self.open.push(is_open.then_some(node_type));
    }

    /// Returns the types, with all kinds in their order: one without a node that has room left gets an empty row.
    pub(super) fn catalogue(&mut self, kinds: &[Kind]) -> Option<Catalogue> {
        let names: Vec<String> = (0..kinds.len()).map(|kind| kind.to_string()).collect();
        // A type that no node has keeps the numbers of the kinds in order.
        let first: Vec<(usize, usize)> = kinds.iter().enumerate().map(|(kind, of)| (kind, of.units)).collect();
        self.fixed.iter_mut().chain(self.open.iter_mut().flatten()).for_each(|node_type| *node_type += first.len());
        let rows = first.iter().chain(&self.types).map(|(kind, units)| {
            let of = &kinds[*kind];
            (&*names[*kind], &*names[*kind], *units, of.price * *units as f64 / of.units as f64)
        });
        Catalogue::new(&rows.collect::<Vec<_>>()).ok()
    }
}

impl Kind {
    /// Returns how many units a request takes; `None` if the node is too small even when empty.
    pub(super) fn units_of(&self, observation: &ClusterObservation, request: Resources) -> Option<usize> {
        let capacity = observation.nodes[self.node].capacity;
        let part = parts(request, capacity).into_iter().flatten().fold(0.0, f64::max);
        holds(capacity, request, 1)
            .then(|| ((part * self.units as f64 - ROUNDING).ceil() as usize).clamp(1, self.units))
    }

    pub(super) fn units_left(&self, observation: &ClusterObservation, left: Resources) -> usize {
        let part = parts(left, observation.nodes[self.node].capacity).into_iter().flatten().fold(1.0, f64::min);
        (part * self.units as f64 + ROUNDING) as usize
    }

    /// Returns what a job costs here.
    pub(super) fn cost(&self, units: usize, seconds: f64, late_s: f64, late_cost: f64) -> Cost {
        let price = if self.price > FREE { self.price } else { 0.0 };
        let node = price * units as f64 / self.units as f64 * seconds / HOUR_S;
        Cost { seconds, node, lateness: late_cost * late_s / HOUR_S }
    }
}

/// Returns the kinds of nodes that can run jobs, and the kind of each node.
pub(super) fn kinds(
    observation: &ClusterObservation,
    jobs: &[usize],
    ways: &[Vec<Alternative>],
) -> (Vec<Kind>, Vec<Option<usize>>) {
    let mut constraints: Vec<&Constraint> = Vec::new();
    let own = jobs.iter().flat_map(|at| &observation.jobs[*at].constraints);
    for constraint in own.chain(ways.iter().flatten().flat_map(|way| &way.constraints)) {
        if !constraints.contains(&constraint) {
            constraints.push(constraint);
        }
    }
    let (mut kinds, mut known) = (Vec::new(), BTreeMap::new());
    let mut kind_of = vec![None; observation.nodes.len()];
    for (node, seen) in observation.nodes.iter().enumerate() {
        if !matches!(seen.state, NodeState::Ready | NodeState::Closed) {
            continue;
        }
        let Resources { cores, memory, gpus } = seen.capacity;
        let price = price(observation, node).max(FREE);
        let holds: Vec<bool> =
            constraints.iter().map(|constraint| allows(seen, std::slice::from_ref(*constraint))).collect();
        kind_of[node] =
            Some(*known.entry((cores.to_bits(), memory.0, gpus, price.to_bits(), holds)).or_insert_with(|| {
                kinds.push(Kind { node, units: units(seen.capacity), price });
                kinds.len() - 1
            }));
    }
    (kinds, kind_of)
}

/// Returns the number of units of a node: a multiple of its GPUs, or of its cores if it has none.
fn units(capacity: Resources) -> usize {
    let whole = if capacity.gpus > 0 { capacity.gpus as usize } else { capacity.cores as usize };
    let whole = whole.clamp(1, UNITS.1);
    whole * UNITS.0.div_ceil(whole)
}
