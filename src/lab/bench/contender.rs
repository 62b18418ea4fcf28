//! What is compared: policies by name, the default policy's objectives among them.
//!
//! Imports: model.

use crate::model::{Millis, Objective, PolicyName, PolicySettings};

/// A policy with an objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contender {
    /// As on the command line and in tables.
    pub name: &'static str,
    policy: PolicyName,
    /// [λ] of the default policy.
    objective: Objective,
}

/// Plain sharing, against which everything is measured.
pub const FAIR: Contender = Contender { name: "fair", policy: PolicyName::Fair, objective: Objective::BALANCED };

/// All that there are.
const CONTENDERS: [Contender; 5] = [
    FAIR,
    Contender { name: "flowcon", policy: PolicyName::Flowcon, objective: Objective::BALANCED },
    Contender { name: "balanced", policy: PolicyName::Balanced, objective: Objective::BALANCED },
    Contender { name: "completion", policy: PolicyName::Balanced, objective: Objective::COMPLETION },
    Contender { name: "quality", policy: PolicyName::Balanced, objective: Objective::QUALITY },
];

impl Contender {
    /// The contender of that name.
    ///
    /// # Errors
    /// Lists the names.
    pub fn named(name: &str) -> Result<Contender, String> {
        let found = CONTENDERS.into_iter().find(|contender| contender.name == name);
        found.ok_or_else(|| format!("expected one of {}", CONTENDERS.map(|contender| contender.name).join(", ")))
    }

    /// What its governor is told.
    pub fn settings(&self, interval: Millis) -> PolicySettings {
        let objective = self.objective;
        PolicySettings { policy: self.policy, objective, interval, ..PolicySettings::default() }
    }
}
