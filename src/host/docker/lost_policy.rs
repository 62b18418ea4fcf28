//! Finds Podman's containers whose restart policy was lost, as an update that does not name it can cause.
//!
//! Podman keeps the command line that created a container, in its own API only. A container that was created through the API has none; that
//! it was restarted although it has no policy is the only trace then.

use super::container::{is_container_id, is_container_name, plain_name};
use super::engine::Engine;
use super::error::EngineError;
use model::ContainerId;
use serde::Deserialize;
use std::collections::BTreeSet;

/// A container without a restart policy that had one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPolicy {
    /// Name of the container.
    pub name: String,
    /// The policy with which it was created, such as `on-failure:5`; `None`: unknown.
    pub policy: Option<String>,
}

impl Engine {
    /// Returns the containers that lost their restart policy, of those with `label` (given as `key=value`), running or not, and of `others`;
    /// examines `at_most`. Only for Podman.
    pub async fn lost_policies(
        &self,
        label: &str,
        others: &[ContainerId],
        at_most: usize,
    ) -> Result<Vec<LostPolicy>, EngineError> {
        let labelled = self.list_filtered("all=true&", &serde_json::json!({"label": [label]})).await?;
        let mut ids: BTreeSet<ContainerId> = labelled.into_iter().map(|listed| listed.id).collect();
        ids.extend(others.iter().filter(|id| is_container_id(id.as_str())).cloned());
        let mut lost = Vec::new();
        for id in ids.iter().take(at_most) {
            // Every Podman accepts this version of its API in a path.
            let path = format!("/v4.0.0/libpod/containers/{}/json", id.as_str());
            match self.call(&format!("inspect container {id}"), &path).await {
                Ok(container) => lost.extend(lost_policy(container)),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(lost)
    }
}

/// The fields used of Podman's own description of a container.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    name: String,
    #[serde(default)]
    restart_count: u64,
    host_config: HostConfig,
    config: Config,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostConfig {
    restart_policy: RestartPolicy,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RestartPolicy {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    create_command: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
}

fn lost_policy(container: Inspected) -> Option<LostPolicy> {
    let name = plain_name(&container.name);
    if !matches!(container.host_config.restart_policy.name.as_str(), "" | "no") || !is_container_name(&name) {
        return None;
    }
    let created = container.config.create_command.unwrap_or_default();
    let policy = policy_of(&created, &container.config.cmd.unwrap_or_default());
    (policy.is_some() || container.restart_count > 0).then_some(LostPolicy { name, policy })
}

/// Returns the restart policy that a command line such as `podman run --restart=always IMAGE COMMAND` asks for. `command`: that of the
/// container, which may have an option of the same name.
fn policy_of(created: &[String], command: &[String]) -> Option<String> {
    let options = created.strip_suffix(command).unwrap_or(created);
    let value = |at: usize| match options[at].strip_prefix("--restart")? {
        "" => options.get(at + 1).map(String::as_str),
        rest => rest.strip_prefix('='),
    };
    let last = (0..options.len()).rev().find_map(value)?;
    is_policy(last).then(|| last.to_owned())
}

/// Whether a text is a policy that restarts. It becomes part of a command for the user, so nothing else is accepted.
fn is_policy(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once(':') {
        Some((name, retries)) => name == "on-failure" && is_number(retries),
        None => matches!(text, "always" | "unless-stopped" | "on-failure"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn found(policy: &str, restarts: u64, created: Value) -> Option<LostPolicy> {
        let container = json!({
            "Name": "train", "RestartCount": restarts,
            "HostConfig": {"RestartPolicy": {"Name": policy, "MaximumRetryCount": 0}},
            "Config": {"CreateCommand": created, "Cmd": ["train", "--restart=always"]},
        });
        lost_policy(serde_json::from_value(container).unwrap())
    }

    fn created(words: &str) -> Value {
        words.split(' ').chain(["image", "train", "--restart=always"]).collect::<Vec<_>>().into()
    }

    fn lost(policy: Option<&str>) -> Option<LostPolicy> {
        Some(LostPolicy { name: "train".to_owned(), policy: policy.map(str::to_owned) })
    }

    #[test]
    fn a_policy_is_lost_if_the_command_line_named_one_and_the_container_has_none() {
        for (words, policy) in [
            ("podman run --restart=always -d", "always"),
            ("podman run --restart on-failure:5", "on-failure:5"),
            ("podman create --restart=no --restart unless-stopped", "unless-stopped"),
        ] {
            assert_eq!(found("no", 0, created(words)), lost(Some(policy)), "{words}");
            assert_eq!(found(policy, 0, created(words)), None, "{words}");
        }
        assert_eq!(found("no", 0, created("podman run --restart=no")), None);
        assert_eq!(found("no", 0, created("podman run -d")), None, "the option of the job is not Podman's");
    }

    #[test]
    fn a_container_of_the_api_that_was_restarted_had_a_policy_which_is_unknown() {
        assert_eq!(found("no", 2, Value::Null), lost(None));
        assert_eq!(found("no", 0, Value::Null), None);
        assert_eq!(found("always", 2, Value::Null), None);
    }

    #[test]
    fn what_is_no_policy_never_becomes_part_of_a_command() {
        for policy in ["always;reboot", "on-failure:", "on-failure:5;x", "", "never", "always:3"] {
            assert!(!is_policy(policy), "{policy}");
        }
        assert_eq!(found("no", 0, created("podman run --restart=always;reboot")), None);
    }
}
