//! One node in virtual time.
//!
//! Jobs share the cores as a fluid. A start, a printed line, a wait, an end and a decision are events. Between two events every rate is
//! constant, so the next event of each job is known exactly, and the clock jumps to the earliest. Only a job whose rate changed or that
//! printed is updated: an event costs O(jobs) at most. Order of simultaneous events: jobs, starts, reference rule, governor.
//!
//! [`simulate`] runs one node to the end of its schedule; a cluster has many [`SimulatedNode`]s and handles their events in order.

mod carried;
mod duty;
mod governed;
mod gpus;
mod idle;
mod machine;
mod places;
mod rules;
mod schedule;
mod speed;
mod state;
#[cfg(test)]
mod tests;
mod users;

pub(super) use carried::{Carried, Resident};
pub(super) use machine::SimulatedNode;
pub use schedule::{Keep, simulate};
