//! What a caller knows about a log.

use crate::pattern::Pattern;
use crate::{Direction, ProgressUnit};

/// What a caller knows about a log. All of it is optional: without hints, everything is found in the log itself.
///
/// ```
/// use traininglog::{Direction, Hints};
///
/// let hints = Hints { metric: Some("val_acc".to_owned()), direction: Some(Direction::Up), ..Hints::default() };
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hints {
    /// The name of the evaluation function. Only letters and digits are compared, in any case; a name that begins or ends with this one
    /// is accepted if no other is equal.
    pub metric: Option<String>,
    /// The direction in which it improves.
    pub direction: Option<Direction>,
    /// A pattern that reads the values, for lines that are misread without it.
    pub pattern: Option<Pattern>,
    /// Total number of progress units; takes precedence over the log's.
    pub total: Option<f64>,
    /// The progress unit to follow.
    pub unit: Option<ProgressUnit>,
    /// Names that are never used as the evaluation function.
    pub ignore: Vec<String>,
}
