//! Where GPUs are free: one pool, or nodes of which a job that fits into one must be on one.
//!
//! Imports: nothing.

use std::fmt;
use std::str::FromStr;

const MOST_GPUS: u64 = 1_000_000;

/// The cluster's GPUs: `64` is one pool without placement, `64x8` is 64 nodes of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpus {
    nodes: u64,
    per_node: u64,
}

impl Gpus {
    /// GPUs in all.
    pub fn total(self) -> u64 {
        self.nodes * self.per_node
    }
}

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Gpus, String> {
        let (nodes, per_node) = text.split_once('x').unwrap_or(("1", text));
        let number = |text: &str| text.parse::<u64>().ok().filter(|count| (1..=MOST_GPUS).contains(count));
        match (number(nodes), number(per_node)) {
            (Some(nodes), Some(per_node)) if nodes * per_node <= MOST_GPUS => Ok(Gpus { nodes, per_node }),
            _ => Err("expected a number of GPUs such as 64, or NODESxGPUS such as 64x8".to_owned()),
        }
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 1 { self.per_node.fmt(f) } else { write!(f, "{}x{}", self.nodes, self.per_node) }
    }
}

/// Free GPUs, node by node.
pub(super) struct Room {
    gpus: Gpus,
    free: Vec<u64>,
    free_in_all: u64,
    /// Which nodes a job holds and how many GPUs of each.
    held: Vec<Vec<(usize, u64)>>,
}

impl Room {
    pub(super) fn new(gpus: Gpus, jobs: usize) -> Room {
        Room {
            gpus,
            free: vec![gpus.per_node; gpus.nodes as usize],
            free_in_all: gpus.total(),
            held: vec![Vec::new(); jobs],
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free_in_all == 0
    }

    /// Gives `job` its GPUs, or nothing: on the node with the least that is enough, or for a larger job on empty nodes and the
    /// rest on one more.
    pub(super) fn take(&mut self, job: usize, gpus: u64) -> bool {
        if gpus > self.free_in_all {
            return false;
        }
        let (whole, rest) = (gpus / self.gpus.per_node, gpus % self.gpus.per_node);
        let mut nodes: Vec<(usize, u64)> =
            self.empty_nodes().take(whole as usize).map(|n| (n, self.gpus.per_node)).collect();
        if nodes.len() < whole as usize {
            return false;
        }
        if rest > 0 {
            let taken = |node: &usize| nodes.iter().any(|(other, _)| other == node);
            let enough = (0..self.free.len()).filter(|node| self.free[*node] >= rest && !taken(node));
            let Some(node) = enough.min_by_key(|node| self.free[*node]) else { return false };
            nodes.push((node, rest));
        }
        for &(node, count) in &nodes {
            self.free[node] -= count;
        }
        self.free_in_all -= gpus;
        self.held[job] = nodes;
        true
    }

    fn empty_nodes(&self) -> impl Iterator<Item = usize> {
        (0..self.free.len()).filter(|node| self.free[*node] == self.gpus.per_node)
    }

    pub(super) fn release(&mut self, job: usize) {
        for (node, count) in self.held[job].drain(..) {
            self.free[node] += count;
            self.free_in_all += count;
        }
    }
}
