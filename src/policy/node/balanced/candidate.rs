//! A container that competes for its domain's cores or for its GPU.

use super::milestone::Milestone;

/// A ranked container.
pub(super) struct Candidate {
    pub(super) milestone: Milestone,
    /// How far its forecasts have proved right, 0 ..= 1.
    pub(super) reliability: f64,
    /// Cores that it can use.
    pub(super) usable: f64,
    /// Any further delay of it delays the completion of all jobs.
    pub(super) is_critical: bool,
    /// Whether the cost per unit was measured between two reports.
    pub(super) is_measured: bool,
    /// Whether it costs much more CPU beside others than in its turn.
    pub(super) is_wasteful: bool,
}

/// A container that competes, by what it is ranked by.
pub(super) enum Ranked {
    OnCpu(Candidate),
    OnGpu(Candidate),
    /// It comes before the ranked ones.
    Newcomer(Candidate),
}

impl Candidate {
    /// A candidate of which nothing else is known.
    pub(super) fn new(milestone: Milestone, reliability: f64, usable: f64) -> Candidate {
        Candidate { milestone, reliability, usable, is_critical: false, is_measured: false, is_wasteful: false }
    }
}
