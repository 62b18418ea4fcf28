//! Jobs that leave a node, and reports on those that stay.
//!
//! Imports: model.

use super::governed::Learned;
use super::state::State;
use crate::model::WorkForecast;
use crate::sim::job::Job;
use std::sync::Arc;

/// A job on its way to another node: its saved work, and what the node that it left had learned about it.
pub(in crate::sim) struct Carried {
    pub(super) job: Arc<Job>,
    pub(super) state: State,
    pub(super) learned: Option<Learned>,
}

impl Carried {
    /// Core-seconds of remaining work.
    pub(in crate::sim) fn left(&self) -> f64 {
        (self.job.whole_work() - self.state.done).max(0.0).min(self.job.plan.work)
    }

    /// Time at which the quality was reached; NaN before.
    pub(in crate::sim) fn quality_at(&self) -> f64 {
        self.state.quality_at
    }
}

/// A node's report on one of its jobs.
pub(in crate::sim) struct Resident {
    /// The job's number on this node.
    pub(in crate::sim) number: usize,
    /// The governor's forecast of the CPU-seconds to its end.
    pub(in crate::sim) forecast: Option<WorkForecast>,
    /// Cores used.
    pub(in crate::sim) cores: f64,
    /// Number of units printed in its log, and the seconds between the last two.
    pub(in crate::sim) units: usize,
    pub(in crate::sim) unit_s: Option<f64>,
}
