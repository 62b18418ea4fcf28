//! An operation on one container, as it goes from the loop to the actuator, and what came of it back. Imports: limits, targets, model.

use super::target::{Run, Target};
use crate::limits::{Ask, Outcome, Promised};
use crate::model::ContainerId;

/// What became of one container.
#[derive(Debug)]
pub(super) struct Came {
    pub id: ContainerId,
    /// Of which run; `None`: of all that have ended.
    pub run: Option<Run>,
    pub outcome: Box<Outcome>,
}

/// One container on which an operation is carried out.
#[derive(Debug)]
pub(super) struct Piece<T> {
    pub id: ContainerId,
    pub run: Option<Run>,
    /// `None`: it does not run.
    pub target: Option<Target>,
    /// Its original, as far as is known; the journal may know an earlier one.
    pub original: Promised,
    pub operation: T,
    /// What it asks for next.
    pub ask: Ask,
}
