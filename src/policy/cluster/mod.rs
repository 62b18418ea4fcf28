//! Decisions that need several nodes: which job runs where, on how much of it.
//!
//! [`plan`] decides for a cluster: which waiting jobs start where, which running ones move, and how many workers elastic ones have;
//! [`check`] says whether a plan may be carried out. [`deadlines`] decides for jobs with deadlines on nodes that are rented.
//!
//! Pure like the rest of this room: no clock, no files, no hidden randomness; what is random is drawn from a seed that is an
//! argument. The coordinator and the simulator call the same functions. Imports: model.

mod admission;
mod check;
pub mod deadlines;
mod due;
mod elastic;
mod gang;
mod placement;
mod plan;
#[cfg(test)]
mod properties;
mod queue;
mod ranked;
mod rebalance;
mod renting;
mod rooms;
mod specon;
#[cfg(test)]
mod testing;

pub use check::{ClusterViolation, check};
pub use plan::plan;
pub use queue::weight;
pub use renting::{Renting, Tenancy, rent};
pub use specon::Monitor;
