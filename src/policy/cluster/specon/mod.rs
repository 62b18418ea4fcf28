//! SpeCon: converged jobs make room for growing ones.
//!
//! Source: "SpeCon: Speculative Container Scheduling for Deep Learning Applications". [`Monitor`] is Algorithm 1, which runs per node;
//! [`moves`] is Algorithms 2 and 3, which run for the cluster. Where a listing contradicts the text, the text is followed: the misprinted
//! lines 10 to 12 of Algorithm 1 move a job from Watching to Converged, and Algorithm 3 runs when all jobs have converged.
//!
//! One line is changed: line 15 of Algorithm 1 lets a converged job ask for a move if *more than one* job of its node still grows
//! (|PC| + |WC| > 1), of which the text says nothing. Here one growing job is enough, because it gains as much by the move.

mod monitor;
mod moves;

pub use monitor::Monitor;
pub(super) use moves::moves;
