//! Tests with real Docker engines, one for each test. They need root, docker.io and busybox-static.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod adopt;
mod claims;
mod crash;
mod daemon;
mod disown;
mod docker;
mod ended;
mod faults;
mod group_stop;
mod health;
mod history;
mod holdback;
mod job_logs;
mod mislabelled;
mod owners;
mod packages;
mod prior_runs;
mod restore;
mod runtime;
#[path = "../served/mod.rs"]
mod served;
mod steering;
#[path = "../support/mod.rs"]
mod support;
