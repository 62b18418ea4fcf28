//! Jobs that leave a node, and reports on those that stay.

use super::governed::Learned;
use super::state::State;
use crate::job::Job;
use model::WorkForecast;
use std::sync::Arc;

/// A job on its way to another node: its saved work, and what the node that it left had learned about it.
pub(crate) struct Carried {
    pub(super) job: Arc<Job>,
    pub(super) state: State,
    pub(super) learned: Option<Learned>,
}

impl Carried {
    /// Core-seconds of remaining work.
    pub(crate) fn left(&self) -> f64 {
        (self.job.whole_work() - self.state.done).max(0.0).min(self.job.plan.work)
    }

    /// Time at which the quality was reached; NaN before.
    pub(crate) fn quality_at(&self) -> f64 {
        self.state.quality_at
    }
}

/// A node's report on one of its jobs.
pub(crate) struct Resident {
    /// The job's number on this node.
    pub(crate) number: usize,
    /// The governor's forecast of the CPU-seconds to its end.
    pub(crate) forecast: Option<WorkForecast>,
    /// Cores used.
    pub(crate) cores: f64,
    /// Number of units printed in its log, and the seconds between the last two.
    pub(crate) units: usize,
    pub(crate) unit_s: Option<f64>,
}
