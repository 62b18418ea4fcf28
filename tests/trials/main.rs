//! Tests that run whole jobs beside each other and compare their progress. They need root, docker.io, busybox-static and a C compiler.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bench;
mod demo;
mod duty;
#[path = "../support/mod.rs"]
mod support;
mod workload;
