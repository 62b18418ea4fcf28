//! What leaves a node: a job that moves, and what is told of those that stay.
//!
//! Imports: model.

use super::governed::Learned;
use super::state::State;
use crate::model::WorkForecast;
use crate::sim::job::Job;
use std::sync::Arc;

/// A job on its way to another node: what it saved, and what the node that it left knew of it.
pub(in crate::sim) struct Carried {
    pub(super) job: Arc<Job>,
    pub(super) state: State,
    pub(super) learned: Option<Learned>,
}

impl Carried {
    /// Core-seconds of work that it has ahead.
    pub(in crate::sim) fn left(&self) -> f64 {
        (self.job.whole_work() - self.state.done).max(0.0).min(self.job.plan.work)
    }

    /// When its quality was reached; NaN before.
    pub(in crate::sim) fn quality_at(&self) -> f64 {
        self.state.quality_at
    }
}

/// What a node tells of a job that it has.
pub(in crate::sim) struct Resident {
    /// The job's number on this node.
    pub(in crate::sim) number: usize,
    /// CPU-seconds to its end, as the governor foresees it.
    pub(in crate::sim) forecast: Option<WorkForecast>,
    /// Cores that it occupies.
    pub(in crate::sim) cores: f64,
    /// Units that its log has told of, of how many, and the seconds between the last two.
    pub(in crate::sim) units: usize,
    pub(in crate::sim) unit_s: Option<f64>,
}
