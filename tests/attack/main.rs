//! Tests with hostile users, clients and logs. They need root, docker.io and busybox-static.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod api;
mod attack;
mod hostile;
#[path = "../served/mod.rs"]
mod served;
#[path = "../support/mod.rs"]
mod support;
