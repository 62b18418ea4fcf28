//! Why a job is started, moved, scaled or left waiting, in terms that an operator understands.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The rule that decided, with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum ClusterReason {
    /// The node has the fewest workers.
    FewestWorkers {
        /// Workers on it.
        workers: usize,
    },
    /// The node has the lowest contention rate (ProCon).
    LeastContention {
        /// Forecast of the job-seconds that jobs there spend waiting for each other.
        rate: f64,
    },
    /// On this node the job adds least to the sum of all completion times.
    LeastAdded {
        /// Seconds added on the node: those of the job itself, and those by which it delays others.
        seconds: f64,
    },
    /// All workers of the job fit on one node.
    GangTogether,
    /// No job is waiting: a running job gets another worker.
    ScaledUp,
    /// A running job gives up a worker for a job that is more important or has waited too long.
    ScaledDown {
        /// The job that gets the resources.
        waiting: usize,
    },
    /// All workers of the job stop, with their state saved, for a more important job.
    Reclaimed {
        /// The job that gets the resources.
        waiting: usize,
    },
    /// All workers of the job stop, with their state saved, for a job that would miss its deadline otherwise; this one can wait.
    Preempted {
        /// The job that gets the resources.
        waiting: usize,
    },
    /// Fewer workers are running than the job needs, and there is no room for the others.
    GangIncomplete,
    /// The job has converged and leaves a node on which others are growing (SpeCon).
    Converged {
        /// Score of the source node.
        from: f64,
        /// Score of the target node.
        to: f64,
    },
    /// The nodes have unequal numbers of jobs (rebalancing in SpeCon).
    Rebalanced,
    /// The move saves more time than it costs.
    Gains {
        /// Seconds by which the sum of completion times decreases, in the worse case of the forecasts.
        seconds: f64,
        /// Cost of the move, in seconds without progress.
        price_s: f64,
    },
    /// Of its alternatives and their nodes, this costs least in the plan of all jobs with deadlines.
    Planned {
        /// What the rest of the job costs there.
        cost: Cost,
    },
    /// It costs less elsewhere or in another way, also with the stop and the start.
    Cheaper {
        /// What it saves.
        saves: f64,
        /// Seconds without progress.
        restart_s: f64,
    },
    /// The node is being drained.
    Drained,
    /// No node can take the job now.
    NoRoom(Refusals),
    /// Its workers would not all fit even if there were no other jobs.
    ClusterTooSmall {
        /// Number of workers that it needs.
        workers: u32,
        /// Number of its workers for which there is room.
        room: u32,
    },
    /// Workers of other jobs are stopping to make room.
    RoomBeingMade,
    /// There is room where it would be late or that is dearer; the plan of all jobs with deadlines costs less if it waits for other room.
    CheaperLater,
    /// A job ahead of it in the queue has waited too long to be overtaken.
    NotOvertaking {
        /// The job ahead.
        ahead: usize,
    },
    /// Its resources are worth more than the job (OASIS).
    PriceTooHigh {
        /// The price of the requested resources.
        price: f64,
        /// The utility of the job.
        utility: f64,
        /// Priority with which it would be admitted now, at its decay.
        level: f64,
        /// Used fraction of the cluster below which it is admitted.
        below: f64,
    },
}

/// Number of nodes that reject a job, by reason; each node is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// Being drained.
    pub draining: usize,
    /// Not reachable.
    pub unreachable: usize,
    /// `flowcond` is not running.
    pub ungoverned: usize,
    /// Closed, because no job needed them.
    pub closed: usize,
    /// A constraint of the job does not hold.
    pub constraint: usize,
    /// Too small, even when empty.
    pub too_small: usize,
    /// Its free resources are insufficient.
    pub full: usize,
}

/// What the rest of a job costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Seconds to its end.
    pub seconds: f64,
    /// Price of its part of the node for that time.
    pub node: f64,
    /// Cost of its lateness.
    pub lateness: f64,
}

impl Cost {
    /// Returns the sum.
    pub fn total(&self) -> f64 {
        self.node + self.lateness
    }
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
            ClusterReason::Preempted { .. } => {
                f.write_str("can wait: makes room for a job that would be late otherwise")
            }
            ClusterReason::GangIncomplete => {
                f.write_str("too few of its workers are running, and there is no room for the others")
            }
            ClusterReason::Converged { from, to } => {
                write!(f, "converged; score {from:.1} here, {to:.1} there")
            }
            ClusterReason::Rebalanced => f.write_str("fewer jobs there"),
            ClusterReason::Gains { seconds, price_s } => {
                write!(f, "shortens completions by {seconds:.0} s in all; costs {price_s:.0} s")
            }
            ClusterReason::Planned { cost: Cost { seconds, node, lateness } } => {
                write!(f, "cheapest in the plan: {node:.2} for {seconds:.0} s")?;
                if *lateness > 0.0 { write!(f, ", {lateness:.2} for its lateness") } else { Ok(()) }
            }
            ClusterReason::Cheaper { saves, restart_s } => {
                write!(f, "saves {saves:.2}, although stop and start cost {restart_s:.0} s")
            }
            ClusterReason::Drained => f.write_str("the node is being drained"),
            ClusterReason::NoRoom(refusals) => refusals.fmt(f),
            ClusterReason::ClusterTooSmall { workers, room } => {
                write!(f, "it needs {workers} workers; the whole cluster has room for {room}")
            }
            ClusterReason::RoomBeingMade => f.write_str("workers of other jobs are stopping to make room"),
            ClusterReason::CheaperLater => {
                f.write_str("waiting for another node costs less than a start on a free one, lateness included")
            }
            ClusterReason::NotOvertaking { .. } => f.write_str("a job ahead of it has waited too long to be overtaken"),
            ClusterReason::PriceTooHigh { price, utility, level, below } => {
                write!(f, "its utility is {utility:.2}, but its resources currently cost {price:.2}: it starts ")?;
                if *level <= 100.0 {
                    write!(f, "with priority {level:.0} or more, or ")?;
                }
                write!(f, "once less than {:.0} % of the cluster is in use", 100.0 * below)
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
