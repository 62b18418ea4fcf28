//! The cluster on Docker Swarm: events in, effects out.
//!
//! ```text
//! Swarm, agents, operators ──► Event ──► Machine ──► Effect ──► changes of services, questions to agents, answers
//! ```
//!
//! ```text
//! handle    takes note of what happened
//! jobs      services → jobs: labels and spec, or why it cannot be a job          labels, job
//! step      each job's next act, from its labels alone                           step, proof, carry, by_hand, writes
//! plan      what the policy wants: starts, stops, moves                          observe, plan
//! rent      opens rented nodes for who waits, and closes idle ones                rented, rental
//! publish   why each job is where it is                                          status
//! ```
//!
//! All that lasts is labels on services; whatever the machine remembers besides can be lost at any instant. Each phase of a move is
//! durable before it is acted on, by compare-and-swap on the version that was decided on. Imports: as its parts.

mod by_hand;
mod carry;
mod command;
mod event;
mod handle;
mod job;
pub mod labels;
mod observe;
mod plan;
mod proof;
mod record;
mod rental;
mod rented;
mod state;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod writes;

pub use event::{Asker, At, Command, CoordinatorSettings, Effect, Event, Question, RentSettings};
pub use job::{Job, Unfit};
pub use record::{Goal, JobPhase, Record};
pub use state::Machine;
