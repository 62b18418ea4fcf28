//! The series and counters of a log → which of them measure learning and progress, and what is kept to find them again.
//!
//! Imports: model, and `parse` for what numbers mean.

pub mod allowance;
pub mod candidates;
pub mod choice;
mod counter;
pub mod counters;
pub mod plans;
pub mod series;
mod validation;
