//! `--set key=value`: sets any policy setting by its path, or the simulated node's shape.
//!
//! The keys are those of the settings' serde form, so a new setting needs no change here.

use model::{Bytes, Objective, PolicySettings};
use serde_json::Value;
use sim::scenario::NodeShape;

/// Keys with durations, which need a unit.
const DURATIONS: [&str; 3] = ["interval", "max_interval", "holdback_block"];

/// Applies one `key=value` to the settings or the node.
///
/// # Errors
/// Lists the known keys, or describes the expected value.
pub(crate) fn apply(assignment: &str, settings: &mut PolicySettings, node: &mut NodeShape) -> Result<(), String> {
    let (key, text) = assignment
        .split_once('=')
        .ok_or_else(|| format!("--set {assignment}: expected key=value, as in objective=0.7"))?;
    let (key, text) = (key.trim(), text.trim());
    match key.strip_prefix("node.") {
        Some(key) => set_node(key, text, node),
        None => set_policy(key, text, settings),
    }
}

fn set_node(key: &str, text: &str, node: &mut NodeShape) -> Result<(), String> {
    let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.is_finite());
    match (key, number) {
        ("cores", Some(cores)) if cores > 0.0 => node.cores = cores,
        ("memory", Some(bytes)) if bytes > 0.0 => node.memory = Bytes(bytes as u64),
        ("contention", Some(part)) if (0.0..=1.0).contains(&part) => node.contention = part,
        ("speed", Some(times)) if times > 0.0 => node.speed = times,
        ("cores" | "memory" | "contention" | "speed", _) => {
            return Err(format!("--set node.{key}={text}: expected a number above 0 (contention: 0 to 1)"));
        }
        _ => {
            return Err(format!(
                "--set node.{key}: unknown; expected node.cores, node.memory, node.contention or node.speed"
            ));
        }
    }
    Ok(())
}

fn set_policy(key: &str, text: &str, settings: &mut PolicySettings) -> Result<(), String> {
    let broken = |error: serde_json::Error| format!("--set {key}={text}: {error}");
    let mut tree = serde_json::to_value(*settings).map_err(broken)?;
    let keys = leaf_keys("", &tree);
    let pointer = format!("/{}", key.replace('.', "/"));
    let Some(place) = tree.pointer_mut(&pointer).filter(|place| !place.is_object()) else {
        return Err(format!("--set {key}: unknown setting; expected one of {}", keys.join(", ")));
    };
    *place = value(key, text)?;
    *settings = serde_json::from_value(tree).map_err(broken)?;
    Ok(())
}

fn value(key: &str, text: &str) -> Result<Value, String> {
    if DURATIONS.contains(&key) {
        let millis = text.strip_suffix("ms").and_then(|number| number.parse().ok());
        let seconds =
            || text.strip_suffix('s').and_then(|number| number.parse::<f64>().ok()).map(|s| (s * 1000.0) as u64);
        let millis: Option<u64> = millis.or_else(seconds).filter(|millis| *millis > 0);
        return millis.map(Value::from).ok_or_else(|| format!("--set {key}={text}: expected a duration such as 20s"));
    }
    Ok(match (text, key) {
        ("completion", "objective") => Value::from(Objective::COMPLETION.0),
        ("balanced", "objective") => Value::from(Objective::BALANCED.0),
        ("quality", "objective") => Value::from(Objective::QUALITY.0),
        _ => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    })
}

fn leaf_keys(prefix: &str, tree: &Value) -> Vec<String> {
    let Some(object) = tree.as_object() else { return vec![prefix.to_owned()] };
    let path = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    object.iter().flat_map(|(key, value)| leaf_keys(&path(key), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Enforcement, Millis, Objective};

    fn set(assignment: &str) -> Result<(PolicySettings, NodeShape), String> {
        let (mut settings, mut node) = (PolicySettings::default(), NodeShape::default());
        apply(assignment, &mut settings, &mut node).map(|()| (settings, node))
    }

    #[test]
    fn every_kind_of_setting_can_be_set() {
        assert_eq!(set("interval=30s").unwrap().0.interval, Millis(30_000));
        assert_eq!(set("flowcon.growth_threshold=0.03").unwrap().0.growth_threshold(), 0.03);
        assert_eq!(set("flowcon.growth_threshold=10 % per interval").unwrap().0.growth_threshold(), 0.005);
        assert_eq!(set("objective=completion").unwrap().0.objective, Objective(1.0));
        assert_eq!(set("enforcement=quota").unwrap().0.enforcement, Enforcement::Quota);
        assert_eq!(set("node.contention=0.05").unwrap().1.contention, 0.05);
        assert_eq!(set("node.speed=2.5").unwrap().1.speed, 2.5);
    }

    #[test]
    fn an_error_about_a_wrong_key_or_value_says_what_is_expected() {
        assert!(set("flow=1").unwrap_err().contains("flowcon.growth_threshold"));
        assert!(set("interval=30").unwrap_err().contains("such as 20s"));
        assert!(set("enforcement=hard").unwrap_err().contains("quota"));
        assert!(set("node.cores=0").unwrap_err().contains("above 0"));
        assert!(set("node.speed=0").unwrap_err().contains("above 0"));
        assert!(set("objective").unwrap_err().contains("key=value"));
    }
}
