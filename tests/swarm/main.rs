//! Tests on real Docker Swarms, one at a time. They need root, docker.io and iproute2.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod cluster_demo;
#[path = "../support/mod.rs"]
mod support;
mod swarm;
mod swarm_agents;
mod swarm_policies;
mod swarm_queue;
mod swarm_saved_state;
mod swarm_torch;
