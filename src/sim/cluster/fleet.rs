//! The nodes of a cluster, and the node with the next event.

use crate::job::Job;
use crate::node::{Carried, SimulatedNode};
use crate::scenario::NodeShape;
use crate::variant::Variant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The worker behind a container on a node: the job's index and the worker's number.
pub(super) type Owner = (usize, u32);

/// All nodes.
pub(super) struct Fleet {
    nodes: Vec<SimulatedNode>,
    /// By node, and number on the node.
    owners: Vec<Vec<Owner>>,
    /// (Time, node) of next events; an entry is valid only if it equals the node's entry in `due`.
    next: BinaryHeap<Reverse<(Instant, usize)>>,
    due: Vec<f64>,
}

/// A time with a total order.
#[derive(Clone, Copy, PartialEq)]
struct Instant(f64);

impl Eq for Instant {}

impl Ord for Instant {
    fn cmp(&self, other: &Instant) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Instant) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Fleet {
    pub(super) fn new(count: usize, shape: NodeShape, variant: &Variant) -> Fleet {
        Fleet {
            nodes: (0..count).map(|_| SimulatedNode::new(shape, variant, false, false)).collect(),
            owners: vec![Vec::new(); count],
            next: BinaryHeap::new(),
            due: vec![f64::INFINITY; count],
        }
    }

    /// Time of the next event of any node; infinite if there is none.
    pub(super) fn next_s(&mut self) -> f64 {
        while let Some(Reverse((at, node))) = self.next.peek() {
            if self.due[*node] == at.0 {
                return at.0;
            }
            self.next.pop();
        }
        f64::INFINITY
    }

    /// Handles the next event; returns the worker that ended, if any, with its node and its number there.
    pub(super) fn step(&mut self) -> Option<(Owner, usize, usize)> {
        let Reverse((_, node)) = self.next.pop()?;
        self.due[node] = f64::INFINITY;
        let ended = self.nodes[node].step();
        self.reschedule(node);
        ended.map(|number| (self.owners[node][number], node, number))
    }

    /// Starts a worker; returns its number on the node.
    pub(super) fn start(&mut self, node: usize, owner: Owner, carried: Starting, now: f64) -> usize {
        let number = match carried {
            Starting::Anew(job) => self.nodes[node].add(job),
            Starting::Carried(carried) => self.nodes[node].add_carried(*carried),
        };
        self.owners[node].push(owner);
        self.nodes[node].start(number, now);
        self.reschedule(node);
        number
    }

    /// Stops a worker and returns its saved work.
    pub(super) fn stop(&mut self, node: usize, number: usize, now: f64) -> Option<Carried> {
        let carried = self.nodes[node].stop(number, now);
        self.reschedule(node);
        carried
    }

    pub(super) fn node_mut(&mut self, node: usize) -> &mut SimulatedNode {
        &mut self.nodes[node]
    }

    pub(super) fn node(&self, node: usize) -> &SimulatedNode {
        &self.nodes[node]
    }

    pub(super) fn owner(&self, node: usize, number: usize) -> Owner {
        self.owners[node][number]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    fn reschedule(&mut self, node: usize) {
        let at = self.nodes[node].next_s();
        if std::mem::replace(&mut self.due[node], at) != at && at.is_finite() {
            self.next.push(Reverse((Instant(at), node)));
        }
    }
}

/// The state from which a worker starts.
pub(super) enum Starting {
    /// The beginning.
    Anew(Arc<Job>),
    /// Work saved on another node.
    Carried(Box<Carried>),
}
