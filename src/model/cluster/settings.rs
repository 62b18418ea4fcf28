//! Settings of the cluster policies, after parsing: every value that exists is valid.

use crate::Millis;
use serde::{Deserialize, Serialize};

/// All settings of the cluster policies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterSettings {
    /// Rule for placing waiting jobs.
    pub placement: PlacementRule,
    /// Rule for moving running jobs.
    pub moves: MoveRule,
    /// Rule for the order of the queue and for making room.
    pub queue: QueueRule,
    /// Whether whole jobs that save their state may be stopped for a more important job that fits in no other way
    /// ([`QueueRule::Weighted`]).
    pub reclaim: bool,
    /// Rule for admitting jobs.
    pub admission: Admission,
    /// OASIS [L, U]: price of all resources of the cluster when none and when all are in use; `None` = from the jobs of the cluster.
    pub prices: Option<(f64, f64)>,
    /// OASIS: without [`ClusterSettings::prices`], L is the lowest utility per demand divided by this.
    pub price_margin: f64,
    /// Assumed run time of a job of which nothing is known ([`QueueRule::Deadlines`]).
    pub unknown_takes: Millis,
    /// Maximum number of concurrent moves from or to one node.
    pub moves_per_node: usize,
    /// Maximum number of concurrent moves in total.
    pub moves_at_once: usize,
    /// After this waiting time, a job is only overtaken by more important jobs, or by jobs that could not use resources that it needs.
    pub overtaken_for: Millis,
    /// SpeCon [α]: a job whose evaluation changes by less than this part of its range per interval converges.
    pub specon_threshold: f64,
    /// SpeCon [t_m − t_(m−1)]: time between two categorisations of the jobs.
    pub specon_interval: Millis,
    /// ProCon [L(W)]: a node that uses less than this part of its cores has spare CPU.
    pub procon_limit: f64,
    /// DRAGON: a job that has waited this long may cause others to be scaled down.
    pub dragon_waits: Millis,
    /// DRAGON: jobs are scaled up once the cluster has been quiet for this long.
    pub dragon_idles: Millis,
}

/// Rule for placing a waiting job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementRule {
    /// On the node with the fewest workers, as Swarm does.
    Spread,
    /// On the node with the lowest contention rate (ProCon).
    #[serde(rename = "procon")]
    ProCon,
    /// On the node where it adds least to the sum of completion times, according to the forecasts of the nodes: the default.
    LeastAdded,
}

/// Rule for moving running jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveRule {
    /// No moves, except from nodes that are drained.
    Never,
    /// Moves of converged jobs, and moves that balance the numbers of jobs (SpeCon).
    #[serde(rename = "specon")]
    SpeCon,
    /// Moves whose gain, according to the forecasts of the nodes, exceeds their measured cost: the default.
    Forecast,
}

/// Rule for choosing the next waiting job and for scaling running jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueRule {
    /// The first job that fits, in order of arrival; nothing is scaled.
    FirstFit,
    /// DRAGON: the first job that fits; workers are stopped for a job that has waited for `dragon_waits`, and added after
    /// `dragon_idles` without an event.
    Dragon,
    /// The alternatives and nodes at which the price of all nodes and the lateness of all jobs cost least, in the order of the latest starts
    /// that meet the deadlines. Nothing is scaled; with `reclaim`, running jobs are stopped where that costs less.
    Deadlines,
    /// By weight, then the larger demand: workers are stopped for a more important job at once, and added as soon as no waiting job can use the room. The default.
    Weighted,
}

/// Rule for admitting jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// All jobs.
    All,
    /// Jobs that are worth more than their resources cost at the current load (OASIS).
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
            prices: None,
            price_margin: 2.0,
            unknown_takes: Millis::from_secs(3600),
            moves_per_node: 1,
            moves_at_once: 8,
            overtaken_for: Millis::from_secs(600),
            specon_threshold: 0.01,
            specon_interval: Millis::from_secs(30),
            procon_limit: 0.95,
            dragon_waits: Millis::from_secs(30),
            dragon_idles: Millis::from_secs(60),
        }
    }
}
