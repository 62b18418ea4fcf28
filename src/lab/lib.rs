//! Comparison of policies on real trainings: `flowctl demo`, `flowcoord demo`, `flowctl bench`, and the trainings that they run.

pub mod bench;
pub mod cluster;
pub mod demo;
pub mod train;
mod trial;
pub mod workload;
