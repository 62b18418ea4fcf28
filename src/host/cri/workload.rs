//! What is governed as one job: a pod, or a container that is in none.

use model::Runtime;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A pod in which a container runs, or a running container that is in no pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// [`Runtime::Pod`] or [`Runtime::Containerd`].
    pub runtime: Runtime,
    /// The UID of a pod; `NAMESPACE/ID` of a container. No other on this machine has it at the same time.
    pub id: String,
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Labels, and the annotations of a pod; of an annotation with the key of a label, the annotation.
    pub labels: BTreeMap<String, String>,
    /// The name of its cgroup contains that of a pod. The path of a container's ends with it.
    pub cgroup: String,
    /// The container that trains: of a pod the one that `kubectl.kubernetes.io/default-container` names, else the oldest that runs.
    pub container: MainContainer,
}

/// The running container that trains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainContainer {
    /// Id in the runtime.
    pub id: String,
    /// Image, as its user named it.
    pub image: String,
    /// First process, in the PID namespace of this machine.
    pub pid: u32,
    /// Creation time, Unix time in milliseconds.
    pub created_unix_ms: u64,
    /// Start time, Unix time in milliseconds; containerd does not record that of containers without a pod.
    pub started_unix_ms: Option<u64>,
    /// The file with its output; `None` if there is none.
    pub log: Option<ContainerLog>,
    /// Paths on this machine and inside the container.
    pub mounts: Vec<(PathBuf, PathBuf)>,
    /// Its command with the arguments.
    pub command: Vec<String>,
    /// How often the kubelet has started it again.
    pub restarts: u32,
}

/// The file with a container's output, by format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerLog {
    /// CRI's lines.
    Cri(PathBuf),
    /// A JSON object for each line, as Docker and nerdctl write.
    Json(PathBuf),
    /// The bytes as they were written.
    Plain(PathBuf),
}

/// The end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerEnd {
    /// The exit code.
    pub exit_code: i32,
    /// The kernel killed it for memory, as far as the runtime says so.
    pub out_of_memory: bool,
}
