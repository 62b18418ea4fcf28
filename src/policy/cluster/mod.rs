//! Decisions for a whole cluster: which job runs on which nodes, and with how many workers.
//!
//! [`plan`] decides where waiting jobs start, which running jobs move and how many workers elastic jobs have. [`check`] validates a plan.
//! [`deadlines`] plans jobs with deadlines on rented nodes.
//!
//! Pure: no clock, no files; random numbers come from a seed that is an argument. The coordinator and the simulator call the same
//! functions.

mod admission;
mod capacity;
mod check;
pub mod deadlines;
mod due;
mod elastic;
mod follow;
mod forecast_moves;
mod gang;
mod kinds;
mod machines;
mod placement;
mod plan;
mod price;
#[cfg(test)]
mod properties;
mod queue;
mod ranked;
mod renting;
mod schedule;
mod specon;
#[cfg(test)]
mod testing;

pub use capacity::{allows, holds};
pub use check::{ClusterViolation, check};
pub use plan::plan;
pub use price::rent_of_part;
pub use queue::weight;
pub use renting::{RentalState, Renting, Times, rent};
pub use specon::Monitor;
