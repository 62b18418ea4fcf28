//! Pure decisions: on one node what each container may have, in a cluster what runs where; and why.
//!
//! No clock, no tokio, no files, no logging, no hidden randomness: `now` is in the observation, a generator is an argument.
//! Imports: model only.

pub mod cluster;
mod node;

pub use node::{Favour, Governor, GpuJob, Holdback, Violation, check, diff, leave_out};
