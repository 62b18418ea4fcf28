//! Converts JSON documents of an engine to plain data. Values that are not understood are left out.

use super::EngineInfo;
use model::cluster::{Constraint, Resources};
use model::swarm::{
    Availability, MountedVolume, NodeId, RestartCondition, RestartRule, ServiceId, ServiceMode, SwarmNode,
    SwarmService, SwarmTask, TaskState,
};
use model::time::of_utc;
use model::{Bytes, Millis};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

const NODE_ID: &str = "node.id";
const NODE_LABELS: &str = "node.labels.";

pub(super) fn info(info: &Value) -> Result<EngineInfo, String> {
    let swarm = &info["Swarm"];
    let data = info["DockerRootDir"].as_str().ok_or("the engine does not report its data directory")?;
    Ok(EngineInfo {
        node: text(&swarm["NodeID"]).map(NodeId),
        address: text(&swarm["NodeAddr"]).unwrap_or_default(),
        cluster: text(&swarm["Cluster"]["ID"]),
        is_manager: swarm["ControlAvailable"].as_bool() == Some(true),
        data: PathBuf::from(data),
    })
}

pub(super) fn version(object: &Value) -> Option<u64> {
    object["Version"]["Index"].as_u64()
}

/// Whether this is the node `id` and it is the leader of the Swarm.
pub(super) fn leads(node: &Value, id: &NodeId) -> bool {
    node["ID"].as_str() == Some(&id.0) && node["ManagerStatus"]["Leader"].as_bool() == Some(true)
}

pub(super) fn node(node: &Value) -> Option<SwarmNode> {
    let (spec, description, status) = (&node["Spec"], &node["Description"], &node["Status"]);
    let manager = &node["ManagerStatus"];
    // The leader sometimes reports its own address as 0.0.0.0.
    let of_manager =
        || manager["Addr"].as_str().and_then(|address| address.rsplit_once(':')).map(|(host, _)| host.into());
    let address = text(&status["Addr"]).filter(|address| **address != *"0.0.0.0").or_else(of_manager);
    Some(SwarmNode {
        id: NodeId(text(&node["ID"])?),
        hostname: text(&description["Hostname"]).unwrap_or_default(),
        address: address.unwrap_or_default(),
        version: version(node)?,
        is_up: status["State"].as_str() == Some("ready"),
        availability: match spec["Availability"].as_str() {
            Some("active") => Availability::Active,
            Some("drain") => Availability::Drain,
            _ => Availability::Pause,
        },
        is_manager: spec["Role"].as_str() == Some("manager"),
        labels: labels(&spec["Labels"]),
        capacity: resources(&description["Resources"]),
        reserved: Resources::default(),
        engine: text(&description["Engine"]["EngineVersion"]).unwrap_or_default(),
    })
}

pub(super) fn service(service: &Value) -> Option<SwarmService> {
    let spec = &service["Spec"];
    let (template, container) = (&spec["TaskTemplate"], &spec["TaskTemplate"]["ContainerSpec"]);
    let mut read = SwarmService {
        id: ServiceId(text(&service["ID"])?),
        name: text(&spec["Name"])?,
        version: version(service)?,
        created: instant(&service["CreatedAt"]),
        labels: labels(&spec["Labels"]),
        previous_labels: labels(&service["PreviousSpec"]["Labels"]),
        container_labels: labels(&container["Labels"]),
        mode: mode(&spec["Mode"]),
        pin: None,
        constraints: Vec::new(),
        other_constraints: Vec::new(),
        request: resources(&template["Resources"]["Reservations"]),
        restart: restart(&template["RestartPolicy"]),
        stop_grace: container["StopGracePeriod"].as_u64().map(|nanos| Millis(nanos / 1_000_000)),
        volumes: list(&container["Mounts"]).iter().filter_map(volume).collect(),
        command: command(container),
    };
    for constraint in list(&template["Placement"]["Constraints"]).iter().filter_map(Value::as_str) {
        match parsed(constraint) {
            Some((NODE_ID, true, id)) if read.pin.is_none() => read.pin = Some(NodeId(id.into())),
            Some((key, equal, value)) if key.starts_with(NODE_LABELS) => {
                read.constraints.push(Constraint { label: key[NODE_LABELS.len()..].into(), equal, value: value.into() })
            }
            _ => read.other_constraints.push(constraint.into()),
        }
    }
    Some(read)
}

fn command(container: &Value) -> Vec<Arc<str>> {
    let words = list(&container["Command"]).iter().chain(list(&container["Args"]));
    std::iter::once(&container["Image"]).chain(words).filter_map(text).collect()
}

/// Parses `key==value` or `key!=value`, with or without blanks.
pub(super) fn parsed(constraint: &str) -> Option<(&str, bool, &str)> {
    let (key, equal, value) = match (constraint.split_once("=="), constraint.split_once("!=")) {
        (Some((key, value)), _) => (key, true, value),
        (None, Some((key, value))) => (key, false, value),
        (None, None) => return None,
    };
    Some((key.trim(), equal, value.trim()))
}

/// Whether a constraint pins a service to one node.
pub(super) fn is_pin(constraint: &Value) -> bool {
    matches!(constraint.as_str().and_then(parsed), Some((NODE_ID, true, _)))
}

fn mode(mode: &Value) -> ServiceMode {
    if let Some(replicated) = mode.get("Replicated") {
        // The default of Swarm is one replica.
        return ServiceMode::Replicated(replicated["Replicas"].as_u64().unwrap_or(1));
    }
    let name = mode.as_object().and_then(|mode| mode.keys().next()).map_or("", String::as_str);
    ServiceMode::Other(name.into())
}

/// The default of Swarm is to restart always and without limit.
fn restart(rule: &Value) -> RestartRule {
    let condition = match rule["Condition"].as_str() {
        Some("none") => RestartCondition::None,
        Some("on-failure") => RestartCondition::OnFailure,
        _ => RestartCondition::Any,
    };
    RestartRule { condition, attempts: rule["MaxAttempts"].as_u64().filter(|attempts| *attempts > 0) }
}

fn volume(mount: &Value) -> Option<MountedVolume> {
    if mount["Type"].as_str() != Some("volume") {
        return None;
    }
    let driver = &mount["VolumeOptions"]["DriverConfig"];
    let is_plain = driver["Options"].as_object().is_none_or(serde_json::Map::is_empty);
    Some(MountedVolume {
        name: text(&mount["Source"])?,
        target: text(&mount["Target"])?,
        is_local: is_plain && matches!(driver["Name"].as_str(), None | Some("" | "local")),
        is_read_only: mount["ReadOnly"].as_bool() == Some(true),
        labels: labels(&mount["VolumeOptions"]["Labels"]),
    })
}

pub(super) fn task(task: &Value) -> Option<SwarmTask> {
    let status = &task["Status"];
    let wanted = task["DesiredState"].as_str();
    Some(SwarmTask {
        id: text(&task["ID"])?,
        service: ServiceId(text(&task["ServiceID"])?),
        node: text(&task["NodeID"]).map(NodeId),
        state: match status["State"].as_str()? {
            "running" => TaskState::Running,
            "complete" => TaskState::Complete,
            "failed" | "rejected" | "orphaned" => TaskState::Failed,
            "shutdown" | "remove" => TaskState::Shutdown,
            _ => TaskState::Preparing,
        },
        is_wanted: matches!(wanted, Some("running" | "ready")),
        exit_code: match status["State"].as_str() {
            Some("complete" | "failed") => status["ContainerStatus"]["ExitCode"].as_i64(),
            _ => None,
        },
        error: text(&status["Err"]),
        changed: instant(&status["Timestamp"]),
    })
}

/// Returns the node, service and reserved resources of a task that has not ended.
pub(super) fn reservation(document: &Value) -> Option<(NodeId, ServiceId, Resources)> {
    let task = task(document).filter(|task| matches!(task.state, TaskState::Preparing | TaskState::Running))?;
    Some((task.node?, task.service, resources(&document["Spec"]["Resources"]["Reservations"])))
}

fn resources(resources: &Value) -> Resources {
    let gpus = list(&resources["GenericResources"]).iter().map(|generic| {
        let (counted, named) = (&generic["DiscreteResourceSpec"], &generic["NamedResourceSpec"]);
        if is_gpu(counted) {
            u32::try_from(counted["Value"].as_u64().unwrap_or(0)).unwrap_or(u32::MAX)
        } else {
            u32::from(is_gpu(named))
        }
    });
    Resources {
        cores: resources["NanoCPUs"].as_f64().unwrap_or(0.0) / 1e9,
        memory: Bytes(resources["MemoryBytes"].as_u64().unwrap_or(0)),
        gpus: gpus.fold(0, u32::saturating_add),
    }
}

pub(super) fn is_gpu(resource: &Value) -> bool {
    resource["Kind"].as_str().is_some_and(|kind| kind.to_ascii_lowercase().contains("gpu"))
}

fn labels(labels: &Value) -> BTreeMap<Arc<str>, Arc<str>> {
    let pairs = labels.as_object().into_iter().flatten();
    pairs.filter_map(|(label, value)| Some((Arc::from(label.as_str()), Arc::from(value.as_str()?)))).collect()
}

fn list(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text(text: &Value) -> Option<Arc<str>> {
    text.as_str().filter(|text| !text.is_empty()).map(Arc::from)
}

fn instant(text: &Value) -> Millis {
    Millis(text.as_str().and_then(of_utc).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_pin_of_a_service_is_separated_from_its_other_constraints() {
        let document = json!({
            "ID": "s1", "Version": {"Index": 21}, "CreatedAt": "2026-11-23T09:09:28.559286475Z",
            "Spec": {
                "Name": "a", "Labels": {"flowcon.queue": "true"},
                "TaskTemplate": {
                    "ContainerSpec": {
                        "Image": "job:1", "Labels": {"flowcon.enable": "true"}, "StopGracePeriod": 30_000_000_000_u64,
                        "Command": ["python", "train.py"], "Args": ["--epochs", "50"],
                        "Mounts": [
                            {"Type": "volume", "Source": "saved", "Target": "/saved", "ReadOnly": true, "VolumeOptions": {"Labels": {"a": "b"}}},
                            {"Type": "volume", "Source": "nfs", "Target": "/n", "VolumeOptions": {"DriverConfig": {"Options": {"type": "nfs"}}}},
                            {"Type": "bind", "Source": "/data", "Target": "/data"}
                        ]
                    },
                    "Resources": {"Reservations": {"NanoCPUs": 1_500_000_000_u64, "MemoryBytes": 1024,
                        "GenericResources": [{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": 2}}]}},
                    "RestartPolicy": {"Condition": "on-failure", "MaxAttempts": 3},
                    "Placement": {"Constraints": ["node.id == n2", "node.labels.gpu==a100", "node.hostname!=old"]}
                },
                "Mode": {"Replicated": {"Replicas": 1}}
            },
            "PreviousSpec": {"Name": "a", "Labels": {"flowcon.cluster.phase": "running"}}
        });
        let service = service(&document).unwrap();
        assert_eq!(service.labels, BTreeMap::from([("flowcon.queue".into(), "true".into())]));
        assert_eq!(service.previous_labels, BTreeMap::from([("flowcon.cluster.phase".into(), "running".into())]));
        assert_eq!(service.pin, Some(NodeId("n2".into())));
        assert_eq!(service.constraints, [Constraint { label: "gpu".into(), equal: true, value: "a100".into() }]);
        assert_eq!(service.other_constraints, [Arc::from("node.hostname!=old")]);
        assert_eq!(service.request, Resources { cores: 1.5, memory: Bytes(1024), gpus: 2 });
        assert_eq!(service.restart, RestartRule { condition: RestartCondition::OnFailure, attempts: Some(3) });
        let volumes = service.volumes.iter().map(|volume| (volume.is_local, volume.is_read_only));
        assert_eq!(volumes.collect::<Vec<_>>(), [(true, true), (false, false)]);
        assert_eq!(service.volumes[0].labels, BTreeMap::from([("a".into(), "b".into())]));
        assert_eq!(service.command, ["job:1", "python", "train.py", "--epochs", "50"].map(Arc::from));
        assert_eq!((service.version, service.stop_grace), (21, Some(Millis(30_000))));
        assert_eq!(service.created, Millis(1_795_424_968_559));
    }

    #[test]
    fn missing_values_have_the_defaults_of_swarm() {
        let document = json!({"ID": "s", "Version": {"Index": 1}, "Spec": {"Name": "x", "Mode": {"GlobalJob": {}}}});
        let service = service(&document).unwrap();
        assert_eq!(service.restart, RestartRule { condition: RestartCondition::Any, attempts: None });
        assert_eq!(service.mode, ServiceMode::Other("GlobalJob".into()));
        assert!(service.previous_labels.is_empty(), "it was never updated");
        assert!(self::service(&json!({"ID": "s"})).is_none());
    }

    #[test]
    fn a_task_reserves_resources_on_its_node_until_it_has_ended() {
        let document = |node: Value, state: &str| {
            json!({"ID": "t", "ServiceID": "s", "NodeID": node, "DesiredState": "running", "Status": {"State": state},
                "Spec": {"Resources": {"Reservations": {"NanoCPUs": 500_000_000, "MemoryBytes": 4096}}}})
        };
        let held = Resources { cores: 0.5, memory: Bytes(4096), gpus: 0 };
        for state in ["assigned", "preparing", "running"] {
            assert_eq!(
                reservation(&document(json!("n"), state)),
                Some((NodeId("n".into()), ServiceId("s".into()), held)),
                "{state}"
            );
        }
        for state in ["complete", "failed", "rejected", "shutdown", "orphaned"] {
            assert_eq!(reservation(&document(json!("n"), state)), None, "{state}");
        }
        assert_eq!(reservation(&document(Value::Null, "pending")), None);
    }

    #[test]
    fn a_task_has_an_exit_code_only_after_it_has_ended() {
        let document = |state: &str| {
            json!({"ID": "t", "ServiceID": "s", "NodeID": "n", "DesiredState": "running",
            "Status": {"State": state, "ContainerStatus": {"ExitCode": 0}, "Timestamp": "2026-11-23T09:09:28Z"}})
        };
        assert_eq!(task(&document("running")).unwrap().exit_code, None);
        let done = task(&document("complete")).unwrap();
        assert_eq!((done.exit_code, done.state, done.is_wanted), (Some(0), TaskState::Complete, true));
        assert_eq!(task(&document("assigned")).unwrap().state, TaskState::Preparing);
        assert_eq!(task(&document("rejected")).unwrap().state, TaskState::Failed);
    }
}
