//! Nodes ordered by a score, so that the best acceptable node is found without looking at all of them.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A score with a total order; lower is better.
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

/// Nodes ordered by score, then by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranked {
    order: BTreeSet<(Score, usize)>,
    scores: Vec<Option<Score>>,
}

impl Ranked {
    /// Ranks nodes by their scores, given in the order of their numbers; a node with `None` is not ranked.
    pub(super) fn new(scores: impl Iterator<Item = Option<f64>>) -> Ranked {
        let scores: Vec<Option<Score>> = scores.map(|score| score.map(Score)).collect();
        let order = scores.iter().enumerate().filter_map(|(node, score)| Some(((*score)?, node))).collect();
        Ranked { order, scores }
    }

    /// Returns the first acceptable node among the `most` best, with its score.
    pub(super) fn first(&self, most: usize, mut accepts: impl FnMut(usize) -> bool) -> Option<(usize, f64)> {
        self.order.iter().take(most).find(|(_, node)| accepts(*node)).map(|(score, node)| (*node, score.0))
    }

    /// Changes the score of a node; `None` removes it from the ranking.
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
