//! The nodes of a cluster and which of them has the next event.
//!
//! Imports: nothing of this crate but the simulator's parts.

use crate::sim::job::Job;
use crate::sim::node::{Carried, Node};
use crate::sim::scenario::NodeShape;
use crate::sim::variant::Variant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Which worker a container of a node is: the job's number, and the worker's.
pub(super) type Owner = (usize, u32);

/// All nodes.
pub(super) struct Fleet {
    nodes: Vec<Node>,
    /// By node and number there.
    owners: Vec<Vec<Owner>>,
    /// (When, node), of which only those are valid that still hold.
    next: BinaryHeap<Reverse<(Instant, usize)>>,
    due: Vec<f64>,
}

/// A time that sorts.
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
            nodes: (0..count).map(|_| Node::new(shape, variant, false, false)).collect(),
            owners: vec![Vec::new(); count],
            next: BinaryHeap::new(),
            due: vec![f64::INFINITY; count],
        }
    }

    /// When a node has its next event; infinite if none has.
    pub(super) fn next_s(&mut self) -> f64 {
        while let Some(Reverse((at, node))) = self.next.peek() {
            if self.due[*node] == at.0 {
                return at.0;
            }
            self.next.pop();
        }
        f64::INFINITY
    }

    /// Lets the next event happen; returns whose worker ended with it, with the node and its number there.
    pub(super) fn step(&mut self) -> Option<(Owner, usize, usize)> {
        let Reverse((_, node)) = self.next.pop()?;
        self.due[node] = f64::INFINITY;
        let ended = self.nodes[node].step();
        self.reschedule(node);
        ended.map(|number| (self.owners[node][number], node, number))
    }

    /// A worker starts; returns its number on the node.
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

    /// A worker stops and saves what it has done.
    pub(super) fn stop(&mut self, node: usize, number: usize, now: f64) -> Option<Carried> {
        let carried = self.nodes[node].stop(number, now);
        self.reschedule(node);
        carried
    }

    pub(super) fn node_mut(&mut self, node: usize) -> &mut Node {
        &mut self.nodes[node]
    }

    pub(super) fn node(&self, node: usize) -> &Node {
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

/// What a worker starts from.
pub(super) enum Starting {
    /// Nothing.
    Anew(Arc<Job>),
    /// What it saved on another node.
    Carried(Box<Carried>),
}
