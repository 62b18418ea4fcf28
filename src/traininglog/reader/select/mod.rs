//! Selects the series that measures learning and the counter that measures progress, and caches how to find them.

pub(super) mod allowance;
pub(super) mod candidates;
pub(super) mod choice;
mod counter;
pub(super) mod counters;
pub(super) mod plans;
mod score;
pub(super) mod series;
mod validation;
