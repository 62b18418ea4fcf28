//! Selects the series that measures learning and the counter that measures progress, and caches how to find them.
//!
//! Imports: model, and `parse` for the meanings of numbers.

pub mod allowance;
pub mod candidates;
pub mod choice;
mod counter;
pub mod counters;
pub mod plans;
pub mod series;
mod validation;
