//! Pure decisions, each with its reason: limits of the containers on one node, and placement of jobs in a cluster.
//!
//! No clock, no tokio, no files, no logging, no hidden randomness: `now` is part of the observation, a random generator is an argument.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

pub mod cluster;
mod node;

pub use node::{Favour, Governor, GpuJob, Holdback, TURN_PERIOD, Violation, check, diff, drop_violating};
