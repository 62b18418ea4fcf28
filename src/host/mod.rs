//! Access to the operating system and its services, one concern per module: engine, cgroups, freezer, GPUs, logs, store, scopes, Swarm,
//! systemd, users.
//!
//! A module here imports only model, never policy and never another host module; the daemon composes them.

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
