//! The calls that the daemon makes to an engine, each bounded in time, size and number. Imports: model, bollard, hyper.
//!
//! Two ways on one transport. bollard asks for the version and for `inspect`. Info, list, updates, events and logs are
//! asked for here: one odd word must not hide the engine or all containers (bollard's enums are closed), an update's
//! warnings tell which limit was discarded (bollard drops them), events and logs need a bound on each line (bollard
//! has none) and logs a resumption finer than a second.

use super::container::{self, EngineContainer, Listed, NotGoverned, is_container_id, is_container_name};
use super::error::{EngineError, shortened};
use super::transport::{self, Bound, root_cause};
use super::update::UpdateBody;
use super::{CALL_TIMEOUT, CALLS_AT_ONCE, Conversion, EngineAddress, EngineName};
use crate::model::{ContainerId, EngineLimits, EngineMark, Setting};
use bollard::models::SystemVersion;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What an engine says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// Which engine.
    pub name: EngineName,
    /// Its own version.
    pub version: String,
    /// The newest API version that it speaks.
    pub api: String,
    /// `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// The OCI runtime with its version, where it says: `runc 1.1.5+ds1`.
    pub runtime: Option<String>,
    /// The default log driver.
    pub log_driver: String,
    /// Containers survive the engine's restart.
    pub live_restore: bool,
    /// Which one it is.
    pub mark: EngineMark,
    /// How its `cpu_shares` become a weight: a guess until [`Conversion::detect`] saw a value read back.
    pub conversion: Conversion,
}

/// What became of an update that the engine accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Updated {
    /// Settings that no update can make, or that the engine discarded: write the cgroup.
    pub not_by_engine: Vec<Setting>,
    /// The engine's warnings, shortened.
    pub warnings: Vec<String>,
}

/// A client of one engine. Cheap to clone; holds no connection between calls.
#[derive(Clone)]
pub struct Engine {
    address: EngineAddress,
    bollard: Docker,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Engine {
    /// A client for the engine at `address`. Nothing is asked yet, and the engine need not run.
    pub fn new(address: EngineAddress) -> Engine {
        let target = address.clone();
        let transport = move |request: BollardRequest| {
            let target = target.clone();
            async move { transport::send(&target, request, Bound::Answer).await.map_err(bollard::errors::Error::from) }
        };
        let bollard = Docker::connect_with_custom_transport(
            transport,
            Some("http://engine"),
            CALL_TIMEOUT.as_secs(),
            API_DEFAULT_VERSION,
        )
        .expect("a custom transport connects to nothing yet, so nothing can fail");
        Engine { address, bollard, permits: Arc::new(Semaphore::new(CALLS_AT_ONCE)) }
    }

    /// Where it is.
    pub fn address(&self) -> &EngineAddress {
        &self.address
    }

    /// Asks the engine who it is.
    pub async fn info(&self) -> Result<EngineInfo, EngineError> {
        let version = self.typed("ask the engine's version", self.bollard.version()).await?;
        let info: Info = self.call("ask the engine's info", Method::GET, "/info", None).await?;
        let mut described = described(version, info);
        let socket = self.address.socket();
        described.mark.socket = socket.canonicalize().unwrap_or_else(|_| socket.to_owned()).display().to_string();
        Ok(described)
    }

    /// The running and paused containers that carry `label`, as `key=value`.
    pub async fn list(&self, label: &str) -> Result<Vec<Listed>, EngineError> {
        self.listed("", &serde_json::json!({"label": [label], "status": ["running", "paused"]})).await
    }

    /// Those of `ids` that exist, whether they run or not.
    pub async fn existing(&self, ids: &BTreeSet<ContainerId>) -> Result<Vec<Listed>, EngineError> {
        self.listed("all=true&", &serde_json::json!({"id": ids})).await
    }

    async fn listed(&self, which: &str, filters: &serde_json::Value) -> Result<Vec<Listed>, EngineError> {
        let path = format!("/containers/json?{which}filters={}", percent_encoded(&filters.to_string()));
        let listed: Vec<Listed> = self.call("list containers", Method::GET, &path, None).await?;
        Ok(listed.into_iter().filter(|listed| is_container_id(listed.id.as_str())).collect())
    }

    /// One container; [`EngineError::Gone`] where it does not exist or run any more.
    pub async fn inspect(&self, id: &ContainerId, engine: EngineName) -> Result<EngineContainer, EngineError> {
        let operation = format!("inspect container {id}");
        checked_id(&operation, id)?;
        self.inspected(operation, id.as_str(), engine).await
    }

    /// The limits in the engine's record of a container, and whether it runs.
    pub async fn record(&self, id: &ContainerId) -> Result<(EngineLimits, bool), EngineError> {
        let operation = format!("inspect container {id}");
        checked_id(&operation, id)?;
        let found = self.typed(&operation, self.bollard.inspect_container(id.as_str(), None)).await?;
        let runs = found.state.as_ref().is_some_and(|state| state.running == Some(true));
        Ok((container::limits(&found.host_config.unwrap_or_default()), runs))
    }

    /// The container of this name, id, or beginning of an id; [`EngineError::Gone`] where there is none or it does not run.
    pub async fn find(&self, name: &str, engine: EngineName) -> Result<EngineContainer, EngineError> {
        let operation = format!("find container {}", shortened(name));
        if !is_container_name(name) {
            return Err(EngineError::Gone {
                operation,
                why: "no such container: it is no container's name".to_owned(),
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
            NotGoverned::NotRunning => EngineError::Gone { operation, why: "it does not run".to_owned() },
            NotGoverned::Lacks(what) => EngineError::InvalidResponse { operation, why: format!("it lacks {what}") },
        })
    }

    /// Puts `settings` in force with one update, and says which of them no update can set.
    ///
    /// `original`: the container's limits before our first change; what equals them is restored to the digit. An update
    /// outlives the container's restart and changes what `inspect` shows. Read the cgroup back: that is the truth.
    pub async fn update(
        &self,
        id: &ContainerId,
        original: &EngineLimits,
        conversion: Conversion,
        settings: &[Setting],
    ) -> Result<Updated, EngineError> {
        #[derive(Default, Deserialize)]
        struct Answer {
            #[serde(rename = "Warnings", default)]
            warnings: Option<Vec<String>>,
        }
        let operation = format!("update container {id}");
        checked_id(&operation, id)?;
        let mut body = UpdateBody::default();
        let (by_engine, mut not_by_engine): (Vec<_>, Vec<_>) =
            settings.iter().copied().partition(|setting| body.add(*setting, original, conversion));
        if by_engine.is_empty() {
            return Ok(Updated { not_by_engine, warnings: Vec::new() });
        }
        let body = serde_json::to_vec(&body).expect("numbers always serialize");
        let path = format!("/containers/{}/update", id.as_str());
        let answer: Answer = match self.call(&operation, Method::POST, &path, Some(body)).await {
            // Podman before 4.6 has no such call.
            Err(EngineError::Refused { status: 404 | 405 | 501, .. }) => {
                return Ok(Updated { not_by_engine: settings.to_vec(), warnings: Vec::new() });
            }
            answer => answer?,
        };
        let warnings: Vec<String> = answer.warnings.unwrap_or_default().iter().map(|w| shortened(w)).collect();
        if warnings.iter().any(|warning| warning.contains("Block I/O weight")) {
            not_by_engine.extend(by_engine.into_iter().filter(|setting| matches!(setting, Setting::IoWeight(_))));
        }
        Ok(Updated { not_by_engine, warnings })
    }

    /// Opens an answer without end: events or logs.
    pub(super) async fn open(&self, operation: &str, path: &str) -> Result<Response<Incoming>, EngineError> {
        let opened = transport::send(&self.address, request(Method::GET, path, None), Bound::Stream);
        let response = self.in_time(operation, opened).await?.map_err(|error| self.unreachable(operation, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = self.in_time(operation, transport::whole_body(response)).await?.unwrap_or_default();
        Err(EngineError::from_status(operation, status, &body))
    }

    async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        operation: &str,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<T, EngineError> {
        let exchange = async {
            let response = transport::send(&self.address, request(method, path, body), Bound::Answer).await?;
            let status = response.status();
            io::Result::Ok((status, transport::whole_body(response).await?))
        };
        let (status, body) =
            self.in_turn(operation, exchange).await?.map_err(|error| self.unreachable(operation, &error))?;
        if !status.is_success() {
            return Err(EngineError::from_status(operation, status.as_u16(), &body));
        }
        serde_json::from_slice(&body)
            .map_err(|error| EngineError::InvalidResponse { operation: operation.to_owned(), why: error.to_string() })
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
            Error::RequestTimeoutError => EngineError::Timeout { operation: operation.to_owned() },
            Error::JsonDataError { .. } | Error::JsonSerdeError { .. } => {
                EngineError::InvalidResponse { operation: operation.to_owned(), why: shortened(&error.to_string()) }
            }
            other => self.unreachable(operation, &other),
        })
    }

    async fn in_turn<T>(&self, operation: &str, call: impl Future<Output = T>) -> Result<T, EngineError> {
        let turn = async {
            let _permit = self.permits.acquire().await;
            call.await
        };
        self.in_time(operation, turn).await
    }

    pub(super) async fn in_time<T>(&self, operation: &str, call: impl Future<Output = T>) -> Result<T, EngineError> {
        let timeout = |_| EngineError::Timeout { operation: operation.to_owned() };
        tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(timeout)
    }

    pub(super) fn unreachable(&self, operation: &str, error: &(dyn std::error::Error + 'static)) -> EngineError {
        EngineError::Unreachable {
            operation: operation.to_owned(),
            socket: self.address.socket().to_owned(),
            why: shortened(&root_cause(error)),
        }
    }
}

/// What is read of `/info`; Docker before 20.10 has no cgroup version: it is 1.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Info {
    cgroup_driver: String,
    cgroup_version: String,
    logging_driver: String,
    live_restore_enabled: bool,
    #[serde(rename = "ID")]
    id: String,
}

fn described(version: SystemVersion, info: Info) -> EngineInfo {
    let components = version.components.unwrap_or_default();
    let component = |word: &str| components.iter().find(|c| c.name.to_lowercase().contains(word));
    let name = if component("podman").is_some() { EngineName::Podman } else { EngineName::Docker };
    // Docker: "runc", "1.1.5+ds1". Podman: "OCI Runtime (crun)", "crun version 1.8.1\ncommit: …".
    let runtime = ["runc", "crun"].into_iter().find_map(|name| {
        let version =
            component(name)?.version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        Some(format!("{name} {}", shortened(version)))
    });
    let cgroup_version = if info.cgroup_version.trim_start_matches('v') == "2" { 2 } else { 1 };
    // Podman calls itself something else each time.
    let id = Some(info.id).filter(|id| name == EngineName::Docker && !id.is_empty());
    EngineInfo {
        mark: EngineMark { id: id.map(|id| shortened(&id)), socket: String::new() },
        name,
        version: shortened(&version.version.unwrap_or_default()),
        api: shortened(&version.api_version.unwrap_or_default()),
        cgroup_driver: shortened(&info.cgroup_driver),
        cgroup_version,
        conversion: Conversion::expected(cgroup_version, runtime.as_deref()),
        runtime,
        log_driver: shortened(&info.logging_driver),
        live_restore: info.live_restore_enabled,
    }
}

fn checked_id(operation: &str, id: &ContainerId) -> Result<(), EngineError> {
    if is_container_id(id.as_str()) {
        return Ok(());
    }
    Err(EngineError::Gone { operation: operation.to_owned(), why: "its id is not an engine's".to_owned() })
}

fn request(method: Method, path: &str, body: Option<Vec<u8>>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .expect("paths are built from checked ids and percent-encoded text")
}

/// Everything but unreserved characters as `%XX`.
pub(super) fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}
