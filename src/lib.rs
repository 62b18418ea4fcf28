//! flowcon: a governor for training jobs that share one machine.
//!
//! The house, room by room; an arrow reads "may be imported by". `tests/architecture.rs` enforces it.
//!
//! ```text
//! model  ←  policy, limits, progress, config  ←  daemon, sim
//! model  ←  host, api                         ←  daemon, cli          bin → one run() each
//! ```
//!
//! One tick is five calls: observe (`daemon`) → [`policy::Governor::tick`] → [`policy::diff`] → actuate (`daemon`, by the steps of [`limits`]) → publish.
//! The simulator makes the same two middle calls on virtual time.

pub mod api;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod host;
pub mod limits;
pub mod model;
pub mod policy;
pub mod progress;
pub mod sim;
pub mod workload;
