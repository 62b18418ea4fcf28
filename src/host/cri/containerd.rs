//! Containers that are in no pod, by containerd's own interface: its messages, as far as they are used, with the field numbers of
//! `services/{version,namespaces,containers,tasks}/v1`, and what is parsed from them.
//!
//! containerd knows its containers by namespace and id. Those of pods are in the namespace `k8s.io`. Docker's are in `moby`, without the
//! labels that their users gave them.

use super::messages::requests;
use super::workload::{ContainerEnd, ContainerLog, MainContainer, Workload};
use model::Runtime;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The namespace of the containers of pods.
pub(super) const OF_PODS: &str = "k8s.io";

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct VersionRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct VersionResponse {
    #[prost(string, tag = "1")]
    pub version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListNamespacesRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListNamespacesResponse {
    #[prost(message, repeated, tag = "1")]
    pub namespaces: Vec<Namespace>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Namespace {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListContainersRequest {
    #[prost(string, repeated, tag = "1")]
    pub filters: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<Container>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Container {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(map = "string, string", tag = "2")]
    pub labels: HashMap<String, String>,
    #[prost(string, tag = "3")]
    pub image: String,
    #[prost(message, optional, tag = "5")]
    pub spec: Option<Any>,
    #[prost(message, optional, tag = "8")]
    pub created_at: Option<Timestamp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Any {
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListTasksRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListTasksResponse {
    #[prost(message, repeated, tag = "1")]
    pub tasks: Vec<Process>,
}

/// `status` of a task whose shim did not tell its state in time, of one that was created and not started, and of one that has ended.
const UNKNOWN: i32 = 0;
const CREATED: i32 = 1;
const STOPPED: i32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Process {
    /// Of the container.
    #[prost(string, tag = "2")]
    pub id: String,
    #[prost(uint32, tag = "3")]
    pub pid: u32,
    #[prost(int32, tag = "4")]
    pub status: i32,
    #[prost(string, tag = "6")]
    pub stdout: String,
    #[prost(uint32, tag = "9")]
    pub exit_status: u32,
}

requests! { "containerd.services.version.v1.Version": VersionRequest => "Version", VersionResponse; }
requests! { "containerd.services.namespaces.v1.Namespaces": ListNamespacesRequest => "List", ListNamespacesResponse; }
requests! { "containerd.services.containers.v1.Containers": ListContainersRequest => "List", ListContainersResponse; }
requests! { "containerd.services.tasks.v1.Tasks": ListTasksRequest => "List", ListTasksResponse; }

/// Whether a version of containerd, such as 1.6.20~ds1 or v2.1.9, is older than the first with CRI v1.
pub(super) fn is_too_old(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map_while(|number| number.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|found| found < (1, 6))
}

/// Selects the containers with this label, given as `key=value`.
pub(super) fn with_label(label: &str) -> ListContainersRequest {
    let (key, value) = label.split_once('=').unwrap_or((label, ""));
    ListContainersRequest { filters: vec![format!("labels.{key:?}=={value:?}")] }
}

impl Process {
    pub(super) fn runs(&self) -> bool {
        self.pid > 0 && ![UNKNOWN, CREATED, STOPPED].contains(&self.status)
    }

    /// Whether containerd does not know if it runs.
    pub(super) fn is_unknown(&self) -> bool {
        self.status == UNKNOWN
    }

    /// The end of the container; `None` if it has not ended.
    pub(super) fn end(&self) -> Option<ContainerEnd> {
        let exit_code = i32::try_from(self.exit_status).ok().filter(|_| self.status == STOPPED)?;
        Some(ContainerEnd { exit_code, out_of_memory: false })
    }
}

/// The part that is used of a container's OCI document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    process: SpecProcess,
    linux: Linux,
    #[serde(default)]
    mounts: Vec<Mount>,
}

#[derive(Deserialize)]
struct SpecProcess {
    #[serde(default)]
    args: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linux {
    cgroups_path: String,
}

#[derive(Deserialize)]
struct Mount {
    destination: PathBuf,
    #[serde(default)]
    source: PathBuf,
}

/// The id of a container among those of all namespaces.
pub(super) fn id_of(namespace: &str, container: &Container) -> String {
    format!("{namespace}/{}", container.id)
}

/// Describes a running container; `None` if it has no cgroup of its own.
pub(super) fn workload(namespace: &str, container: Container, process: &Process) -> Option<Workload> {
    let Spec { process: SpecProcess { args }, linux, mounts } =
        serde_json::from_slice(&container.spec.as_ref()?.value).ok()?;
    let seconds = container.created_at.as_ref().map_or(0, |at| at.seconds);
    let name = container.labels.get("nerdctl/name").filter(|name| is_name(name)).unwrap_or(&container.id);
    Some(Workload {
        runtime: Runtime::Containerd,
        id: id_of(namespace, &container),
        name: format!("{namespace}/{name}"),
        cgroup: cgroup_of(&linux.cgroups_path)?,
        container: MainContainer {
            pid: process.pid,
            created_unix_ms: u64::try_from(seconds).unwrap_or(0).saturating_mul(1000),
            started_unix_ms: None,
            log: log_of(&container, process),
            mounts: mounts
                .into_iter()
                .filter(|mount| mount.source.is_absolute())
                .map(|mount| (mount.source, mount.destination))
                .collect(),
            command: args,
            restarts: 0,
            id: container.id,
            image: container.image,
        },
        labels: container.labels.into_iter().collect::<BTreeMap<_, _>>(),
    })
}

/// Whether a name is as short and plain as containerd's ids are.
fn is_name(text: &str) -> bool {
    (1..=76).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// The end of the path of a container's cgroup: `SLICE:PREFIX:NAME` in the document is the scope `PREFIX-NAME.scope` of systemd, all else
/// is a path below the root.
fn cgroup_of(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split(':').collect();
    let name = match parts[..] {
        [_, "", name] => format!("{name}.scope"),
        [_, prefix, name] => format!("{prefix}-{name}.scope"),
        _ => path.trim_matches('/').to_owned(),
    };
    Some(name).filter(|name| !name.is_empty())
}

/// Finds the log: that of `--log-uri file://PATH`, or the file that nerdctl's log driver json-file writes.
fn log_of(container: &Container, process: &Process) -> Option<ContainerLog> {
    if let Some(path) = process.stdout.strip_prefix("file://") {
        return Some(PathBuf::from(path)).filter(|path| path.is_absolute()).map(ContainerLog::Plain);
    }
    let state = Path::new(container.labels.get("nerdctl/state-dir")?);
    let config = fs::read(state.join("log-config.json")).ok()?;
    /// nerdctl's record of the log driver and its options.
    #[derive(Deserialize)]
    struct LogConfig {
        driver: String,
        #[serde(default)]
        opts: HashMap<String, String>,
    }
    let LogConfig { driver, opts } = serde_json::from_slice(&config).ok()?;
    let path = opts.get("log-path").map_or_else(|| state.join(format!("{}-json.log", container.id)), PathBuf::from);
    (driver == "json-file" && path.is_absolute()).then_some(ContainerLog::Json(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn container(labels: &[(&str, &str)], cgroup: &str) -> Container {
        let spec = format!(
            r#"{{"process":{{"args":["python","train.py"]}},"linux":{{"cgroupsPath":"{cgroup}"}},
                "mounts":[{{"destination":"/proc","type":"proc","source":"proc"}},
                          {{"destination":"/data","type":"bind","source":"/srv/data"}}]}}"#
        );
        Container {
            id: "4f2a".into(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            image: "train:1".into(),
            spec: Some(Any { value: spec.into_bytes() }),
            created_at: Some(Timestamp { seconds: 5 }),
        }
    }

    fn running(stdout: &str) -> Process {
        Process { id: "4f2a".into(), pid: 4711, status: 2, stdout: stdout.into(), exit_status: 0 }
    }

    #[test]
    fn a_container_is_described_by_its_document_and_its_task() {
        let found = workload("default", container(&[], "/default/4f2a"), &running("file:///var/log/a.log")).unwrap();
        assert_eq!((found.id.as_str(), found.name.as_str()), ("default/4f2a", "default/4f2a"));
        assert_eq!((found.cgroup.as_str(), found.container.pid), ("default/4f2a", 4711));
        assert_eq!(found.container.log, Some(ContainerLog::Plain("/var/log/a.log".into())));
        assert_eq!(found.container.command, ["python", "train.py"]);
        assert_eq!(found.container.mounts, [("/srv/data".into(), "/data".into())]);
        assert_eq!(found.container.created_unix_ms, 5_000);
    }

    #[test]
    fn the_cgroup_is_a_path_or_a_scope_of_systemd() {
        for (path, cgroup) in [
            ("/default/4f2a", Some("default/4f2a")),
            ("jobs", Some("jobs")),
            ("system.slice:nerdctl:4f2a", Some("nerdctl-4f2a.scope")),
            ("system.slice::4f2a", Some("4f2a.scope")),
            ("", None),
            ("/", None),
        ] {
            assert_eq!(cgroup_of(path).as_deref(), cgroup, "{path}");
        }
        assert_eq!(workload("default", container(&[], ""), &running("")), None);
    }

    #[test]
    fn the_log_of_nerdctl_is_found_by_its_record_of_the_driver() {
        let state = TempDir::new().unwrap();
        let labels = [("nerdctl/name", "bert"), ("nerdctl/state-dir", state.path().to_str().unwrap())];
        let found = || {
            workload("team", container(&labels, "/team/4f2a"), &running("binary:///usr/bin/nerdctl?_NERDCTL=/var"))
                .unwrap()
        };
        assert_eq!((found().name.as_str(), found().container.log), ("team/bert", None), "no record");
        for (record, log) in [
            (r#"{"driver":"json-file"}"#, Some(state.path().join("4f2a-json.log"))),
            (r#"{"driver":"json-file","opts":{"log-path":"/srv/a.log"}}"#, Some("/srv/a.log".into())),
            (r#"{"driver":"journald"}"#, None),
        ] {
            fs::write(state.path().join("log-config.json"), record).unwrap();
            assert_eq!(found().container.log, log.map(ContainerLog::Json), "{record}");
        }
    }

    #[test]
    fn a_name_that_is_no_plain_word_is_not_shown() {
        let labels = [("nerdctl/name", "a\u{1b}[2J")];
        let found = workload("team", container(&labels, "/team/4f2a"), &running("")).unwrap();
        assert_eq!(found.name, "team/4f2a");
    }

    #[test]
    fn the_end_of_a_task_is_its_exit_code() {
        let stopped = Process { status: STOPPED, exit_status: 3, ..running("") };
        assert_eq!(stopped.end(), Some(ContainerEnd { exit_code: 3, out_of_memory: false }));
        assert!(!stopped.runs() && running("").runs() && running("").end().is_none());
        assert!(!Process { status: CREATED, ..running("") }.runs());
    }

    #[test]
    fn versions_before_1_6_are_too_old() {
        for (version, too_old) in
            [("1.5.18", true), ("v1.4.0-rc.1", true), ("1.6.20~ds1", false), ("v2.1.9", false), ("dev", false)]
        {
            assert_eq!(is_too_old(version), too_old, "{version}");
        }
    }

    #[test]
    fn the_label_is_a_filter_of_the_list() {
        assert_eq!(with_label("flowcon.enable=true").filters, [r#"labels."flowcon.enable"=="true""#]);
    }
}
