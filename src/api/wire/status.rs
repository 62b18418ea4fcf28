//! `/v1/status` and `/v1/policy`: the node, its policy, its containers and messages.

use super::{Container, Gpu, Notice, finite_option, word};
use model::{NodeStatus, PolicySettings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of the daemon at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The node.
    pub node: Node,
    /// The governed containers, ordered by start.
    pub containers: Vec<Container>,
    /// The containers that ended within ten minutes and do not run again, latest end first; omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<Container>,
    /// Messages for the operator, newest last.
    pub notices: Vec<Notice>,
}

impl Status {
    /// Converts a snapshot.
    pub fn of(status: &NodeStatus, hostname: &str) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: Node::of(status, hostname),
            containers: status.jobs.iter().map(|job| Container::of(job, status)).collect(),
            ended: status.ended.iter().map(|ended| Container::of_ended(ended, status)).collect(),
            notices: status.notices.iter().map(Notice::of).collect(),
        }
    }
}

/// The node as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Hostname.
    pub hostname: String,
    /// Time of this status, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Time since the daemon started.
    pub uptime_s: f64,
    /// Usable cores.
    pub cores: f64,
    /// Pressure of the last ten seconds.
    pub pressure: Pressure,
    /// Effect of CPU weights on who runs, as measured: about 1 where they decide, 0 where they do not; null while unknown.
    #[serde(default)]
    pub weights_effect: Option<f64>,
    /// The current policy.
    pub policy: Policy,
    /// Current interval between decisions; longer than the configured interval while backing off.
    pub interval_s: f64,
    /// Time of the next decision.
    pub next_decision_unix_ms: u64,
    /// Time from `unix_ms` to the next decision; zero if overdue.
    pub next_decision_in_s: f64,
    /// Number of decisions since the daemon started.
    pub decisions: u64,
    /// Whether an operator released everything.
    pub released: bool,
    /// End of the current control period, in which all containers have their original limits; null outside of one.
    pub plain_until_unix_ms: Option<u64>,
    /// GPUs by index; omitted if there are none or none responds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// State of the connection to each runtime.
    pub runtimes: Vec<String>,
}

impl Node {
    fn of(status: &NodeStatus, hostname: &str) -> Node {
        let ahead = status.next_tick.since(status.now);
        Node {
            hostname: hostname.to_owned(),
            unix_ms: status.unix_ms,
            uptime_s: status.now.since(status.since).as_secs_f64(),
            cores: status.cores,
            pressure: Pressure::of(&status.pressure),
            weights_effect: finite_option(status.weights_effect),
            policy: Policy::of(&status.settings),
            interval_s: status.interval.as_secs_f64(),
            next_decision_unix_ms: status.unix_ms.saturating_add(ahead.0),
            next_decision_in_s: ahead.as_secs_f64(),
            decisions: status.ticks,
            released: status.released,
            plain_until_unix_ms: status.holdback.filter(|block| block.plain).map(|block| block.until_unix_ms),
            gpus: status.gpus.iter().map(Gpu::of).collect(),
            runtimes: status.runtimes.clone(),
        }
    }
}

/// Pressure stall information: fraction of the last ten seconds in which some task waited; null if the kernel does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pressure {
    /// CPU pressure.
    pub cpu: Option<f64>,
    /// Memory pressure.
    pub memory: Option<f64>,
    /// Block I/O pressure.
    pub io: Option<f64>,
}

impl Pressure {
    pub(super) fn of(pressure: &model::Pressure) -> Pressure {
        Pressure {
            cpu: finite_option(pressure.cpu),
            memory: finite_option(pressure.memory),
            io: finite_option(pressure.io),
        }
    }
}

/// The current policy with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// `flowcon`, `fair` or `balanced`.
    pub policy: String,
    /// Between whom the policy `balanced` divides the node first: `jobs` or `users`.
    #[serde(default)]
    pub fair_between: String,
    /// How shares are enforced: `weight` or `quota`.
    pub enforcement: String,
    /// Fraction of the credit that the default policy gives to completion; the rest goes to quality.
    pub objective: f64,
    /// Interval between decisions.
    pub interval_s: f64,
    /// Maximum interval while backing off.
    pub max_interval_s: f64,
    /// Below this growth (range of the evaluation per node-CPU-second) a container moves towards the completing list.
    pub growth_threshold: f64,
    /// A converged container of n keeps at least 1/(share_floor·n) of the node.
    pub share_floor: f64,
    /// Minimum share under the default policy, as a fraction of an equal share.
    pub floor: f64,
    /// Minimum quota in cores with `enforcement = "quota"`.
    pub quota_floor_cores: f64,
    /// Whether memory may be protected and squeezed.
    pub govern_memory: bool,
    /// Whether the block I/O weight follows the CPU share.
    pub govern_io: bool,
    /// Memory pressure above which every squeeze ends.
    pub memory_pressure_limit: f64,
    /// Fraction of time spent in control periods, in which all containers have their original limits.
    #[serde(default)]
    pub holdback: f64,
    /// Length of a control period.
    #[serde(default)]
    pub holdback_block_s: f64,
}

impl Policy {
    /// Converts the settings.
    pub fn of(settings: &PolicySettings) -> Policy {
        Policy {
            policy: word(settings.policy),
            fair_between: word(settings.fair_between),
            enforcement: word(settings.enforcement),
            objective: settings.objective.0,
            interval_s: settings.interval.as_secs_f64(),
            max_interval_s: settings.max_interval.as_secs_f64(),
            growth_threshold: settings.growth_threshold(),
            share_floor: settings.flowcon.share_floor,
            floor: settings.floor.fraction(),
            quota_floor_cores: settings.quota_floor.0 as f64 / 1000.0,
            govern_memory: settings.govern_memory,
            govern_io: settings.govern_io,
            memory_pressure_limit: settings.memory_pressure_limit,
            holdback: settings.holdback.fraction(),
            holdback_block_s: settings.holdback_block.as_secs_f64(),
        }
    }
}

/// The body of `PUT /v1/policy`: lasts until the next reload or restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// `flowcon`, `fair` or `balanced`.
    pub policy: String,
    /// 0 = quality only, 1 = completion only; only with `balanced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
}

/// All current settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Configuration {
    /// The settings as a configuration file.
    pub toml: String,
}
