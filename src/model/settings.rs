//! What the policies can be told, after parsing: every value that exists is valid.

use super::{Millis, Quota, Share};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Algorithms 1 and 2 of the FlowCon paper.
    Flowcon,
    /// Watches, changes nothing: the dry run.
    Fair,
    /// The default: most CPU to the best credit per CPU-second over any horizon.
    Balanced,
}

impl PolicyName {
    /// All that there are, the default first.
    pub const ALL: [PolicyName; 3] = [PolicyName::Balanced, PolicyName::Flowcon, PolicyName::Fair];

    /// As people spell it.
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
        known.ok_or_else(|| format!("there is no policy `{text}`; there are balanced, flowcon and fair"))
    }
}

/// How a CPU share is put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// `cpu.weight`: what one container leaves idle flows to the others.
    Weight,
    /// `cpu.max` as well, the paper's `--cpus`: opt-in.
    Quota,
}

/// What the default policy is to improve: credit for completion [λ], 0 = quality only, 1 = completion only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Objective(pub f64);

impl Objective {
    /// Good models soon.
    pub const QUALITY: Objective = Objective(0.0);
    /// The default. A little more than half of the credit is the end's: at ½ sharp, quality has more than its share of the gain and the worst
    /// job pays for it (`flowsim run random-10 --set objective=0.5`).
    pub const BALANCED: Objective = Objective(0.53);
    /// Jobs done soon.
    pub const COMPLETION: Objective = Objective(1.0);
}

/// Parameters of Algorithm 1, with the paper's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowconSettings {
    /// [α] Below this a container moves towards Completing.
    ///
    /// Unit: part of the evaluation's range gained per node-CPU-second (all cores busy for one second), a rate that does not
    /// depend on the interval. The paper's α is the part gained in one interval with the whole node, so
    /// `growth_threshold = α / interval`: 10 % at 20 s is 0.005 (the default), 5 % at 20 s 0.0025, 3 % at 30 s 0.001,
    /// 1 % at 20 s 0.0005. An exponential curve with time constant τ node-CPU-seconds falls below it at
    /// τ·ln(1/(τ·threshold)): at 94 % of its improvement for τ = 12 and 88 % for τ = 24. Much longer jobs want a smaller one.
    pub growth_threshold: f64,
    /// [β] A converged container keeps at least 1/(β·n) of the node.
    pub share_floor: f64,
}

/// Everything that a policy may be told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicySettings {
    /// The rule.
    pub policy: PolicyName,
    /// How shares are put in force.
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
    /// The default policy's aim.
    pub objective: Objective,
    /// The default policy's floor: every container keeps at least this part of an equal share.
    pub floor: Share,
    /// Under `enforcement = "quota"` no `cpu.max` is ever planned below this: one core unless told otherwise, because a job
    /// that computes in one thread must not wait in the middle of a step for its next period.
    pub quota_floor: Quota,
    /// PSI memory above this ends every squeeze, 0 ..= 1.
    pub memory_pressure_limit: f64,
    /// The part of the time, in blocks, in which every job has what plain sharing gives it: 0 (never) ..= 0.5.
    #[serde(default)]
    pub holdback: Share,
    /// How long such a block is.
    #[serde(default = "usual_block")]
    pub holdback_block: Millis,
}

/// Fifteen decisions of the usual interval, and a small part of a job that trains for an hour.
const fn usual_block() -> Millis {
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
            holdback_block: usual_block(),
        }
    }
}
