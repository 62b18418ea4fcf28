//! Settings of the policies, after parsing: every value that exists is valid.

use super::{Millis, Quota, Share};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The policy that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Algorithms 1 and 2 of the FlowCon paper.
    Flowcon,
    /// Observes and changes nothing: a dry run.
    Fair,
    /// The default: most CPU to the best credit per CPU-second over any horizon.
    Balanced,
}

impl PolicyName {
    /// All policies, the default first.
    pub const ALL: [PolicyName; 3] = [PolicyName::Balanced, PolicyName::Flowcon, PolicyName::Fair];

    /// Returns the name used in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Balanced => "balanced",
            PolicyName::Flowcon => "flowcon",
            PolicyName::Fair => "fair",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<PolicyName, String> {
        let known = PolicyName::ALL.into_iter().find(|policy| policy.name() == text);
        known.ok_or_else(|| format!("unknown policy `{text}`; the policies are balanced, flowcon and fair"))
    }
}

/// The mechanism that enforces a CPU share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// `cpu.weight`: CPU time that one container leaves idle goes to the others.
    Weight,
    /// `cpu.max` as well, the paper's `--cpus`: opt-in.
    Quota,
}

/// Objective of the default policy: the credit for completion [λ], 0 = quality only, 1 = completion only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Objective(pub f64);

impl Objective {
    /// Good models soon.
    pub const QUALITY: Objective = Objective(0.0);
    /// The default. Completion has slightly more than half of the credit: at exactly ½, quality gets more than its share of the gain at the
    /// expense of the worst job (`flowsim run random-10 --set objective=0.5`).
    pub const BALANCED: Objective = Objective(0.53);
    /// Completed jobs soon.
    pub const COMPLETION: Objective = Objective(1.0);
}

/// Parameters of Algorithm 1, with the paper's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowconSettings {
    /// [α] A container with a smaller growth efficiency moves towards Completing.
    ///
    /// Unit: fraction of the evaluation's range gained per node-CPU-second (all cores busy for one second), a rate that does not depend on
    /// the interval. The paper's α is the fraction gained in one interval with the whole node, so `growth_threshold = α / interval`: 10 %
    /// at 20 s is 0.005 (the default), 5 % at 20 s 0.0025, 3 % at 30 s 0.001, 1 % at 20 s 0.0005. An exponential curve with time constant τ
    /// node-CPU-seconds falls below it at τ·ln(1/(τ·threshold)): at 94 % of its improvement for τ = 12 and at 88 % for τ = 24. Much longer
    /// jobs need a smaller threshold.
    pub growth_threshold: f64,
    /// [β] A converged container keeps at least 1/(β·n) of the node.
    pub share_floor: f64,
}

/// All settings of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicySettings {
    /// The policy.
    pub policy: PolicyName,
    /// How shares are enforced.
    pub enforcement: Enforcement,
    /// Whether memory may be protected and squeezed.
    pub govern_memory: bool,
    /// Whether the block I/O weight follows the CPU share.
    pub govern_io: bool,
    /// [itval] Time between two decisions.
    pub interval: Millis,
    /// Cap of the exponential back-off.
    pub max_interval: Millis,
    /// Algorithm 1.
    pub flowcon: FlowconSettings,
    /// Objective of the default policy.
    pub objective: Objective,
    /// Floor of the default policy: every container keeps at least this part of an equal share.
    pub floor: Share,
    /// Smallest `cpu.max` that is planned under `enforcement = "quota"`. The default is one core, because a single-threaded job must not be
    /// throttled in the middle of a step.
    pub quota_floor: Quota,
    /// PSI memory pressure above which all squeezing ends, 0 ..= 1.
    pub memory_pressure_limit: f64,
    /// Fraction of time spent in control periods, in which every job has its original limits: 0 (never) ..= 0.5.
    #[serde(default)]
    pub holdback: Share,
    /// Length of a block of the holdback experiment.
    #[serde(default = "default_block")]
    pub holdback_block: Millis,
}

/// Fifteen decisions at the default interval, and a small part of a job that trains for an hour.
const fn default_block() -> Millis {
    Millis::from_secs(300)
}

impl Default for PolicySettings {
    fn default() -> Self {
        PolicySettings {
            policy: PolicyName::Balanced,
            enforcement: Enforcement::Weight,
            govern_memory: true,
            govern_io: true,
            interval: Millis::from_secs(20),
            max_interval: Millis::from_secs(320),
            flowcon: FlowconSettings { growth_threshold: 0.005, share_floor: 2.0 },
            objective: Objective::BALANCED,
            floor: Share::clamped(0.05),
            quota_floor: Quota(1000),
            memory_pressure_limit: 0.05,
            holdback: Share::NONE,
            holdback_block: default_block(),
        }
    }
}
