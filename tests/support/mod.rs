//! What the tests on real engines share.

pub mod cost;
pub mod daemon;
pub mod engine;
pub mod gpu;
pub mod podman;
pub mod proxy;
pub mod swarm;
