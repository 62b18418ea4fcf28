//! What the cluster's policies can be told, after parsing: every value that exists is valid.

use crate::model::Millis;
use serde::{Deserialize, Serialize};

/// Everything that a cluster's policy may be told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterSettings {
    /// Where waiting jobs go.
    pub placement: PlacementRule,
    /// Which running jobs move.
    pub moves: MoveRule,
    /// Which waiting job is next, and who makes room for it.
    pub queue: QueueRule,
    /// Whole jobs that save their state may be stopped for one that is more important and fits in no other way ([`QueueRule::Weighted`]).
    pub reclaim: bool,
    /// Which jobs are let in at all.
    pub admission: Admission,
    /// Moves that may be in flight from or to one node.
    pub moves_a_node: usize,
    /// Moves that may be in flight in all.
    pub moves_in_all: usize,
    /// A job that has waited so long is overtaken by no job that could take its room, unless that is more important.
    pub overtaken_for: Millis,
}

/// Where a waiting job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementRule {
    /// To the node with the fewest workers, as Swarm does.
    Spread,
    /// To the node with the least contention rate (ProCon).
    #[serde(rename = "procon")]
    ProCon,
    /// Where it adds least to the sum of completion times, by the nodes' own forecasts: the default.
    LeastAdded,
}

/// Which running jobs move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveRule {
    /// None but those whose node is drained.
    Never,
    /// Converged ones, and those that even out the numbers of jobs (SpeCon).
    #[serde(rename = "specon")]
    SpeCon,
    /// Where the nodes' own forecasts gain more than the measured price: the default.
    Forecast,
}

/// Which waiting job is next, and when running jobs are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueRule {
    /// The first that fits, in order of arrival; nothing is scaled.
    FirstFit,
    /// DRAGON: the first that fits; workers are stopped for a job that has waited for 30 s, and added after 60 quiet seconds.
    Dragon,
    /// By the latest start that meets each job's deadline, and then what a search finds to make jobs less late; on the cheapest nodes with
    /// room. Nothing is scaled or stopped.
    Deadlines,
    /// By weight: workers are stopped for a more important job at once, and added as soon as nobody can use the room. The default.
    Weighted,
}

/// Which jobs are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// All.
    All,
    /// Those that are worth more than their resources cost at the present load (OASIS).
    Prices,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        ClusterSettings {
            placement: PlacementRule::LeastAdded,
            moves: MoveRule::Forecast,
            queue: QueueRule::Weighted,
            reclaim: false,
            admission: Admission::All,
            moves_a_node: 1,
            moves_in_all: 8,
            overtaken_for: Millis::from_secs(600),
        }
    }
}
