//! Constraints on nodes, as users write them.

use model::cluster::Constraint;

/// Node attributes that constraints may name besides labels.
pub(super) const NODE_ID: &str = "node.id";
pub(super) const NODE_HOSTNAME: &str = "node.hostname";
pub(super) const NODE_ROLE: &str = "node.role";

/// Parses a constraint on a label or a known attribute of a node; others are left to Swarm.
pub(super) fn constraint(text: &str) -> Option<Constraint> {
    let (equal, at) = match (text.find("=="), text.find("!=")) {
        (Some(at), _) => (true, at),
        (None, at) => (false, at?),
    };
    let (label, value) = (text[..at].trim(), text[at + 2..].trim());
    let is_attribute = [NODE_ID, NODE_HOSTNAME, NODE_ROLE].contains(&label);
    let label = label.strip_prefix("node.labels.").or(is_attribute.then_some(label))?;
    (!label.is_empty() && !value.is_empty()).then(|| Constraint { label: label.into(), equal, value: value.into() })
}
