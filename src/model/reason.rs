//! Why a container has the limit that it has, in words an operator understands.

use super::{Millis, Share};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The rule that set a limit, with the numbers that it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum Reason {
    /// No evaluation read yet: free competition.
    NotMeasured,
    /// New list: its part of all growth (Algorithm 1, line 26).
    Growing {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
        /// Its part of the sum.
        part: Share,
    },
    /// Watching list: the limit is left as it was (line 24).
    Watching {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
    },
    /// Completing list: its part of all growth, at least the floor (lines 20–22).
    Converged {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
        /// The floor 1/(β·n).
        floor: Share,
    },
    /// Every container converged: free competition, longer intervals (lines 14–17).
    AllConverged {
        /// The interval that is being waited.
        interval: Millis,
    },
    /// The policy only watches.
    ObserveOnly,
    /// The owner's bound or the node's floor decided; the text says which.
    Bounded {
        /// What the policy would have given.
        wanted: Share,
        /// The bound that held.
        bound: Share,
    },
    /// Limits are left alone; the text says who asked for it.
    Held {
        /// Operator, foreign change, settling, or a write that failed.
        why: String,
    },
    /// Ranked by credit per CPU-second (the default policy).
    Ranked {
        /// The milestone that is worth most per CPU-second.
        milestone: String,
        /// CPU-seconds of work to it.
        work: f64,
        /// Place among the containers, from 1.
        rank: usize,
        /// How many were ranked.
        of: usize,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotMeasured => f.write_str("no evaluation read yet: competes freely"),
            Reason::Growing { part, .. } => write!(f, "growing: {part} of all growth"),
            Reason::Watching { .. } => f.write_str("growth below threshold once: limit kept"),
            Reason::Converged { floor, .. } => write!(f, "converged: its part of the growth, at least {floor}"),
            Reason::AllConverged { interval } => {
                write!(f, "all converged: free competition, next look in {:.0} s", interval.as_secs_f64())
            }
            Reason::ObserveOnly => f.write_str("policy only watches"),
            Reason::Bounded { wanted, bound } => write!(f, "bounded to {bound} (policy wanted {wanted})"),
            Reason::Held { why } => write!(f, "left alone: {why}"),
            Reason::Ranked { milestone, work, rank, of } => {
                write!(f, "rank {rank} of {of}: {work:.0} CPU-s to {milestone}")
            }
        }
    }
}
