//! Settings of the policies, after parsing: every value that exists is valid.

use super::{Millis, Quota, Share};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// The policy that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Algorithms 1 and 2 of the FlowCon paper, with the faults of its growth efficiency mended.
    Flowcon,
    /// FlowCon to the letter.
    #[serde(rename = "flowcon-2019")]
    Flowcon2019,
    /// Observes and changes nothing: a dry run.
    Fair,
    /// The default: most CPU to the best credit per CPU-second over any horizon.
    Balanced,
}

impl PolicyName {
    /// All policies, the default first.
    pub const ALL: [PolicyName; 4] =
        [PolicyName::Balanced, PolicyName::Flowcon, PolicyName::Flowcon2019, PolicyName::Fair];

    /// Returns the name used in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Balanced => "balanced",
            PolicyName::Flowcon => "flowcon",
            PolicyName::Flowcon2019 => "flowcon-2019",
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
        known.ok_or_else(|| {
            format!("unknown policy `{text}`; the policies are balanced, flowcon, flowcon-2019 and fair")
        })
    }
}

/// Between whom the default policy divides the node first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FairBetween {
    /// Every job has a part of its own.
    #[default]
    Jobs,
    /// Every user with running jobs has a part, which these jobs divide.
    Users,
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

/// [α] A container with a smaller growth efficiency moves towards Completing.
///
/// An exponential curve with time constant τ node-CPU-seconds falls below a threshold per node-CPU-second at τ·ln(1/(τ·threshold)): with
/// the default at 94 % of its improvement for τ = 12 and at 88 % for τ = 24. Much longer jobs need a smaller threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GrowthThreshold {
    /// Fraction of the evaluation's range gained per node-CPU-second (all cores busy for one second), whatever the interval.
    PerSecond(f64),
    /// The paper's form: the fraction gained in one interval with the whole node. 10 % at 20 s is 0.005 per node-CPU-second.
    PerInterval(f64),
}

impl GrowthThreshold {
    /// Returns the threshold per node-CPU-second at this interval.
    pub fn per_second(self, interval: Millis) -> f64 {
        match self {
            GrowthThreshold::PerSecond(rate) => rate,
            GrowthThreshold::PerInterval(part) => part / interval.as_secs_f64().max(0.001),
        }
    }
}

impl fmt::Display for GrowthThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrowthThreshold::PerSecond(rate) => write!(f, "{rate}"),
            // Rounded to a millionth of a per cent: 100 · 0.07 is not 7.
            GrowthThreshold::PerInterval(part) => write!(f, "{} % per interval", (part * 1e8).round() / 1e6),
        }
    }
}

impl FromStr for GrowthThreshold {
    type Err = String;

    fn from_str(text: &str) -> Result<GrowthThreshold, String> {
        let per_interval = text.trim().strip_suffix("per interval");
        let percent = per_interval.and_then(|part| part.trim_end().strip_suffix('%')).map(str::trim_end);
        let parsed = match percent {
            Some(percent) => percent.trim().parse().ok().map(|part: f64| GrowthThreshold::PerInterval(part / 100.0)),
            None => text.trim().parse().ok().map(GrowthThreshold::PerSecond),
        };
        let is_valid = |threshold: &GrowthThreshold| {
            let (GrowthThreshold::PerSecond(part) | GrowthThreshold::PerInterval(part)) = *threshold;
            (0.0..=1.0).contains(&part)
        };
        parsed
            .filter(is_valid)
            .ok_or_else(|| "expected a number from 0 to 1, or such as \"5 % per interval\"".to_owned())
    }
}

impl Serialize for GrowthThreshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            GrowthThreshold::PerSecond(rate) => serializer.serialize_f64(*rate),
            GrowthThreshold::PerInterval(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for GrowthThreshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GrowthThreshold, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(rate) => Ok(GrowthThreshold::PerSecond(rate)),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

/// Parameters of Algorithm 1, with the paper's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowconSettings {
    /// [α]
    pub growth_threshold: GrowthThreshold,
    /// [β] A converged container keeps at least 1/(β·n) of the node.
    pub share_floor: f64,
}

/// All settings of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicySettings {
    /// The policy.
    pub policy: PolicyName,
    /// Between whom the default policy divides the node first.
    #[serde(default)]
    pub fair_between: FairBetween,
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
    /// Whether the trials of a sweep compete by their results, under the default policy.
    #[serde(default = "default_sweeps")]
    pub sweeps: bool,
    /// Whether jobs that waste CPU beside each other come in turns, under the default policy.
    #[serde(default = "default_turns")]
    pub turns: bool,
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

const fn default_sweeps() -> bool {
    true
}

const fn default_turns() -> bool {
    true
}

/// Fifteen decisions at the default interval, and a small part of a job that trains for an hour.
const fn default_block() -> Millis {
    Millis::from_secs(300)
}

impl PolicySettings {
    /// Checks that the policy can divide the node as [`Self::fair_between`] says; a dry run need not.
    ///
    /// # Errors
    /// What is wrong, and what to set.
    pub fn can_be_fair_between_users(&self) -> Result<(), String> {
        let of_the_paper = matches!(self.policy, PolicyName::Flowcon | PolicyName::Flowcon2019);
        if self.fair_between == FairBetween::Users && of_the_paper {
            return Err(format!(
                "\"users\" works only with policy.name = \"balanced\", and it is \"{}\"; \
                 set policy.name = \"balanced\" or policy.fair-between = \"jobs\"",
                self.policy
            ));
        }
        Ok(())
    }

    /// Whether the node is divided between users first.
    pub fn divides_between_users(&self) -> bool {
        self.policy == PolicyName::Balanced && self.fair_between == FairBetween::Users
    }

    /// Returns α per node-CPU-second.
    pub fn growth_threshold(&self) -> f64 {
        self.flowcon.growth_threshold.per_second(self.interval)
    }
}

impl Default for PolicySettings {
    fn default() -> Self {
        PolicySettings {
            policy: PolicyName::Balanced,
            fair_between: FairBetween::Jobs,
            enforcement: Enforcement::Weight,
            govern_memory: true,
            govern_io: true,
            interval: Millis::from_secs(20),
            max_interval: Millis::from_secs(320),
            flowcon: FlowconSettings { growth_threshold: GrowthThreshold::PerSecond(0.005), share_floor: 2.0 },
            objective: Objective::BALANCED,
            floor: Share::clamped(0.05),
            sweeps: default_sweeps(),
            turns: default_turns(),
            quota_floor: Quota(1000),
            memory_pressure_limit: 0.05,
            holdback: Share::NONE,
            holdback_block: default_block(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_in_the_papers_form_is_divided_by_the_interval() {
        let at_20_s =
            |text: &str| text.parse::<GrowthThreshold>().map(|parsed| parsed.per_second(Millis::from_secs(20)));
        assert_eq!(at_20_s("10 % per interval"), Ok(0.005));
        assert_eq!(at_20_s("5% per interval"), Ok(0.0025));
        assert_eq!(at_20_s("0.005"), Ok(0.005), "a number does not depend on the interval");
        for wrong in ["5 %", "101 % per interval", "five % per interval", "-1", ""] {
            assert!(at_20_s(wrong).is_err_and(|why| why.contains("5 % per interval")), "{wrong}");
        }
    }

    #[test]
    fn a_threshold_is_written_as_it_was_read() {
        for text in ["0.005", "\"7 % per interval\"", "\"0.5 % per interval\""] {
            let parsed: GrowthThreshold = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&parsed).unwrap(), text);
        }
    }
}
