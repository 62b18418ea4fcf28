//! A plan in the making: which type of GPU each node has, and who is where.
//!
//! Imports: nothing of this crate but the plan.

use super::plan::Place;

/// A plan whose node types are still open: they follow from who is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// For each node the type of its GPUs; it means nothing where nobody is.
    pub gpu: Vec<usize>,
    /// The place of each job; `None` waits.
    pub places: Vec<Option<Place>>,
}

impl Draft {
    /// For each node its jobs with their GPUs.
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
