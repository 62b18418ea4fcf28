//! The calls to a container runtime, all of which only read.

use super::messages::{
    ContainerStatusRequest, ContainerStatusResponse, ListContainersRequest, ListPodSandboxRequest, Request,
    VersionRequest, VersionResponse,
};
use super::pod::{Candidate, PodContainer, PodEnd, candidates};
use super::{CriError, grpc};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of a call of the daemon: each only reads, which takes a runtime milliseconds.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Name and version of a container runtime, such as containerd 1.6.20.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// `containerd` or `cri-o`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A client of one container runtime. Cheap to clone; it keeps no connection between calls.
#[derive(Clone, Debug)]
pub struct Cri {
    socket: PathBuf,
}

impl Cri {
    /// Creates a client for the runtime at `socket`. No request is sent, and the runtime need not be running.
    pub fn new(socket: &Path) -> Cri {
        Cri { socket: socket.to_owned() }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Makes any call within this time, for tests, which create pods as a kubelet does.
    ///
    /// # Errors
    /// As the other calls.
    #[doc(hidden)]
    pub async fn call<Q: Request>(&self, request: &Q, within: Duration) -> Result<Q::Answer, CriError> {
        grpc::call(&self.socket, request, within).await
    }

    async fn read<Q: Request>(&self, request: &Q) -> Result<Q::Answer, CriError> {
        self.call(request, READ_TIMEOUT).await
    }

    /// Returns the runtime's name and version.
    ///
    /// # Errors
    /// [`CriError::Unsupported`] if it has no CRI v1.
    pub async fn version(&self) -> Result<RuntimeVersion, CriError> {
        let VersionResponse { runtime_name, runtime_version } = self.read(&VersionRequest::default()).await?;
        Ok(RuntimeVersion { name: runtime_name, version: runtime_version })
    }

    /// Lists the pods with `label`, given as `key=value`, among their labels or annotations, in which a container runs.
    pub(super) async fn candidates(&self, label: &str) -> Result<Vec<Candidate>, CriError> {
        let pods = self.read(&ListPodSandboxRequest::default()).await?;
        let containers = self.read(&ListContainersRequest::default()).await?;
        Ok(candidates(pods.items, &containers.containers, label))
    }

    /// Describes a container; `None` if it does not run any more.
    pub(super) async fn container(&self, id: &str) -> Result<Option<PodContainer>, CriError> {
        Ok(PodContainer::from_status(self.status(id, true).await?))
    }

    /// Returns the end of a container that has ended; `None` if it has not, or is not known any more.
    pub(super) async fn end(&self, id: &str) -> Option<PodEnd> {
        PodEnd::from_status(self.status(id, false).await.ok()?)
    }

    async fn status(&self, id: &str, verbose: bool) -> Result<ContainerStatusResponse, CriError> {
        self.read(&ContainerStatusRequest { container_id: id.to_owned(), verbose }).await
    }
}
