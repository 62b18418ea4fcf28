//! Free GPUs of the cluster: a job runs within one group of equal nodes, and on one node if it fits there.

use std::fmt;
use std::str::FromStr;

const MOST_GPUS: u64 = 1_000_000;

/// The cluster's GPUs: `64` is one pool without placement, `64x8` is 64 nodes of 8, `16x4:v100,32x8:k80` are nodes of two types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    groups: Vec<Group>,
}

/// Nodes with the same number and type of GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    nodes: u64,
    per_node: u64,
    /// `None` if all GPUs are equal.
    pub(super) kind: Option<String>,
}

impl Gpus {
    /// Number of GPUs of the largest group, the upper limit for a job.
    pub fn largest(&self) -> u64 {
        self.groups.iter().map(Group::total).max().unwrap_or(0)
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }
}

impl Group {
    pub(super) fn total(&self) -> u64 {
        self.nodes * self.per_node
    }

    fn parse(text: &str) -> Option<Group> {
        let (size, kind) = match text.split_once(':') {
            Some((size, kind)) => (size, Some(kind.trim().to_owned()).filter(|kind| !kind.is_empty())?.into()),
            None => (text, None),
        };
        let (nodes, per_node) = size.split_once('x').unwrap_or(("1", size));
        let number = |text: &str| text.trim().parse::<u64>().ok().filter(|count| (1..=MOST_GPUS).contains(count));
        Some(Group { nodes: number(nodes)?, per_node: number(per_node)?, kind })
    }
}

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Gpus, String> {
        let groups: Option<Vec<Group>> = text.split(',').map(Group::parse).collect();
        let groups = groups.filter(|groups| groups.iter().map(Group::total).sum::<u64>() <= MOST_GPUS);
        let expected = "expected a number of GPUs such as 64, NODESxGPUS such as 64x8, or a list with types such as 16x4:v100,32x8:k80";
        groups.map(|groups| Gpus { groups }).ok_or_else(|| expected.to_owned())
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Group { nodes, per_node, kind }) in self.groups.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "," })?;
            if *nodes > 1 {
                write!(f, "{nodes}x")?;
            }
            write!(f, "{per_node}")?;
            if let Some(kind) = kind {
                write!(f, ":{kind}")?;
            }
        }
        Ok(())
    }
}

/// Free GPUs per node, and the GPUs held by jobs.
pub(super) struct FreeGpus {
    groups: Vec<FreeGroup>,
    free_in_all: u64,
    /// The GPUs held by each job.
    held: Vec<Held>,
}

struct FreeGroup {
    per_node: u64,
    free: Vec<u64>,
    free_in_all: u64,
}

#[derive(Clone, Default)]
struct Held {
    group: usize,
    /// Nodes, and the number of GPUs on each.
    nodes: Vec<(usize, u64)>,
}

impl FreeGpus {
    pub(super) fn new(gpus: &Gpus, jobs: usize) -> FreeGpus {
        let free = |group: &Group| FreeGroup {
            per_node: group.per_node,
            free: vec![group.per_node; group.nodes as usize],
            free_in_all: group.total(),
        };
        FreeGpus {
            groups: gpus.groups.iter().map(free).collect(),
            free_in_all: gpus.groups.iter().map(Group::total).sum(),
            held: vec![Held::default(); jobs],
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free_in_all == 0
    }

    /// Reserves GPUs for `job` in this group; returns whether they were free.
    pub(super) fn reserve(&mut self, job: usize, gpus: u64, group: usize) -> bool {
        let Some(nodes) = self.groups[group].reserve(gpus) else { return false };
        self.free_in_all -= gpus;
        self.held[job] = Held { group, nodes };
        true
    }

    pub(super) fn release(&mut self, job: usize) {
        let Held { group, nodes } = &mut self.held[job];
        let group = &mut self.groups[*group];
        for (node, count) in nodes.drain(..) {
            group.free[node] += count;
            group.free_in_all += count;
            self.free_in_all += count;
        }
    }
}

impl FreeGroup {
    /// Reserves GPUs on the node with the fewest free GPUs that are enough; a larger job gets empty nodes, and the rest on one more.
    fn reserve(&mut self, gpus: u64) -> Option<Vec<(usize, u64)>> {
        if gpus > self.free_in_all {
            return None;
        }
        let (whole, rest) = (gpus / self.per_node, gpus % self.per_node);
        let mut nodes: Vec<(usize, u64)> =
            self.empty_nodes().take(whole as usize).map(|node| (node, self.per_node)).collect();
        if nodes.len() < whole as usize {
            return None;
        }
        if rest > 0 {
            let taken = |node: &usize| nodes.iter().any(|(other, _)| other == node);
            let enough = (0..self.free.len()).filter(|node| self.free[*node] >= rest && !taken(node));
            nodes.push((enough.min_by_key(|node| self.free[*node])?, rest));
        }
        for &(node, count) in &nodes {
            self.free[node] -= count;
        }
        self.free_in_all -= gpus;
        Some(nodes)
    }

    fn empty_nodes(&self) -> impl Iterator<Item = usize> {
        (0..self.free.len()).filter(|node| self.free[*node] == self.per_node)
    }
}
