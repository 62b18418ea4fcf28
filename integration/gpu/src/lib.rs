//! What the check on a machine with a GPU needs and what can be tested without one.

pub mod figures;
pub mod log;
pub mod pmon;
pub mod problem;
