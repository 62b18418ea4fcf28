//! Support code shared by the tests with real engines.

pub mod agents;
pub mod cgroups;
pub mod cost;
pub mod daemon;
pub mod engine;
pub mod gpu;
pub mod job;
pub mod notify;
pub mod package;
pub mod podman;
pub mod program;
pub mod proxy;
pub mod swarm;
