//! An unfinished plan: the GPU type of each node and the place of each job.

use super::plan::Assignment;

/// A plan without node types: they follow from the jobs on each node.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// GPU type of each node; meaningless for a node without jobs.
    pub gpu: Vec<usize>,
    /// Assignment of each job; `None` = it waits.
    pub places: Vec<Option<Assignment>>,
}

impl Draft {
    /// Returns the jobs of each node with their numbers of GPUs.
    pub(super) fn seats(&self, nodes: usize) -> Vec<Vec<(usize, usize)>> {
        let mut seats = vec![Vec::new(); nodes];
        for (job, place) in self.places.iter().enumerate() {
            if let Some(place) = place {
                seats[place.node].push((job, place.gpus));
            }
        }
        seats
    }
}
