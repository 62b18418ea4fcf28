//! SpeCon: converged jobs make way for growing ones.
//!
//! Source: "SpeCon: Speculative Container Scheduling for Deep Learning Applications". [`Monitor`] is Algorithm 1, on each node; [`moves`] are
//! Algorithms 2 and 3, where the cluster is decided. Where a listing contradicts its own prose, the prose counts: the misprinted lines
//! 10 to 12 of Algorithm 1 move a job from Watching to Converged, and its line 15 asks whether any job of the node still grows. Imports: model.

mod monitor;
mod moves;

pub use monitor::Monitor;
pub(super) use moves::moves;
