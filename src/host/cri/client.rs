//! The calls to a container runtime, all of which only read.

use super::grpc::Channel;
use super::messages::{
    ContainerStatusRequest, ContainerStatusResponse, ListContainersRequest, ListPodSandboxRequest, Request,
    VersionRequest, VersionResponse,
};
use super::pod::{Candidate, candidates};
use super::workload::{ContainerEnd, MainContainer, Workload};
use super::{CriError, containerd};
use model::Runtime;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// Time limit of a call of the daemon: each only reads, which takes a runtime milliseconds.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

const CONTAINERD: &str = "containerd";

/// Name and version of a container runtime, such as containerd 1.6.20.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// `containerd` or `cri-o`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it has CRI, by which pods are found.
    pub has_pods: bool,
}

impl RuntimeVersion {
    /// Whether it has containers that are in no pod.
    pub fn has_containers(&self) -> bool {
        self.name == CONTAINERD
    }
}

/// A client of one container runtime. Cheap to clone; all calls use one connection, which is made at the first and again after an error.
#[derive(Clone, Debug)]
pub struct Cri {
    channel: Channel,
}

impl Cri {
    /// Creates a client for the runtime at `socket`. No request is sent, and the runtime need not be running.
    pub fn new(socket: &Path) -> Cri {
        Cri { channel: Channel::new(socket) }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &Path {
        self.channel.socket()
    }

    /// Makes any call within this time, for tests, which create pods as a kubelet does.
    ///
    /// # Errors
    /// As the other calls.
    #[doc(hidden)]
    pub async fn call<Q: Request>(&self, request: &Q, within: Duration) -> Result<Q::Answer, CriError> {
        self.channel.call(None, request, within).await
    }

    async fn read<Q: Request>(&self, request: &Q) -> Result<Q::Answer, CriError> {
        self.call(request, READ_TIMEOUT).await
    }

    /// Returns the runtime's name and version.
    ///
    /// # Errors
    /// [`CriError::Unsupported`] if it neither has CRI v1 nor is containerd.
    pub async fn version(&self) -> Result<RuntimeVersion, CriError> {
        let without_cri = match self.read(&VersionRequest::default()).await {
            Ok(VersionResponse { runtime_name: name, runtime_version: version }) => {
                return Ok(RuntimeVersion { name, version, has_pods: true });
            }
            Err(error @ CriError::Unsupported { .. }) => error,
            Err(error) => return Err(error),
        };
        // containerd's CRI plugin can be disabled. One that is too old for CRI v1 may have pods that are not seen.
        match self.read(&containerd::VersionRequest {}).await {
            Err(_) => Err(without_cri),
            Ok(containerd::VersionResponse { version }) if containerd::is_too_old(&version) => {
                let message = format!("it is {CONTAINERD} {version}");
                Err(CriError::Unsupported { socket: self.socket().to_owned(), message })
            }
            Ok(containerd::VersionResponse { version }) => {
                Ok(RuntimeVersion { name: CONTAINERD.to_owned(), version, has_pods: false })
            }
        }
    }

    /// Lists the pods with `label`, given as `key=value`, among their labels or annotations, in which a container runs.
    pub(super) async fn candidates(&self, label: &str) -> Result<Vec<Candidate>, CriError> {
        let pods = self.read(&ListPodSandboxRequest::default()).await?;
        let containers = self.read(&ListContainersRequest::default()).await?;
        Ok(candidates(pods.items, &containers.containers, label))
    }

    /// Describes a container of a pod; `None` if it does not run any more.
    pub(super) async fn container(&self, id: &str) -> Result<Option<MainContainer>, CriError> {
        Ok(MainContainer::from_status(self.status(id, true).await?))
    }

    async fn status(&self, id: &str, verbose: bool) -> Result<ContainerStatusResponse, CriError> {
        self.read(&ContainerStatusRequest { container_id: id.to_owned(), verbose }).await
    }

    /// Lists containerd's containers with `label`, given as `key=value`, that are in no pod, whether they run or not, by namespace.
    pub(super) async fn containers(&self, label: &str) -> Result<Vec<(String, Vec<containerd::Container>)>, CriError> {
        let request = containerd::with_label(label);
        let mut listed = Vec::new();
        for containerd::Namespace { name } in self.read(&containerd::ListNamespacesRequest {}).await?.namespaces {
            if name != containerd::OF_PODS {
                let containers = self.channel.call(Some(&name), &request, READ_TIMEOUT).await?.containers;
                listed.push((name, containers));
            }
        }
        Ok(listed)
    }

    /// Lists the first processes of the containers of a namespace, by the container's id.
    pub(super) async fn tasks(&self, namespace: &str) -> Result<HashMap<String, containerd::Process>, CriError> {
        let request = containerd::ListTasksRequest {};
        let tasks = self.channel.call(Some(namespace), &request, READ_TIMEOUT).await?.tasks;
        Ok(tasks.into_iter().map(|process| (process.id.clone(), process)).collect())
    }

    /// Returns the end of a container that has ended; `None` if it has not, or is not known any more.
    pub(super) async fn end(&self, of: &Workload) -> Option<ContainerEnd> {
        let id = &of.container.id;
        match of.runtime {
            Runtime::Containerd => self.tasks(of.id.strip_suffix(id)?.trim_end_matches('/')).await.ok()?.get(id)?.end(),
            _ => ContainerEnd::from_status(self.status(id, false).await.ok()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::grpc::testing::{Answer, Recorded};
    use super::*;
    use hyper::body::Bytes;

    const UNKNOWN: Answer = (&[("grpc-status", "12"), ("grpc-message", "unknown service")], Bytes::new());

    /// A containerd without CRI v1, by its answer about its version.
    fn without_cri(version: &'static [u8]) -> Recorded {
        Recorded::start(move |path, _| match path {
            "/containerd.services.version.v1.Version/Version" => (&[("grpc-status", "0")], version.into()),
            _ => UNKNOWN,
        })
    }

    #[tokio::test]
    async fn containerd_without_its_cri_plugin_has_containers_and_no_pods() {
        let runtime = without_cri(b"\0\0\0\0\x07\x0a\x051.7.2");
        let version = Cri::new(&runtime.socket()).version().await.unwrap();
        assert_eq!((version.version.as_str(), version.has_pods, version.has_containers()), ("1.7.2", false, true));
    }

    #[tokio::test]
    async fn containerd_before_cri_v1_is_refused_with_the_version_to_use() {
        let runtime = without_cri(b"\0\0\0\0\x08\x0a\x061.5.18");
        let error = Cri::new(&runtime.socket()).version().await.unwrap_err().to_string();
        assert!(
            error.contains("no CRI v1: it is containerd 1.5.18") && error.contains("use containerd 1.6 or later"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_runtime_that_has_neither_is_unsupported() {
        let runtime = Recorded::start(|_, _| UNKNOWN);
        assert!(matches!(Cri::new(&runtime.socket()).version().await, Err(CriError::Unsupported { .. })));
    }
}
