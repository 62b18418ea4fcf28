//! Decisions that need several nodes: which job runs where, on how much of it.
//!
//! Pure like the rest of this room: no clock, no files, no hidden randomness; what is random is drawn from a seed that is an
//! argument. The coordinator and the simulator call the same functions. Imports: nothing of this crate.

pub mod deadlines;
