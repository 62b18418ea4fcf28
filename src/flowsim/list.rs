//! The command `flowsim list`: the built-in scenarios, their suffixes, and the policies.

use deadlines::POLICIES;
use sim::cluster::{CLUSTER_SCENARIOS, CLUSTER_VARIANTS};
use sim::scenario::{BUILT_IN, VARIATIONS};
use sim::variant::VARIANTS;

/// Returns the output of `flowsim list`.
pub(crate) fn list() -> String {
    let mut text = String::from("scenarios (built in)\n");
    for name in BUILT_IN {
        text += &format!("  {name}\n");
    }
    text += "suffixes of a scenario's name, which can be combined\n";
    for (suffix, meaning) in VARIATIONS {
        text += &format!("  {:<16} {meaning}\n", format!("-{suffix}"));
    }
    text += "policies\n";
    for (name, meaning) in VARIANTS {
        text += &format!("  {name:<16} {meaning}\n");
    }
    text += "scenarios of flowsim cluster, with the same suffixes\n";
    for name in CLUSTER_SCENARIOS {
        text += &format!("  {name}\n");
    }
    text += "policies of flowsim cluster\n";
    for (name, meaning) in CLUSTER_VARIANTS {
        text += &format!("  {name:<16} {meaning}\n");
    }
    text += "policies of flowsim deadlines\n";
    for (name, meaning) in POLICIES {
        text += &format!("  {name:<16} {meaning}\n");
    }
    text
}
