//! What the tests on real engines share.

pub mod engine;
pub mod podman;
pub mod proxy;
