//! Slowdown of jobs that run beside each other.

use crate::job::JobPlan;
use crate::scenario::NodeShape;

/// Returns the part of its speed that is left to a job with these cores: its threads want more, and wait for each other meanwhile.
pub(super) fn of_threads(plan: &JobPlan, cores: f64) -> f64 {
    let others = if cores > 0.0 { (plan.parallelism / cores - 1.0).max(0.0) } else { 0.0 };
    1.0 / (1.0 + plan.waste * others)
}

/// Returns the work done per core-second: jobs with these `shares` slow each other down by their *effective* number, (Σc)²/Σc², and memory
/// that does not fit is paged. `wanted` is memory in bytes.
pub(super) fn of(shape: &NodeShape, shares: &[f64], wanted: u64) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), c| (sum + c, squares + c * c));
    if squares == 0.0 {
        return 1.0;
    }
    let disturbed = 1.0 + shape.contention * (sum * sum / squares - 1.0);
    let paged = (shape.memory.0 as f64 / wanted as f64).min(1.0);
    paged / disturbed
}
