//! Trials: runs of one training that is started several times, mostly with other parameters.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What is known about a container as a trial of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Identifies the sweep on this node.
    pub group: Arc<str>,
    /// Its evaluations so far, thinned, oldest first: progress units and value; empty between ticks.
    pub curve: Arc<[(f64, f64)]>,
}

/// How a trial stands among the trials of its sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialStanding {
    /// It has not reached the first rung, at which trials are compared.
    Starting,
    /// It was among the best third at the last rung that it reached.
    Promoted,
    /// It was not, but it is now as good as those that were promoted had been at its progress.
    CaughtUp,
    /// It was not among the best third at the last rung that it reached.
    Behind,
}

impl TrialStanding {
    /// All standings.
    pub const ALL: [TrialStanding; 4] =
        [TrialStanding::Starting, TrialStanding::Promoted, TrialStanding::CaughtUp, TrialStanding::Behind];
}

impl fmt::Display for TrialStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrialStanding::Starting => "starting",
            TrialStanding::Promoted => "promoted",
            TrialStanding::CaughtUp => "caught up",
            TrialStanding::Behind => "behind",
        })
    }
}
