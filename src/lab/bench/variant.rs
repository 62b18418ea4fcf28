//! The variants to compare: the policies, and the default policy with each of its objectives.

use model::{Millis, Objective, PolicyName, PolicySettings};

/// A policy with an objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variant {
    /// Name on the command line and in tables.
    pub name: &'static str,
    policy: PolicyName,
    /// [λ] of the default policy.
    objective: Objective,
}

/// Plain sharing, the baseline.
pub(super) const FAIR: Variant = Variant { name: "fair", policy: PolicyName::Fair, objective: Objective::BALANCED };

/// All variants.
const VARIANTS: [Variant; 6] = [
    FAIR,
    Variant { name: "flowcon", policy: PolicyName::Flowcon, objective: Objective::BALANCED },
    Variant { name: "flowcon-2019", policy: PolicyName::Flowcon2019, objective: Objective::BALANCED },
    Variant { name: "balanced", policy: PolicyName::Balanced, objective: Objective::BALANCED },
    Variant { name: "completion", policy: PolicyName::Balanced, objective: Objective::COMPLETION },
    Variant { name: "quality", policy: PolicyName::Balanced, objective: Objective::QUALITY },
];

impl Variant {
    /// Returns the variant with this name.
    ///
    /// # Errors
    /// The name is unknown; the message lists all names.
    pub(super) fn named(name: &str) -> Result<Variant, String> {
        let found = VARIANTS.into_iter().find(|variant| variant.name == name);
        found.ok_or_else(|| format!("expected one of {}", VARIANTS.map(|variant| variant.name).join(", ")))
    }

    /// Settings of the governor.
    pub(super) fn settings(&self, interval: Millis) -> PolicySettings {
        let objective = self.objective;
        PolicySettings { policy: self.policy, objective, interval, ..PolicySettings::default() }
    }
}
