//! What printed names and numbers may stand for.
//!
//! Imports: model.

use crate::model::Direction;
use serde::{Deserialize, Serialize};

/// Which part of the data a value was measured on, as far as the line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Split {
    Unsaid,
    Train,
    Valid,
    Test,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meaning {
    /// An evaluation function; `weight` is how typical, 0 ..= 1.
    Metric { direction: Option<Direction>, weight: f32, split: Split },
    /// A progress counter.
    Counter(Count),
    /// How many there will be, or a counter with such a name: `max_epochs`, `n_iter`.
    Declared(Count),
    /// Surely no evaluation: a time, a size, a setting.
    Other,
    /// Nothing known.
    Unknown,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Count {
    Epoch,
    Step,
    Iteration,
    Batch,
    Round,
    Episode,
    Trial,
    /// A part of the data held out in turn.
    Fold,
    Kimg,
    Tick,
    Sample,
    /// A bare number that begins the line.
    Lead,
    /// A bare number in brackets after another counter.
    Nested,
    /// A bare `i/n`.
    Pair,
    /// A bare `n%`.
    Percent,
    /// A whole number whose name says nothing: a counter if it behaves like one.
    Tally,
}

/// A counter as a line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub count: Count,
    /// Differs between names of one kind: `step` and `global step`.
    pub label: u16,
}
