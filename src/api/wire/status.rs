//! `/v1/status` and `/v1/policy`: the node, its policy and what an operator should know. Imports: model, sibling wire types.

use super::{Container, Gpu, Notice, finite_option, word};
use crate::model::{self, NodeStatus, PolicySettings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Everything that the daemon knows, at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The node.
    pub node: Node,
    /// The governed containers, ordered by start.
    pub containers: Vec<Container>,
    /// What an operator should know, newest last.
    pub notices: Vec<Notice>,
}

impl Status {
    /// The wire form of a snapshot.
    pub fn of(status: &NodeStatus, hostname: &str) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: Node::of(status, hostname),
            containers: status.jobs.iter().map(|job| Container::of(job, status)).collect(),
            notices: status.notices.iter().map(Notice::of).collect(),
        }
    }
}

/// The node as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// The node's name.
    pub hostname: String,
    /// When this was true, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Time since the daemon started.
    pub uptime_s: f64,
    /// Cores that may be used.
    pub cores: f64,
    /// Pressure of the last ten seconds.
    pub pressure: Pressure,
    /// The policy in force.
    pub policy: Policy,
    /// The present interval between decisions; longer than the policy's own while backing off.
    pub interval_s: f64,
    /// When the next decision is due.
    pub next_decision_unix_ms: u64,
    /// The same as a distance from `unix_ms`; zero when overdue.
    pub next_decision_in_s: f64,
    /// Decisions taken since the daemon started.
    pub decisions: u64,
    /// Whether an operator paused everything.
    pub paused: bool,
    /// Until when every container has its original limits, to measure what governing gains; null = it is governed.
    #[serde(default)]
    pub plain_until_unix_ms: Option<u64>,
    /// Its GPUs by their number; left out where there is none, or none that answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// What each runtime's connection is like.
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
            policy: Policy::of(&status.settings),
            interval_s: status.interval.as_secs_f64(),
            next_decision_unix_ms: status.unix_ms.saturating_add(ahead.0),
            next_decision_in_s: ahead.as_secs_f64(),
            decisions: status.ticks,
            paused: status.paused,
            plain_until_unix_ms: status.holdback.filter(|block| block.plain).map(|block| block.until_unix_ms),
            gpus: status.gpus.iter().map(Gpu::of).collect(),
            runtimes: status.runtimes.clone(),
        }
    }
}

/// Pressure stall information: part of the last ten seconds in which some task waited; null where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pressure {
    /// Waited for CPU.
    pub cpu: Option<f64>,
    /// Waited for memory.
    pub memory: Option<f64>,
    /// Waited for block I/O.
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

/// The policy in force with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// `flowcon`, `fair` or `balanced`.
    pub policy: String,
    /// How shares are put in force: `weight` or `quota`.
    pub enforcement: String,
    /// The part of the credit that the default policy gives to completion; the rest goes to quality.
    pub objective: f64,
    /// Time between two decisions.
    pub interval_s: f64,
    /// Cap of the back-off.
    pub max_interval_s: f64,
    /// Below this growth (range of the evaluation per node-CPU-second) a container moves towards the completing list.
    pub growth_threshold: f64,
    /// A converged container of n keeps at least 1/(share_floor·n) of the node.
    pub share_floor: f64,
    /// The default policy's floor, as a part of an equal share.
    pub floor: f64,
    /// Under `enforcement = "quota"` no quota is less than this many cores.
    pub quota_floor_cores: f64,
    /// Whether memory may be protected and squeezed.
    pub govern_memory: bool,
    /// Whether the block I/O weight follows the CPU share.
    pub govern_io: bool,
    /// Memory pressure above this ends every squeeze.
    pub memory_pressure_limit: f64,
    /// The part of the time in which every container gets plain sharing.
    #[serde(default)]
    pub holdback: f64,
    /// How long each stretch of it is.
    #[serde(default)]
    pub holdback_block_s: f64,
}

impl Policy {
    /// The wire form of the settings.
    pub fn of(settings: &PolicySettings) -> Policy {
        Policy {
            policy: word(settings.policy),
            enforcement: word(settings.enforcement),
            objective: settings.objective.0,
            interval_s: settings.interval.as_secs_f64(),
            max_interval_s: settings.max_interval.as_secs_f64(),
            growth_threshold: settings.flowcon.growth_threshold,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
}

/// Every setting in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Configuration {
    /// As a configuration file that would set exactly these.
    pub toml: String,
}
