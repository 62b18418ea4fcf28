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
    /// `flowcon.group-stop`: number of the rung, from 1, at which it is stopped if it has lost there; `None` = it is never stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<u8>,
    /// It ran before the daemon, so it is not known with what it was compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran_before: bool,
}

impl Trial {
    /// A trial of this sweep with this curve, which began after the daemon and is never stopped.
    pub fn new(group: Arc<str>, curve: Vec<(f64, f64)>) -> Trial {
        Trial { group, curve: curve.into(), stop_at: None, ran_before: false }
    }
}

/// The result for which a trial is stopped, as its label `flowcon.group-stop` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupStop {
    /// Number of the rung, from 1.
    pub rung: u8,
    /// Its place among the trials that have reached the rung, from 1.
    pub rank: u16,
    /// Number of these trials.
    pub of: u16,
}

/// `at rung 1: rank 7 of 9`.
impl fmt::Display for GroupStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at rung {}: rank {} of {}", self.rung, self.rank, self.of)
    }
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
