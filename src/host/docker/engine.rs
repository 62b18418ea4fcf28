//! The calls of the daemon to an engine, each limited in time, size and number.
//!
//! Two clients share one transport, and the API version that was agreed on with the engine. bollard requests `inspect`. Version, info, list,
//! updates, events and logs are requested without it, because bollard's enums are closed, so that one unknown word would hide the engine
//! or all containers; because it drops the warnings of an update, which say that a limit was discarded; because it does not limit the length
//! of a line of events or logs; and because it can resume logs only with a resolution of seconds.

use super::api_version::{ApiVersion, EngineVersion};
use super::connection::Connection;
use super::container::{self, EngineContainer, EngineEnd, Listed, NotGoverned, is_container_id, is_container_name};
use super::error::{EngineError, shortened};
use super::info::{EngineInfo, Info, describe};
use super::log_pieces::LogFormat;
use super::sent_updates::SentUpdates;
use super::transport::{self, ENDLESS, LARGEST_RESPONSE, root_cause};
use super::{CALL_TIMEOUT, CALL_TIMEOUT_MOST, CALLS_AT_ONCE, EngineAddress, EngineName};
use bollard::models::ContainerInspectResponse;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use model::{ContainerId, EngineLimits};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A client of one engine. Cheap to clone; it keeps no connection between calls.
///
/// While [`super::watch()`] runs on one of its clones, all clones call the engine to which the watcher connected last, whichever sockets
/// exist: what is known of the engine is then true of every call.
#[derive(Clone)]
pub struct Engine {
    connection: Connection,
    bollard: Docker,
    /// Time limit of each call of this clone.
    pub(super) time_limit: Duration,
    permits: Arc<Semaphore>,
    pub(super) sent: SentUpdates,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("address", self.address()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates a client for the engine at `address`. No request is sent, and the engine need not be running.
    pub fn new(address: EngineAddress) -> Engine {
        let connection = Connection::new(address);
        let route = connection.clone();
        let transport = move |mut request: BollardRequest| {
            let socket = route.route(&mut request);
            async move { transport::send(&socket, request, LARGEST_RESPONSE).await.map_err(bollard::errors::Error::from) }
        };
        let bollard = Docker::connect_with_custom_transport(
            transport,
            Some("http://engine"),
            CALL_TIMEOUT_MOST.as_secs(), // each call has its own limit
            API_DEFAULT_VERSION,
        )
        .expect("a custom transport does not connect yet, so it cannot fail");
        let permits = Arc::new(Semaphore::new(CALLS_AT_ONCE));
        Engine { connection, bollard, time_limit: CALL_TIMEOUT, permits, sent: SentUpdates::default() }
    }

    /// Creates a client for the engine whose socket is the first candidate now; it stays with that engine.
    pub(super) fn resolved(&self) -> Engine {
        let (permits, time_limit) = (self.permits.clone(), self.time_limit);
        Engine { permits, time_limit, ..Engine::new(self.address().resolved()) }
    }

    /// Creates a client for calls that may take long. They have their own `permits`, so that they leave the others theirs.
    pub(super) fn patient(&self, permits: Arc<Semaphore>) -> Engine {
        Engine { permits, time_limit: CALL_TIMEOUT_MOST, ..self.clone() }
    }

    /// Directs all clones of this client to the engine of `connected` from now on.
    pub(super) fn pin(&self, connected: &Engine) {
        self.connection.pin(&connected.connection);
    }

    /// Returns the socket that the next call uses.
    pub fn socket(&self) -> PathBuf {
        self.connection.socket()
    }

    /// Returns the address.
    pub fn address(&self) -> &EngineAddress {
        self.connection.address()
    }

    /// Requests a description of the engine, and agrees on the API version for all further calls of this client and its clones.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if the engine is too old or too new.
    pub async fn info(&self) -> Result<EngineInfo, EngineError> {
        let (version, api) = Box::pin(self.agree("query the engine's version")).await?;
        let info: Info = self.call("query the engine's info", "/info").await?;
        let mut described = describe(&version, api, info);
        let socket = self.socket();
        described.mark.socket = socket.canonicalize().unwrap_or(socket).display().to_string();
        Ok(described)
    }

    /// Asks the engine for its versions, and agrees on the one to speak. Only this request names none.
    async fn agree(&self, operation: &str) -> Result<(EngineVersion, ApiVersion), EngineError> {
        let socket = self.socket();
        let asked = exchanged(&socket, request(Method::GET, "/version", Vec::new()));
        let (status, body) =
            self.in_time(operation, asked).await?.map_err(|error| self.unreachable(operation, &error))?;
        let version: EngineVersion = decoded(operation, status, &body)?;
        let api = version.spoken().map_err(|none| EngineError::Unsupported {
            operation: operation.to_owned(),
            found: none.found,
            next: none.next,
        })?;
        self.connection.agree(socket, api);
        Ok((version, api))
    }

    /// Agrees on the API version, unless that was done with this engine before.
    async fn agreed(&self, operation: &str) -> Result<(), EngineError> {
        match self.connection.agreed(&self.socket()) {
            Some(_) => Ok(()),
            None => self.agree(operation).await.map(drop),
        }
    }

    /// Lists running and paused containers with `label`, given as `key=value`.
    pub async fn list(&self, label: &str) -> Result<Vec<Listed>, EngineError> {
        self.list_filtered("", &serde_json::json!({"label": [label], "status": ["running", "paused"]})).await
    }

    /// Lists those of `ids` that exist, running or not.
    pub async fn existing(&self, ids: &BTreeSet<ContainerId>) -> Result<Vec<Listed>, EngineError> {
        self.list_filtered("all=true&", &serde_json::json!({"id": ids})).await
    }

    pub(super) async fn list_filtered(
        &self,
        which: &str,
        filters: &serde_json::Value,
    ) -> Result<Vec<Listed>, EngineError> {
        let path = format!("/containers/json?{which}filters={}", percent_encoded(&filters.to_string()));
        let listed: Vec<Listed> = self.call("list containers", &path).await?;
        Ok(listed.into_iter().filter(|listed| is_container_id(listed.id.as_str())).collect())
    }

    /// Inspects one container; [`EngineError::Gone`] if it does not exist or is not running.
    pub async fn inspect(&self, id: &ContainerId, engine: EngineName) -> Result<EngineContainer, EngineError> {
        let operation = format!("inspect container {id}");
        checked_id(&operation, id)?;
        self.inspected(operation, id.as_str(), engine).await
    }

    /// Returns the limits in the engine's record of a container, and whether it is running. While it waits for its next restart, it is
    /// not: it has no process, and an update changes only the record.
    pub async fn record(&self, id: &ContainerId) -> Result<(EngineLimits, bool), EngineError> {
        let found = self.description(id).await?;
        let runs = found.state.is_some_and(|state| state.running == Some(true) && state.restarting != Some(true));
        Ok((container::limits(&found.host_config.unwrap_or_default()), runs))
    }

    /// Returns the end of a container that has ended; `None` if it has not.
    ///
    /// # Errors
    /// [`EngineError::Gone`] if it does not exist any more.
    pub async fn end(&self, id: &ContainerId) -> Result<Option<EngineEnd>, EngineError> {
        let found = self.description(id).await?;
        Ok(found.state.and_then(|state| container::end(&state)))
    }

    /// Returns how the logs API sends the output of a container, running or not.
    ///
    /// # Errors
    /// [`EngineError::Gone`] if it does not exist any more.
    pub async fn log_format(&self, id: &ContainerId, engine: EngineName) -> Result<LogFormat, EngineError> {
        let tty = self.description(id).await?.config.is_some_and(|config| config.tty == Some(true));
        Ok(LogFormat { tty, engine })
    }

    /// Returns what the engine knows of a container, running or not.
    async fn description(&self, id: &ContainerId) -> Result<ContainerInspectResponse, EngineError> {
        let operation = format!("inspect container {id}");
        checked_id(&operation, id)?;
        self.typed(&operation, self.bollard.inspect_container(id.as_str(), None)).await
    }

    /// Finds a container by name, id, or prefix of an id; [`EngineError::Gone`] if there is none or it is not running.
    pub async fn find(&self, name: &str, engine: EngineName) -> Result<EngineContainer, EngineError> {
        let operation = format!("find container {}", shortened(name));
        if !is_container_name(name) {
            return Err(EngineError::Gone {
                operation,
                why: "no such container: not a valid container name".to_owned(),
            });
        }
        self.inspected(operation, name, engine).await
    }

    async fn inspected(
        &self,
        operation: String,
        name: &str,
        engine: EngineName,
    ) -> Result<EngineContainer, EngineError> {
        let found = self.typed(&operation, self.bollard.inspect_container(name, None)).await?;
        EngineContainer::from_inspect(found, engine).map_err(|reason| match reason {
            NotGoverned::NotRunning => EngineError::Gone { operation, why: "it is not running".to_owned() },
            NotGoverned::Lacks(what) => EngineError::InvalidResponse { operation, why: format!("it has no {what}") },
        })
    }

    /// Opens an endless response: events or logs.
    pub(super) async fn open(&self, operation: &str, path: &str) -> Result<Response<Incoming>, EngineError> {
        self.agreed(operation).await?;
        let mut request = request(Method::GET, path, Vec::new());
        let socket = self.connection.route(&mut request);
        let opened = transport::send(&socket, request, ENDLESS);
        let response = self.in_time(operation, opened).await?.map_err(|error| self.unreachable(operation, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = self.in_time(operation, transport::whole_body(response)).await?.unwrap_or_default();
        Err(EngineError::from_status(operation, status, &body))
    }

    pub(super) async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        operation: &str,
        path: &str,
    ) -> Result<T, EngineError> {
        let exchange = self.exchange(Method::GET, path, Vec::new());
        let (status, body) =
            self.in_turn(operation, exchange).await?.map_err(|error| self.unreachable(operation, &error))?;
        decoded(operation, status, &body)
    }

    /// Sends a request and returns the status and the body of the response, without a time limit.
    pub(super) fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> impl Future<Output = io::Result<(StatusCode, Bytes)>> + use<> {
        let (connection, mut request) = (self.connection.clone(), request(method, path, body));
        async move {
            let socket = connection.route(&mut request);
            exchanged(&socket, request).await
        }
    }

    async fn typed<T>(
        &self,
        operation: &str,
        call: impl Future<Output = Result<T, bollard::errors::Error>>,
    ) -> Result<T, EngineError> {
        use bollard::errors::Error;
        self.in_turn(operation, call).await?.map_err(|error| match error {
            Error::DockerResponseServerError { status_code, message } => {
                EngineError::from_status(operation, status_code, message.as_bytes())
            }
            Error::RequestTimeoutError => self.timed_out(operation),
            Error::JsonDataError { .. } | Error::JsonSerdeError { .. } => {
                EngineError::InvalidResponse { operation: operation.to_owned(), why: shortened(&error.to_string()) }
            }
            other => self.unreachable(operation, &other),
        })
    }

    /// Makes a call once few enough others are under way, within the time limit, in the API version that was agreed on.
    pub(super) fn in_turn<T>(
        &self,
        operation: &str,
        call: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, EngineError>> {
        let call = Box::pin(call);
        async move {
            Box::pin(self.agreed(operation)).await?;
            let in_turn = async {
                let _permit = self.permits.acquire().await;
                call.await
            };
            self.in_time(operation, in_turn).await
        }
    }

    /// Makes a call within the time limit.
    ///
    /// The call is boxed here: its state includes a connection, and the states and stacks of all callers would contain it several times.
    pub(super) fn in_time<T>(
        &self,
        operation: &str,
        call: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, EngineError>> {
        let call = Box::pin(call);
        async move { tokio::time::timeout(self.time_limit, call).await.map_err(|_| self.timed_out(operation)) }
    }

    fn timed_out(&self, operation: &str) -> EngineError {
        EngineError::Timeout { operation: operation.to_owned(), limit: self.time_limit }
    }

    pub(super) fn unreachable(&self, operation: &str, error: &(dyn std::error::Error + 'static)) -> EngineError {
        EngineError::Unreachable {
            operation: operation.to_owned(),
            socket: self.socket(),
            why: shortened(&root_cause(error)),
        }
    }
}

async fn exchanged(socket: &Path, request: Request<Full<Bytes>>) -> io::Result<(StatusCode, Bytes)> {
    let response = transport::send(socket, request, LARGEST_RESPONSE).await?;
    Ok((response.status(), transport::whole_body(response).await?))
}

pub(super) fn checked_id(operation: &str, id: &ContainerId) -> Result<(), EngineError> {
    if is_container_id(id.as_str()) {
        return Ok(());
    }
    Err(EngineError::Gone { operation: operation.to_owned(), why: "not a valid container id".to_owned() })
}

pub(super) fn decoded<T: for<'de> Deserialize<'de>>(
    operation: &str,
    status: StatusCode,
    body: &[u8],
) -> Result<T, EngineError> {
    if !status.is_success() {
        return Err(EngineError::from_status(operation, status.as_u16(), body));
    }
    serde_json::from_slice(body)
        .map_err(|error| EngineError::InvalidResponse { operation: operation.to_owned(), why: error.to_string() })
}

fn request(method: Method, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .expect("paths are built from checked ids and percent-encoded text")
}

/// Encodes text for a query.
pub(super) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
