//! Pure decisions: what each container may have, and why.
//!
//! No clock, no tokio, no files, no logging, no hidden randomness: `now` is in the observation, a generator is an argument.
//! Imports: model only. The daemon and the simulator call the same [`Governor::tick`] and [`diff`].

mod diff;
mod governor;

pub use diff::diff;
pub use governor::Governor;
