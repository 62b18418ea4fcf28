//! Why a job is started, moved, scaled or left waiting, in words an operator understands.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The rule that decided, with the numbers that it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum ClusterReason {
    /// The node has the fewest workers.
    FewestWorkers {
        /// Workers on it.
        workers: usize,
    },
    /// The node has the least contention rate (ProCon).
    LeastContention {
        /// Job-seconds of waiting for each other that are foreseen there.
        rate: f64,
    },
    /// There the job adds least to the sum of all completion times.
    LeastAdded {
        /// Seconds that it adds on the node: its own, and those by which it delays others.
        seconds: f64,
    },
    /// All workers of the job have room on one node.
    GangTogether,
    /// No job waits: a running job gets another worker.
    ScaledUp,
    /// A running job gives up a worker for a job that is more important or waits too long.
    ScaledDown {
        /// The job that gets the room.
        waiting: usize,
    },
    /// All its workers stop, with their state saved, for a job that is more important.
    Reclaimed {
        /// The job that gets the room.
        waiting: usize,
    },
    /// Fewer workers than the job needs are running, and there is no room for the others.
    GangIncomplete,
    /// Converged: it leaves a node on which others grow (SpeCon).
    Converged {
        /// Scores of the node that it leaves and of the node that it goes to.
        from: f64,
        /// The same of the target.
        to: f64,
    },
    /// The nodes have unequal numbers of jobs (SpeCon's rebalancing).
    Rebalanced,
    /// The move ends jobs sooner than it costs.
    Gains {
        /// Seconds by which the sum of completion times gets shorter, in the worse case of the forecasts.
        seconds: f64,
        /// Seconds without progress that the move costs.
        price_s: f64,
    },
    /// The node is being emptied.
    Drained,
    /// No node can take the job now.
    NoRoom(Refusals),
    /// Room is being made: workers of other jobs are stopping.
    RoomBeingMade,
    /// A job ahead of it in the queue has waited for too long to be overtaken.
    NotOvertaking {
        /// That job.
        ahead: usize,
    },
    /// What it would use is worth more than it (OASIS).
    PriceTooHigh {
        /// The price of what it asks for.
        price: f64,
        /// What it is worth.
        utility: f64,
    },
}

/// How many nodes refuse a job, and why; each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// Being drained.
    pub draining: usize,
    /// Not reachable.
    pub unreachable: usize,
    /// `flowcond` is not running.
    pub ungoverned: usize,
    /// Closed, because nobody needed them.
    pub closed: usize,
    /// A constraint of the job does not hold.
    pub constraint: usize,
    /// The node is too small, even empty.
    pub too_small: usize,
    /// Others have reserved what it needs.
    pub full: usize,
}

impl fmt::Display for ClusterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterReason::FewestWorkers { workers } => write!(f, "fewest workers there: {workers}"),
            ClusterReason::LeastContention { rate } => write!(f, "least contention there: {rate:.0} s"),
            ClusterReason::LeastAdded { seconds } => {
                write!(f, "delays jobs least there: adds {seconds:.0} s to all completions")
            }
            ClusterReason::GangTogether => f.write_str("all its workers fit on this node"),
            ClusterReason::ScaledUp => f.write_str("no job waits for these resources: another worker"),
            ClusterReason::ScaledDown { .. } => {
                f.write_str("makes room for a job that is more important or waited too long")
            }
            ClusterReason::Reclaimed { .. } => f.write_str("stops as a whole for a job that is more important"),
            ClusterReason::GangIncomplete => {
                f.write_str("too few of its workers run, and there is no room for the others")
            }
            ClusterReason::Converged { from, to } => {
                write!(f, "converged; score {from:.1} here, {to:.1} there")
            }
            ClusterReason::Rebalanced => f.write_str("fewer jobs there"),
            ClusterReason::Gains { seconds, price_s } => {
                write!(f, "shortens completions by {seconds:.0} s in all; costs {price_s:.0} s")
            }
            ClusterReason::Drained => f.write_str("the node is being drained"),
            ClusterReason::NoRoom(refusals) => refusals.fmt(f),
            ClusterReason::RoomBeingMade => f.write_str("workers of other jobs are stopping to make room"),
            ClusterReason::NotOvertaking { .. } => f.write_str("a job ahead of it has waited too long to be overtaken"),
            ClusterReason::PriceTooHigh { price, utility } => {
                write!(f, "worth {utility:.2}, but its resources are worth {price:.2} now")
            }
        }
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.full, "full"),
            (self.too_small, "too small"),
            (self.constraint, "excluded by a constraint"),
            (self.draining, "draining"),
            (self.unreachable, "unreachable"),
            (self.ungoverned, "without flowcond"),
            (self.closed, "closed"),
        ];
        let parts: Vec<String> =
            all.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        match parts.is_empty() {
            true => f.write_str("no room for all its workers at once"),
            false => write!(f, "no node has room: {}", parts.join(", ")),
        }
    }
}
