//! What tests of several crates share. Only tests depend on this crate, so it may panic.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

pub mod bus;
