//! Pods, as parsed from the answers of CRI. Pure.

use super::messages::{
    CONTAINER_EXITED, CONTAINER_RUNNING, Container, ContainerStatusResponse, PodSandbox, PodSandboxMetadata,
    SANDBOX_READY,
};
use super::workload::{ContainerEnd, ContainerLog, MainContainer, Workload};
use model::Runtime;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Names the container that `kubectl logs` shows, of a pod with several.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// A wanted pod, before its container is described.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) metadata: PodSandboxMetadata,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) container: String,
    pub(super) restarts: u32,
}

impl Candidate {
    pub(super) fn with(self, container: MainContainer) -> Workload {
        let PodSandboxMetadata { name, uid, namespace, .. } = self.metadata;
        Workload {
            runtime: Runtime::Pod,
            id: uid.clone(),
            name: format!("{namespace}/{name}"),
            labels: self.labels,
            cgroup: uid,
            container: MainContainer { restarts: self.restarts, ..container },
        }
    }
}

/// Selects the pods that run and have `label`, each with its container. The runtime keeps ended sandboxes of a pod beside the present one.
pub(super) fn candidates(pods: Vec<PodSandbox>, containers: &[Container], label: &str) -> Vec<Candidate> {
    let (key, value) = label.split_once('=').unwrap_or((label, ""));
    let candidate = |pod: PodSandbox| {
        let mut labels: BTreeMap<String, String> = pod.labels.into_iter().collect();
        labels.extend(pod.annotations);
        let metadata = pod.metadata.filter(|metadata| is_uid(&metadata.uid) && pod.state == SANDBOX_READY)?;
        if labels.get(key).is_none_or(|has| has != value) {
            return None;
        }
        let named = labels.get(DEFAULT_CONTAINER);
        let name = |container: &Container| container.metadata.clone().unwrap_or_default().name;
        let container = containers
            .iter()
            .filter(|container| container.pod_sandbox_id == pod.id && container.state == CONTAINER_RUNNING)
            .filter(|container| named.is_none_or(|named| *named == name(container)))
            .min_by_key(|container| container.created_at)?;
        let restarts = container.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        Some(Candidate { metadata, labels, container: container.id.clone(), restarts })
    };
    pods.into_iter().filter_map(candidate).collect()
}

/// Whether a text can be the UID of a pod, or the hash that stands for it where the kubelet reads pods from files. It is part of the name of
/// the pod's cgroup.
fn is_uid(text: &str) -> bool {
    (16..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

impl MainContainer {
    pub(super) fn from_status(response: ContainerStatusResponse) -> Option<MainContainer> {
        /// The part that is used of the details, which runtimes give as JSON.
        #[derive(Deserialize)]
        struct Info {
            pid: u32,
            #[serde(default)]
            config: Config,
        }
        #[derive(Default, Deserialize)]
        struct Config {
            #[serde(default)]
            command: Vec<String>,
            #[serde(default)]
            args: Vec<String>,
        }
        let status = response.status.filter(|status| status.state == CONTAINER_RUNNING)?;
        let Info { pid, config: Config { command, args } } = serde_json::from_str(response.info.get("info")?).ok()?;
        let unix_ms = |nanos: i64| u64::try_from(nanos / 1_000_000).unwrap_or(0);
        Some(MainContainer {
            id: status.id,
            image: status.image.unwrap_or_default().image,
            pid: Some(pid).filter(|pid| *pid > 0)?,
            created_unix_ms: unix_ms(status.created_at),
            started_unix_ms: Some(unix_ms(status.started_at)),
            log: Some(PathBuf::from(status.log_path)).filter(|path| path.is_absolute()).map(ContainerLog::Cri),
            mounts: status
                .mounts
                .into_iter()
                .map(|mount| (mount.host_path.into(), mount.container_path.into()))
                .collect(),
            command: [command, args].concat(),
            restarts: 0,
        })
    }
}

impl ContainerEnd {
    pub(super) fn from_status(response: ContainerStatusResponse) -> Option<ContainerEnd> {
        let status = response.status.filter(|status| status.state == CONTAINER_EXITED)?;
        Some(ContainerEnd { exit_code: status.exit_code, out_of_memory: status.reason == "OOMKilled" })
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::{ContainerMetadata, ContainerStatus};
    use super::*;
    use std::collections::HashMap;

    const UID: &str = "6f0a1c52-9f6b-4f0e-8a3c-2f5d1e7b9c01";
    const LABEL: &str = "flowcon.enable=true";

    fn pod(id: &str, state: i32, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> PodSandbox {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let metadata =
            PodSandboxMetadata { name: "bert".into(), uid: UID.into(), namespace: "team".into(), attempt: 0 };
        PodSandbox {
            id: id.into(),
            metadata: Some(metadata),
            state,
            labels: map(labels),
            annotations: map(annotations),
        }
    }

    fn container(id: &str, name: &str, state: i32, created_at: i64) -> Container {
        let metadata = Some(ContainerMetadata { name: name.into(), attempt: 2 });
        Container { id: id.into(), pod_sandbox_id: "sandbox".into(), metadata, state, created_at }
    }

    fn chosen(pod: PodSandbox, containers: &[Container]) -> Option<(String, u32)> {
        candidates(vec![pod], containers, LABEL).pop().map(|candidate| (candidate.container, candidate.restarts))
    }

    #[test]
    fn a_label_or_an_annotation_selects_a_pod_that_runs() {
        let runs = [container("c", "train", CONTAINER_RUNNING, 1)];
        let enable = [("flowcon.enable", "true")];
        assert_eq!(chosen(pod("sandbox", SANDBOX_READY, &enable, &[]), &runs), Some(("c".to_owned(), 2)));
        assert!(chosen(pod("sandbox", SANDBOX_READY, &[], &enable), &runs).is_some());
        assert_eq!(chosen(pod("sandbox", SANDBOX_READY, &[], &[]), &runs), None);
        assert_eq!(chosen(pod("sandbox", SANDBOX_READY, &enable, &[("flowcon.enable", "false")]), &runs), None);
        assert_eq!(chosen(pod("sandbox", 1, &enable, &[]), &runs), None, "an ended sandbox");
        assert_eq!(chosen(pod("another", SANDBOX_READY, &enable, &[]), &runs), None, "not its container");
        let ended = [container("c", "train", CONTAINER_EXITED, 1)];
        assert_eq!(chosen(pod("sandbox", SANDBOX_READY, &enable, &[]), &ended), None);
    }

    #[test]
    fn the_default_container_trains_else_the_oldest() {
        let both = [container("b", "sidecar", CONTAINER_RUNNING, 5), container("a", "train", CONTAINER_RUNNING, 9)];
        let enable = ("flowcon.enable", "true");
        let id = |annotations: &[(&str, &str)]| {
            chosen(pod("sandbox", SANDBOX_READY, &[enable], annotations), &both).map(|found| found.0)
        };
        assert_eq!(id(&[]).as_deref(), Some("b"));
        assert_eq!(id(&[(DEFAULT_CONTAINER, "train")]).as_deref(), Some("a"));
        assert_eq!(id(&[(DEFAULT_CONTAINER, "gone")]), None);
    }

    #[test]
    fn a_uid_that_could_name_another_cgroup_is_rejected() {
        let runs = [container("c", "train", CONTAINER_RUNNING, 1)];
        let with_uid = |uid: &str| {
            let mut pod = pod("sandbox", SANDBOX_READY, &[("flowcon.enable", "true")], &[]);
            pod.metadata = pod.metadata.map(|metadata| PodSandboxMetadata { uid: uid.into(), ..metadata });
            chosen(pod, &runs)
        };
        assert!(with_uid("a0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5").is_some(), "of a static pod");
        assert!(
            ["", "kubepods", "../../system.slice", "burstable/pod0123456789"]
                .into_iter()
                .all(|uid| with_uid(uid).is_none())
        );
    }

    #[test]
    fn the_process_and_the_log_of_a_running_container_are_parsed() {
        let status = ContainerStatus {
            id: "c".into(),
            state: CONTAINER_RUNNING,
            started_at: 2_500_000_000,
            log_path: "/var/log/pods/team_bert_6f0a/train/2.log".into(),
            ..ContainerStatus::default()
        };
        let info = HashMap::from([(
            "info".to_owned(),
            r#"{"sandboxID":"s","pid":4711,"config":{"command":["python"],"args":["train.py"]}}"#.to_owned(),
        )]);
        let response = ContainerStatusResponse { status: Some(status.clone()), info };
        let found = MainContainer::from_status(response.clone()).unwrap();
        assert_eq!((found.pid, found.started_unix_ms), (4711, Some(2_500)));
        assert_eq!(found.log, Some(ContainerLog::Cri("/var/log/pods/team_bert_6f0a/train/2.log".into())));
        assert_eq!(found.command, ["python", "train.py"]);
        let without = ContainerStatusResponse { info: HashMap::new(), ..response };
        assert_eq!(MainContainer::from_status(without), None);
        let (status, info) = (
            ContainerStatus { state: CONTAINER_EXITED, exit_code: 137, reason: "OOMKilled".into(), ..status },
            HashMap::new(),
        );
        let ended = ContainerStatusResponse { status: Some(status), info };
        assert_eq!(MainContainer::from_status(ended.clone()), None);
        assert_eq!(ContainerEnd::from_status(ended), Some(ContainerEnd { exit_code: 137, out_of_memory: true }));
    }
}
