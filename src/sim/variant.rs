//! The policies that can be compared, by name: the product's policies and reference rules.

use model::{Objective, PolicyName, PolicySettings};

/// One of the compared policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its name in tables.
    pub name: String,
    /// What decides its limits.
    pub decider: Decider,
    /// Whether jobs that share a GPU are frozen in turn, as with `gpu.control = "duty-cycle"`.
    pub duty_cycle: bool,
}

/// What divides the CPU.
#[derive(Clone, Debug, PartialEq)]
pub enum Decider {
    /// A reference rule with perfect knowledge.
    Rule(Rule),
    /// The product's governor, which knows only logs and counters.
    Governor(PolicySettings),
}

/// Reference rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Plain sharing: equal weights.
    Fair,
    /// First come, first served.
    Fifo,
    /// Least attained service first; equals share.
    Las,
    /// Shortest remaining work first, with perfect knowledge.
    Srpt,
    /// Earliest deadline first; jobs without a deadline come last.
    Edf,
    /// Best credit per CPU-second over any milestone [λ = credit for completion], with perfect knowledge and a floor of 3 % for every job:
    /// the default policy with exact estimates.
    Oracle(f64),
}

/// All variants: name and description.
pub const VARIANTS: [(&str, &str); 14] = [
    ("fair", "plain sharing"),
    ("fifo", "first come, first served"),
    ("las", "least attained service first"),
    ("srpt", "shortest remaining work first (knows it)"),
    ("edf", "earliest deadline first"),
    ("oracle-balanced", "the default rule with perfect knowledge"),
    ("oracle-quality", "the quality objective with perfect knowledge"),
    ("flowcon", "Algorithms 1 and 2 of the paper, with a signed gain from the fitted curve"),
    ("flowcon-2019", "the paper to the letter: changes of the raw value, either way"),
    ("balanced", "the default policy"),
    ("completion", "the default policy, objective = \"completion\""),
    ("quality", "the default policy, objective = \"quality\""),
    ("no-turns", "the default policy, policy.turns = false"),
    ("duty-cycle", "the default policy, gpu.control = \"duty-cycle\""),
];

impl Variant {
    /// Returns the variant of that name; product policies start from `settings`.
    ///
    /// # Errors
    /// Lists the known names.
    pub fn named(name: &str, settings: &PolicySettings) -> Result<Variant, String> {
        let governed = |policy, objective| Decider::Governor(PolicySettings { policy, objective, ..*settings });
        let decider = match name {
            "fair" => Decider::Rule(Rule::Fair),
            "fifo" => Decider::Rule(Rule::Fifo),
            "las" => Decider::Rule(Rule::Las),
            "srpt" => Decider::Rule(Rule::Srpt),
            "edf" => Decider::Rule(Rule::Edf),
            "oracle-balanced" => Decider::Rule(Rule::Oracle(Objective::BALANCED.0)),
            "oracle-quality" => Decider::Rule(Rule::Oracle(Objective::QUALITY.0)),
            "flowcon" => governed(PolicyName::Flowcon, settings.objective),
            "flowcon-2019" => governed(PolicyName::Flowcon2019, settings.objective),
            "balanced" | "duty-cycle" => governed(PolicyName::Balanced, settings.objective),
            "no-turns" => Decider::Governor(PolicySettings { policy: PolicyName::Balanced, turns: false, ..*settings }),
            "completion" => governed(PolicyName::Balanced, Objective::COMPLETION),
            "quality" => governed(PolicyName::Balanced, Objective::QUALITY),
            other => {
                let names = VARIANTS.map(|(name, _)| name).join(", ");
                return Err(format!("unknown policy `{other}`; expected one of {names}"));
            }
        };
        Ok(Variant { name: name.to_owned(), decider, duty_cycle: name == "duty-cycle" })
    }
}
