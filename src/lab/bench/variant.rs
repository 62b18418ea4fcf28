//! The variants to compare: the policies, and the default policy with each of its objectives and without turns.

use model::{Millis, Objective, PolicyName, PolicySettings};

/// A policy with an objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variant {
    /// Name on the command line and in tables.
    pub name: &'static str,
    policy: PolicyName,
    /// [λ] of the default policy.
    objective: Objective,
    /// Whether jobs of the default policy take turns where they waste CPU beside each other.
    turns: bool,
}

impl Variant {
    /// A policy with its usual settings.
    const fn of(name: &'static str, policy: PolicyName) -> Variant {
        Variant { name, policy, objective: Objective::BALANCED, turns: true }
    }
}

/// Plain sharing, the baseline.
pub(super) const FAIR: Variant = Variant::of("fair", PolicyName::Fair);

/// All variants.
const VARIANTS: [Variant; 7] = [
    FAIR,
    Variant::of("flowcon", PolicyName::Flowcon),
    Variant::of("flowcon-2019", PolicyName::Flowcon2019),
    Variant::of("balanced", PolicyName::Balanced),
    Variant { objective: Objective::COMPLETION, ..Variant::of("completion", PolicyName::Balanced) },
    Variant { objective: Objective::QUALITY, ..Variant::of("quality", PolicyName::Balanced) },
    Variant { turns: false, ..Variant::of("no-turns", PolicyName::Balanced) },
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
        let Variant { policy, objective, turns, .. } = *self;
        PolicySettings { policy, objective, turns, interval, ..PolicySettings::default() }
    }
}
