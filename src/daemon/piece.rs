//! An operation on one container, with the handle on its cgroup. Imports: limits, targets.

use super::target::Target;
use crate::limits::machine;

/// One container on which an operation is carried out.
#[derive(Debug)]
pub(super) struct Piece<T> {
    pub of: machine::Piece<T>,
    /// `None`: it does not run.
    pub target: Option<Target>,
}
