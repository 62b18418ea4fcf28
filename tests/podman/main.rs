//! Tests with a real Podman. They need root, podman, docker.io and busybox-static.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod only_limits;
mod podman;
#[path = "../support/mod.rs"]
mod support;
