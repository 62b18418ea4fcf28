//! Nodes in order of a score, so that the best one that can take a job is found without looking at all of them.
//!
//! Imports: nothing.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A score that sorts; less is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score(pub(super) f64);

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Nodes by score; equal ones by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranked {
    order: BTreeSet<(Score, usize)>,
    scores: Vec<Option<Score>>,
}

impl Ranked {
    /// All nodes, by number; `None` = not in the list.
    pub(super) fn new(scores: impl Iterator<Item = Option<f64>>) -> Ranked {
        let scores: Vec<Option<Score>> = scores.map(|score| score.map(Score)).collect();
        let order = scores.iter().enumerate().filter_map(|(node, score)| Some(((*score)?, node))).collect();
        Ranked { order, scores }
    }

    /// The first of the `most` best nodes that is acceptable, with its score.
    pub(super) fn first(&self, most: usize, mut accepts: impl FnMut(usize) -> bool) -> Option<(usize, f64)> {
        self.order.iter().take(most).find(|(_, node)| accepts(*node)).map(|(score, node)| (*node, score.0))
    }

    /// Gives a node another score, or takes it off the list.
    pub(super) fn set(&mut self, node: usize, score: Option<f64>) {
        let score = score.map(Score);
        if let Some(before) = std::mem::replace(&mut self.scores[node], score) {
            self.order.remove(&(before, node));
        }
        if let Some(score) = score {
            self.order.insert((score, node));
        }
    }
}
