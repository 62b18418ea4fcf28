//! The engine to which the calls of a client go, and the API version that they speak with it.

use super::EngineAddress;
use super::api_version::ApiVersion;
use hyper::Request;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by all clones of a client.
#[derive(Clone)]
pub(super) struct Connection {
    address: EngineAddress,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    /// The socket of the engine to which the watcher connected last.
    pinned: Option<PathBuf>,
    /// The version that was agreed on with the engine at this socket.
    agreed: Option<(PathBuf, ApiVersion)>,
}

impl Connection {
    pub(super) fn new(address: EngineAddress) -> Connection {
        Connection { address, state: Arc::default() }
    }

    pub(super) fn address(&self) -> &EngineAddress {
        &self.address
    }

    /// Returns the socket that the next call uses.
    pub(super) fn socket(&self) -> PathBuf {
        self.state().pinned.clone().unwrap_or_else(|| self.address.socket().to_owned())
    }

    /// Directs the calls to the engine of `connected` from now on, in the version that was agreed on with it.
    pub(super) fn pin(&self, connected: &Connection) {
        let (pinned, agreed) = (Some(connected.socket()), connected.state().agreed.clone());
        *self.state() = State { pinned, agreed };
    }

    /// Speaks this version with the engine at `socket` from now on.
    pub(super) fn agree(&self, socket: PathBuf, version: ApiVersion) {
        self.state().agreed = Some((socket, version));
    }

    /// Returns the version that was agreed on with the engine at `socket`.
    pub(super) fn agreed(&self, socket: &Path) -> Option<ApiVersion> {
        self.state().agreed.as_ref().filter(|(agreed, _)| agreed == socket).map(|(_, version)| *version)
    }

    /// Returns the socket for a request, whose path names the agreed version from now on.
    pub(super) fn route<B>(&self, request: &mut Request<B>) -> PathBuf {
        let socket = self.socket();
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        if let Some(Ok(uri)) = self.agreed(&socket).map(|version| version.path(path).parse()) {
            *request.uri_mut() = uri;
        }
        socket
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
