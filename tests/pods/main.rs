//! Tests with pods of a real containerd, made by the calls that a kubelet makes. They need root, containerd, runc and busybox-static.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod containerd;
mod pods;
#[path = "../support/mod.rs"]
mod support;
