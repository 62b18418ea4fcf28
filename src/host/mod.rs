//! The outside world, one concern a file: the engine, cgroups, the freezer, GPUs, logs, the store, scopes, Swarm, systemd, users.
//!
//! A module here imports model only, never policy and never a sibling; the daemon composes them.

pub mod cgroup;
pub mod docker;
pub mod freezer;
pub mod gpu;
pub mod node;
pub mod scope;
pub mod store;
pub mod swarm;
pub mod systemd;
pub mod tail;
pub mod users;
