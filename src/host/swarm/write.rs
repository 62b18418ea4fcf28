//! Edits of a spec that leave all other fields unchanged.

use super::read::{is_gpu, is_pin};
use super::{GANG_LABEL, QUEUE_LABEL};
use model::Millis;
use model::cluster::{Resources, Submission};
use model::swarm::{Availability, NodeChange, ServiceChange};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the generic resource for GPUs, as in NVIDIA's documentation.
const GPU: &str = "NVIDIA-GPU";

/// Sets replicas, pin, stop grace period and labels.
pub(super) fn service(spec: &mut Value, change: &ServiceChange) {
    labels(spec, &change.labels);
    if let Some(replicas) = change.replicas {
        spec["Mode"]["Replicated"]["Replicas"] = replicas.into();
    }
    if let Some(grace) = change.stop_grace {
        spec["TaskTemplate"]["ContainerSpec"]["StopGracePeriod"] = nanos(grace).into();
    }
    if let Some(request) = change.request {
        reserve(&mut spec["TaskTemplate"]["Resources"], request);
    }
    if let Some(pin) = &change.pin {
        let constraints = object(&mut spec["TaskTemplate"]["Placement"]).entry("Constraints");
        let constraints = constraints.or_insert_with(|| json!([]));
        if !constraints.is_array() {
            *constraints = json!([]);
        }
        if let Some(constraints) = constraints.as_array_mut() {
            constraints.retain(|constraint| !is_pin(constraint));
            constraints.extend(pin.iter().map(|node| Value::from(format!("node.id=={node}"))));
        }
    }
}

/// Sets what a task reserves. Generic resources other than GPUs stay.
fn reserve(resources: &mut Value, request: Resources) {
    let reservations = object(object(resources).entry("Reservations").or_insert_with(|| json!({})));
    reservations.insert("NanoCPUs".to_owned(), ((request.cores * 1e9).round() as i64).into());
    reservations.insert("MemoryBytes".to_owned(), request.memory.0.into());
    let mut generic = reservations.get("GenericResources").and_then(Value::as_array).cloned().unwrap_or_default();
    generic.retain(|resource| !is_gpu(&resource["DiscreteResourceSpec"]) && !is_gpu(&resource["NamedResourceSpec"]));
    if request.gpus > 0 {
        generic.push(json!({"DiscreteResourceSpec": {"Kind": GPU, "Value": request.gpus}}));
    }
    match generic.is_empty() {
        true => drop(reservations.remove("GenericResources")),
        false => drop(reservations.insert("GenericResources".to_owned(), generic.into())),
    }
}

/// Sets labels and availability.
pub(super) fn node(spec: &mut Value, change: &NodeChange) {
    labels(spec, &change.labels);
    if let Some(availability) = change.availability {
        spec["Availability"] = match availability {
            Availability::Active => "active",
            Availability::Pause => "pause",
            Availability::Drain => "drain",
        }
        .into();
    }
}

/// Sets labels, and removes those without a value.
fn labels(spec: &mut Value, changes: &BTreeMap<Arc<str>, Option<Arc<str>>>) {
    if changes.is_empty() {
        return;
    }
    let labels = object(&mut spec["Labels"]);
    for (label, value) in changes {
        match value {
            Some(value) => drop(labels.insert(label.to_string(), value.as_ref().into())),
            None => drop(labels.remove(label.as_ref())),
        }
    }
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was replaced by an object"),
    }
}

/// Builds the spec of a service with 0 replicas, to be started by the coordinator.
pub(super) fn created(submission: &Submission) -> Value {
    let mut resources = Value::Null;
    reserve(&mut resources, submission.request);
    let mut labels = map(&submission.labels);
    labels.insert(QUEUE_LABEL.to_owned(), "true".into());
    let is_in_gang = submission.labels.contains_key(GANG_LABEL);
    let mut container_labels = map(&submission.container_labels);
    container_labels.entry("flowcon.enable").or_insert_with(|| "true".into());
    // The workers of a gang wait for each other, and the turns of two nodes would rarely come at the same time.
    if is_in_gang {
        container_labels.entry("flowcon.turns").or_insert_with(|| "false".into());
    }
    let mounts: Vec<Value> = submission
        .volumes
        .iter()
        .map(|(name, target)| {
            let is_read_only = submission.read_only.contains(name);
            let kind = if name.starts_with('/') { "bind" } else { "volume" };
            json!({"Type": kind, "Source": name.as_ref(), "Target": target.as_ref(), "ReadOnly": is_read_only})
        })
        .collect();
    // Other workers of a gang reach it by its name, at the address of its container.
    let (hostname, endpoint) =
        if is_in_gang { (submission.name.as_ref(), json!({"Mode": "dnsrr"})) } else { ("", Value::Null) };
    let networks: Vec<Value> = submission.networks.iter().map(|network| json!({"Target": network})).collect();
    json!({
        "Name": submission.name.as_ref(),
        "Labels": labels,
        "TaskTemplate": {
            "ContainerSpec": {
                "Image": submission.image.as_ref(),
                "Hostname": hostname,
                "Args": submission.command,
                "Env": submission.environment,
                "Labels": container_labels,
                "Mounts": mounts,
                "StopGracePeriod": nanos(submission.stop_grace),
            },
            "Resources": resources,
            "RestartPolicy": {"Condition": "on-failure", "MaxAttempts": submission.restarts},
            "Placement": {"Constraints": submission.constraints},
            "Networks": networks,
        },
        "Mode": {"Replicated": {"Replicas": 0}},
        "EndpointSpec": endpoint,
    })
}

fn nanos(time: Millis) -> u64 {
    time.0.saturating_mul(1_000_000)
}

fn map(labels: &BTreeMap<Arc<str>, Arc<str>>) -> Map<String, Value> {
    labels.iter().map(|(label, value)| (label.to_string(), value.as_ref().into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Bytes;
    use model::swarm::{NodeId, ServiceId};

    #[test]
    fn one_edit_moves_a_service_and_keeps_unknown_fields() {
        let mut spec = json!({
            "Name": "a", "Labels": {"theirs": "1", "flowcon.cluster.to": "old"}, "New": {"field": [1]},
            "TaskTemplate": {
                "ContainerSpec": {"Image": "job:1"},
                "Resources": {"Limits": {"NanoCPUs": 1}, "Reservations": {"NanoCPUs": 7, "GenericResources": [
                    {"DiscreteResourceSpec": {"Kind": "gpu", "Value": 4}}, {"DiscreteResourceSpec": {"Kind": "fpga", "Value": 1}}]}},
                "Placement": {"Constraints": ["node.id == n1", "node.labels.gpu==a100"], "MaxReplicas": 1}
            },
            "Mode": {"Replicated": {"Replicas": 0}}
        });
        let change = ServiceChange {
            service: ServiceId("s".into()),
            version: 1,
            replicas: Some(1),
            pin: Some(Some(NodeId("n2".into()))),
            stop_grace: Some(Millis(120_000)),
            request: Some(Resources { cores: 2.5, memory: Bytes(64), gpus: 1 }),
            labels: BTreeMap::from([
                ("flowcon.cluster.to".into(), None),
                ("flowcon.cluster.phase".into(), Some("starting".into())),
            ]),
        };
        service(&mut spec, &change);
        assert_eq!(
            spec,
            json!({
                "Name": "a", "Labels": {"theirs": "1", "flowcon.cluster.phase": "starting"}, "New": {"field": [1]},
                "TaskTemplate": {
                    "ContainerSpec": {"Image": "job:1", "StopGracePeriod": 120_000_000_000_u64},
                    "Resources": {"Limits": {"NanoCPUs": 1}, "Reservations": {"NanoCPUs": 2_500_000_000_u64, "MemoryBytes": 64, "GenericResources": [
                        {"DiscreteResourceSpec": {"Kind": "fpga", "Value": 1}}, {"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": 1}}]}},
                    "Placement": {"Constraints": ["node.labels.gpu==a100", "node.id==n2"], "MaxReplicas": 1}
                },
                "Mode": {"Replicated": {"Replicas": 1}}
            })
        );
    }

    #[test]
    fn a_node_is_drained_and_labelled_in_one_edit() {
        let mut spec = json!({"Role": "worker", "Availability": "active", "Labels": {"gpu": "a100"}});
        let labels = BTreeMap::from([("flowcon.rented.stage".into(), Some("closing".into()))]);
        let availability = Some(Availability::Drain);
        node(&mut spec, &NodeChange { node: NodeId("n".into()), version: 1, labels, availability });
        let labels = json!({"gpu": "a100", "flowcon.rented.stage": "closing"});
        assert_eq!(spec, json!({"Role": "worker", "Availability": "drain", "Labels": labels}));
    }

    #[test]
    fn a_worker_of_a_gang_takes_no_turns() {
        let turns = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let spec = created(&Submission { labels, ..Submission::default() });
            spec["TaskTemplate"]["ContainerSpec"]["Labels"]["flowcon.turns"].as_str().map(str::to_owned)
        };
        assert_eq!(turns(&[("flowcon.gang", "bert")]).as_deref(), Some("false"));
        assert_eq!(turns(&[("flowcon.priority", "2")]), None);
    }

    #[test]
    fn a_volume_of_a_submission_is_read_only_if_it_says_so() {
        let volumes = vec![("saved".into(), "/saved".into()), ("/srv/data".into(), "/data".into())];
        let spec = created(&Submission { volumes, read_only: vec!["/srv/data".into()], ..Submission::default() });
        let mounts = spec["TaskTemplate"]["ContainerSpec"]["Mounts"].as_array().unwrap();
        let mounts: Vec<_> =
            mounts.iter().map(|mount| (mount["Source"].as_str(), mount["ReadOnly"].as_bool())).collect();
        assert_eq!(mounts, [(Some("saved"), Some(false)), (Some("/srv/data"), Some(true))]);
        let kinds = spec["TaskTemplate"]["ContainerSpec"]["Mounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| mount["Type"].as_str());
        assert_eq!(kinds.collect::<Vec<_>>(), [Some("volume"), Some("bind")]);
    }

    #[test]
    fn missing_labels_and_placement_are_created() {
        let mut spec = json!({"Name": "a", "TaskTemplate": {}, "Labels": null});
        let pin = Some(Some(NodeId("n".into())));
        let labels = BTreeMap::from([("x".into(), Some("y".into()))]);
        let service_id = ServiceId("s".into());
        let change = ServiceChange {
            service: service_id,
            version: 1,
            replicas: None,
            pin,
            stop_grace: None,
            request: None,
            labels,
        };
        service(&mut spec, &change);
        assert_eq!(spec["TaskTemplate"]["Placement"]["Constraints"], json!(["node.id==n"]));
        assert_eq!(spec["Labels"], json!({"x": "y"}));
        assert!(spec["TaskTemplate"].get("ContainerSpec").is_none());
    }
}
