//! What is compared: policies by name, the default policy's objectives among them.
//!
//! Imports: model.

use crate::model::{Millis, Objective, PolicyName, PolicySettings};

/// A policy with an objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// As on the command line and in tables.
    pub name: &'static str,
    policy: PolicyName,
    /// [λ] of the default policy.
    objective: Objective,
}

/// Plain sharing, against which everything is measured.
pub const FAIR: Variant = Variant { name: "fair", policy: PolicyName::Fair, objective: Objective::BALANCED };

/// All that there are.
const VARIANTS: [Variant; 5] = [
    FAIR,
    Variant { name: "flowcon", policy: PolicyName::Flowcon, objective: Objective::BALANCED },
    Variant { name: "balanced", policy: PolicyName::Balanced, objective: Objective::BALANCED },
    Variant { name: "completion", policy: PolicyName::Balanced, objective: Objective::COMPLETION },
    Variant { name: "quality", policy: PolicyName::Balanced, objective: Objective::QUALITY },
];

impl Variant {
    /// The variant of that name.
    ///
    /// # Errors
    /// Lists the names.
    pub fn named(name: &str) -> Result<Variant, String> {
        let found = VARIANTS.into_iter().find(|variant| variant.name == name);
        found.ok_or_else(|| format!("expected one of {}", VARIANTS.map(|variant| variant.name).join(", ")))
    }

    /// What its governor is told.
    pub fn settings(&self, interval: Millis) -> PolicySettings {
        let objective = self.objective;
        PolicySettings { policy: self.policy, objective, interval, ..PolicySettings::default() }
    }
}
