//! Finds running containers with labels of flowcon, but not the one that makes it govern them: their users believe that it does.

use super::container::{is_container_id, is_container_name, plain_name};
use super::engine::Engine;
use super::error::EngineError;
use model::ContainerId;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The label that is expected unless it is configured otherwise, as `key=value`: only for this one, others are known to be mistakes.
const EXPECTED: &str = "flowcon.enable=true";
const KEY: &str = "flowcon.enable";
const PREFIX: &str = "flowcon.";

/// Values that users and tools write for true. Others may be meant, such as `false`.
const TRUE: [&str; 8] = ["", "1", "true", "yes", "on", "y", "t", "enabled"];

/// Labels that are shown of one container.
const SHOWN: usize = 3;
/// Characters that are shown of a label.
const LABEL_LONGEST: usize = 60;

/// A running container whose labels do not have it governed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mislabelled {
    /// Full id.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Its labels that begin with `flowcon.`, as text that is safe to print.
    pub labels: String,
}

impl Engine {
    /// Returns the running containers that are mislabelled, if containers with `label` (given as `key=value`) are governed.
    pub async fn mislabelled(&self, label: &str) -> Result<Vec<Mislabelled>, EngineError> {
        if label != EXPECTED {
            return Ok(Vec::new());
        }
        let path = "/containers/json?filters=%7B%22status%22%3A%5B%22running%22%5D%7D";
        let listed: Vec<Row> = self.call("list all containers", path).await?;
        Ok(listed.into_iter().filter_map(mislabelled).collect())
    }
}

/// The fields used of an entry of the engine's list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    id: ContainerId,
    names: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
}

fn mislabelled(row: Row) -> Option<Mislabelled> {
    let name = plain_name(row.names?.first()?);
    let labels = misleading(&row.labels?)?;
    (is_container_id(row.id.as_str()) && is_container_name(&name)).then_some(Mislabelled { id: row.id, name, labels })
}

/// The labels of a container that is not governed although they say so, or suggest it.
fn misleading(labels: &BTreeMap<String, String>) -> Option<String> {
    let ours: Vec<(&String, &String)> = labels.iter().filter(|(key, _)| key.starts_with(PREFIX)).collect();
    let shown = match labels.get(KEY) {
        Some(value) if value == "true" => return None,
        Some(value) if !TRUE.contains(&value.trim().to_lowercase().as_str()) => return None,
        Some(_) => ours.into_iter().filter(|(key, _)| *key == KEY).collect(),
        None => ours,
    };
    let mut text = String::new();
    for (key, value) in shown.iter().take(SHOWN) {
        let label = format!("{key}={value}");
        let safe: String = label.chars().map(|c| if c.is_control() { '?' } else { c }).take(LABEL_LONGEST).collect();
        let _ = write!(text, "{}{safe}", if text.is_empty() { "" } else { ", " }); // writing to a String cannot fail
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(labels: &[(&str, &str)]) -> Option<String> {
        misleading(&labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn labels_that_only_look_right_are_noticed() {
        for (key, value) in [("enabled", "true"), ("enable", "True"), ("enable", "1"), ("enable", ""), ("weight", "2")]
        {
            let label = format!("{PREFIX}{key}");
            assert_eq!(found(&[(&label, value)]), Some(format!("{label}={value}")));
        }
        assert_eq!(found(&[("flowcon.enable", "yes"), ("flowcon.weight", "2")]), Some("flowcon.enable=yes".to_owned()));
        assert_eq!(found(&[("flowcon.enabled", "\u{1b}[2J")]), Some("flowcon.enabled=?[2J".to_owned()));
    }

    #[test]
    fn the_right_label_and_a_decision_against_it_are_no_mistake() {
        let fine: [&[(&str, &str)]; 5] = [
            &[("flowcon.enable", "true"), ("flowcon.enabled", "true")],
            &[("flowcon.enable", "false"), ("flowcon.weight", "2")],
            &[("flowcon.enable", "flowcon-demo-1")],
            &[("com.example.flowcon.enable", "1")],
            &[],
        ];
        fine.iter().for_each(|labels| assert_eq!(found(labels), None, "{labels:?}"));
    }

    #[test]
    fn an_entry_with_an_invalid_name_is_left_out() {
        let row = |name: &str| {
            let id = "449e1d56655b86cfb98f8a89e3609ecfab2019fc1609fbc25ceea3c54f9cbd3c";
            let row = serde_json::json!({"Id": id, "Names": [name], "Labels": {"flowcon.enabled": "true"}});
            mislabelled(serde_json::from_value(row).expect("an entry"))
        };
        assert_eq!(row("/train").map(|found| found.name).as_deref(), Some("train"));
        assert_eq!(row("/$(reboot)"), None);
    }
}
