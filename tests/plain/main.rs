//! Tests without root, engine or daemon: files, logs, simulations, and trainings that are built in.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agent_alone;
mod agent_connections;
mod check_log;
mod cluster;
mod deadlines;
mod flowsim;
#[path = "../invented/mod.rs"]
mod invented;
mod reader_invented;
mod reader_time;
mod store;
#[path = "../support/mod.rs"]
mod support;
mod tail;
