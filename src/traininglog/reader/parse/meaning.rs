//! Meanings of printed names and numbers.

use crate::Direction;
use serde::{Deserialize, Serialize};

/// The data split on which a value was measured, if the line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Split {
    Unsaid,
    Train,
    Valid,
    Test,
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// An evaluation function; `weight` is how typical the name is, 0 ..= 1.
    Metric { direction: Option<Direction>, weight: f32, split: Split },
    /// A progress counter.
    Counter(Count),
    /// A total, or a counter with such a name: `max_epochs`, `n_iter`.
    Declared(Count),
    /// Certainly no evaluation: a time, a size, a setting.
    Other,
    /// An unknown name.
    Unknown,
}

/// The kind of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Count {
    Epoch,
    Step,
    Iteration,
    Batch,
    Round,
    Episode,
    Trial,
    /// A fold of a cross-validation.
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
    /// A whole number with an unknown name: a counter if it grows regularly.
    Tally,
}

/// Set in the label of a counter of an evaluation: `Eval epoch`.
pub(crate) const ASIDE: u16 = 1 << 15;

/// The percentage of the counter before it: `4310 (86.18%)`.
pub(crate) const OF_COUNTER: Counted = Counted { count: Count::Percent, label: 1 };

/// A counter as a line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub count: Count,
    /// Differs between names of one kind: `step` and `global step`.
    pub label: u16,
}
