//! An operation on one container, with the handle on its cgroup.

use super::target::Target;
use limits::machine;

/// An operation on one container.
#[derive(Debug)]
pub(super) struct Piece<T> {
    pub of: machine::Piece<T>,
    /// Handle on its cgroup; `None` if it does not run.
    pub target: Option<Target>,
}
