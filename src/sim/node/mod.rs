//! One node on virtual time.
//!
//! Problem: jobs share the cores as a fluid; what happens at instants (a start, a printed line, a wait, an end, a decision)
//! is an event. Between two events every rate is constant, so the next event of each job is known exactly and the
//! clock jumps to the earliest. A job's work stands still only where its rate changed or it printed: events cost O(jobs) at most.
//! Order within one instant: jobs, starts, reference rule, governor.
//!
//! [`simulate`] runs one node to the end of its schedule; a cluster has many [`Node`]s and takes their events in order.
//! Imports: model, policy, progress.

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

pub(super) use carried::{Carried, Resident};
pub(super) use machine::Node;
pub use schedule::{Keep, simulate};
