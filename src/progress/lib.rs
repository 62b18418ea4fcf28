//! Turns the bytes of a training log into evaluations, progress and a learning curve.
//!
//! Pure, with bounded memory. It never fails: input that cannot be read is counted.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

pub mod claim;
mod curve;
#[cfg(test)]
mod formats_tests;
#[cfg(test)]
mod numbers_tests;
mod plausible;
mod prior_run;
#[cfg(test)]
mod properties_tests;
mod reader;
mod record;
#[cfg(test)]
mod record_tests;
mod survey;
mod tracker;
#[cfg(test)]
mod tracker_tests;

pub use prior_run::PriorRun;
pub use reader::JsonFile;
pub use record::LearningRecord;
pub use survey::{LogReading, Observation, PrintedProgress, RankedSeries, Survey};
pub use tracker::{Checkpoint, Tracker};
