//! SpeCon: converged jobs make room for growing ones.
//!
//! Source: "SpeCon: Speculative Container Scheduling for Deep Learning Applications". [`Monitor`] is Algorithm 1, which runs per node;
//! [`moves`] is Algorithms 2 and 3, which run for the cluster. Where a listing contradicts the text, the text is followed: the misprinted
//! lines 10 to 12 of Algorithm 1 move a job from Watching to Converged, and its line 15 tests whether any job of the node still grows.

mod monitor;
mod moves;

pub use monitor::Monitor;
pub(super) use moves::moves;
