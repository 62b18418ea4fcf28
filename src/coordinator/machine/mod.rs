//! The coordinator as a state machine on Docker Swarm: events in, effects out.
//!
//! ```text
//! Swarm, agents, operators ──► Event ──► Machine ──► Effect ──► changes of services, requests to agents, replies
//! ```
//!
//! ```text
//! handle    updates the state by an event
//! jobs      services → jobs: labels and spec, or why a service is rejected       labels, alternatives, job
//! command   commands of operators: what each changes, and the names in them      command, names
//! step      each job's next action, from its labels alone                        step, waiting, ended, proof, transfer, manual, writes
//! claim     whose saved state a volume holds                                     claims, volumes
//! poll      reports of agents, and leases of jobs that may be started elsewhere   leases
//! plan      the policy's decisions: starts, stops, moves                         observe, known_work, plan
//! rent      opens rented nodes for waiting jobs, and closes idle ones            open_close, rented_node
//! publish   the status: why each job is where it is, and what it costs           status, costs
//! ```
//!
//! The only durable state is labels of services; all other state may be lost at any time. Each phase of a move is written to the labels
//! before it is acted on, by compare-and-swap on the service version of the decision.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod alternatives;
mod claims;
mod command;
mod constraints;
mod costs;
mod ended;
mod event;
mod handle;
mod job;
mod known_work;
pub mod labels;
mod leases;
mod manual;
mod names;
mod observe;
mod open_close;
mod plan;
mod proof;
mod record;
mod rented_node;
mod state;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod transfer;
mod volumes;
mod waiting;
mod writes;

pub use alternatives::RunTimes;
pub use event::{At, Command, CommandId, CoordinatorSettings, Effect, Event, LOOKS_VALID, Question, RentSettings};
pub use job::{Job, Rejection};
pub use record::{Goal, JobPhase, Record};
pub use state::Machine;
pub use volumes::check_submission;
