//! Docker Swarm through the Unix socket of one engine: reading the state, and applying single changes.
//!
//! JSON is read and edited as JSON, not through the closed types of a library: a service's spec is written back with all of its fields,
//! including unknown ones. Each request has its own connection, a deadline set by the caller, and a limited response. Imports: model.

mod certificates;
mod containers;
mod http;
mod read;
mod sight;
mod write;

pub use certificates::{CertificateError, Certificates, Identity, Peer, Role, peer_of};
pub use containers::{LocalWorker, SERVICE_LABEL, VolumePlace};

use crate::model::Refusal;
use crate::model::cluster::Submission;
use crate::model::swarm::{ChangeOutcome, NodeChange, NodeId, ServiceChange, ServiceId, Swarm, SwarmService};
use http::{Http, HttpResponse};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// The label that makes a service a job; services without it are not read.
const QUEUE_LABEL: &str = "flowcon.queue";

/// Default socket of the engine.
const SOCKET: &str = "/var/run/docker.sock";

/// One engine of a Swarm.
#[derive(Clone, Debug)]
pub struct Engine {
    http: Http,
}

/// Description of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// Id of its node, if it is in a Swarm.
    pub node: Option<NodeId>,
    /// The address at which other nodes reach it.
    pub address: Arc<str>,
    /// Id of the Swarm, known only to managers.
    pub cluster: Option<Arc<str>>,
    /// Whether it is a manager.
    pub is_manager: bool,
    /// The directory of its certificates and volumes.
    pub data: PathBuf,
}

impl Engine {
    /// Returns a client for the engine at `unix:///path`, at a path, or at the default socket.
    ///
    /// # Errors
    /// The address is of another kind.
    pub fn at(address: Option<&str>) -> Result<Engine, String> {
        let address = address.unwrap_or(SOCKET);
        let path = address.strip_prefix("unix://").unwrap_or(address);
        if !path.starts_with('/') {
            return Err(format!(
                "engine = \"{address}\": expected unix:///var/run/docker.sock or the path of another socket"
            ));
        }
        Ok(Engine { http: Http::new(PathBuf::from(path)) })
    }

    /// Requests a description of the engine.
    ///
    /// # Errors
    /// A message.
    pub async fn info(&self) -> Result<EngineInfo, String> {
        let answer = self.http.get("/info").await?;
        read::info(&answer.succeeded()?)
    }

    /// Reads the state of the Swarm with five requests in quick succession.
    ///
    /// # Errors
    /// A message with the next step: the engine does not respond, is not in a Swarm, or is not a manager.
    pub async fn look(&self) -> Result<Swarm, String> {
        let info = self.info().await?;
        let Some(reported_by) = info.node else {
            return Err("this engine is not part of a Swarm; run `docker swarm init` or `docker swarm join`".to_owned());
        };
        if !info.is_manager {
            return Err(
                "this engine is not a manager of its Swarm; run flowcoord on a manager, or promote this node with `docker node promote`"
                    .to_owned(),
            );
        }
        let filter = format!("?filters={}", http::encoded(&format!("{{\"label\":[\"{QUEUE_LABEL}\"]}}")));
        let tasks = self.list(&format!("/tasks{filter}")).await?;
        // Tasks of all services; a task of a Swarm job has the desired state `complete`.
        let wanted = http::encoded("{\"desired-state\":[\"running\",\"complete\"]}");
        let wanted = self.list(&format!("/tasks?filters={wanted}")).await?;
        let services = self.list(&format!("/services{filter}")).await?;
        let nodes = self.list("/nodes").await?;
        let is_leader = nodes.iter().any(|node| read::leads(node, &reported_by));
        let mut swarm = Swarm {
            cluster: info.cluster.unwrap_or_default(),
            reported_by: Some(reported_by),
            is_leader,
            nodes: nodes.iter().filter_map(read::node).collect(),
            services: services.iter().filter_map(read::service).collect(),
            tasks: tasks.iter().filter_map(read::task).collect(),
        };
        swarm.nodes.sort_by(|one, other| one.id.cmp(&other.id));
        swarm.services.sort_by(|one, other| one.id.cmp(&other.id));
        swarm.tasks.sort_by(|one, other| one.id.cmp(&other.id));
        let is_read = |id: &ServiceId| swarm.services.binary_search_by(|service| service.id.cmp(id)).is_ok();
        for (node, _, reserved) in wanted.iter().filter_map(read::reservation).filter(|(_, of, _)| !is_read(of)) {
            if let Ok(at) = swarm.nodes.binary_search_by(|known| known.id.cmp(&node)) {
                swarm.nodes[at].reserved = swarm.nodes[at].reserved.with(reserved);
            }
        }
        Ok(swarm)
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, String> {
        match self.http.get(path).await?.succeeded()? {
            Value::Array(list) => Ok(list),
            _ => Err(format!("invalid response of the engine to {path}: not a list")),
        }
    }

    /// Changes a service if it still has the version on which the decision is based.
    pub async fn change(&self, change: &ServiceChange) -> ChangeOutcome {
        let path = format!("/services/{}", http::encoded(&change.service.0));
        self.swap(&path, change.version, |spec| write::service(spec, change)).await
    }

    /// Changes a node's labels and availability if it still has the version on which the decision is based.
    pub async fn change_node(&self, change: &NodeChange) -> ChangeOutcome {
        let path = format!("/nodes/{}", http::encoded(&change.node.0));
        self.swap(&path, change.version, |spec| write::node(spec, change)).await
    }

    /// Reads an object, edits its spec, and writes it back with the expected version: compare-and-swap.
    async fn swap(&self, path: &str, version: u64, edit: impl FnOnce(&mut Value)) -> ChangeOutcome {
        let mut object = match self.http.get(path).await {
            Ok(answer) if answer.status == 404 => return ChangeOutcome::Gone,
            Ok(answer) => match answer.succeeded() {
                Ok(object) => object,
                Err(error) => return ChangeOutcome::Unknown(error),
            },
            Err(error) => return ChangeOutcome::Unknown(error),
        };
        if read::version(&object) != Some(version) {
            return ChangeOutcome::OutOfDate;
        }
        let mut spec = object["Spec"].take();
        edit(&mut spec);
        match self.http.post(&format!("{path}/update?version={version}"), &spec).await {
            Ok(answer) => outcome(&answer),
            Err(error) => ChangeOutcome::Unknown(error),
        }
    }

    /// Creates a service with 0 replicas from a submission.
    ///
    /// # Errors
    /// The rejection of Swarm with its message.
    pub async fn create(&self, submission: &Submission) -> Result<ServiceId, Refusal> {
        let spec = write::created(submission);
        let answer = self.http.post("/services/create", &spec).await;
        let answer = answer.map_err(Refusal::Failed)?;
        if !answer.is_success() {
            let message = answer.message();
            return Err(match answer.status {
                409 => Refusal::Refused(message),
                400..500 => Refusal::Invalid(message),
                _ => Refusal::Failed(message),
            });
        }
        let id = answer.body["ID"].as_str().map(|id| ServiceId(id.into()));
        id.ok_or_else(|| Refusal::Failed("Swarm created the service without returning its id".to_owned()))
    }

    /// Returns the current state of a service; `None` = it does not exist.
    ///
    /// # Errors
    /// A message.
    pub async fn service(&self, service: &ServiceId) -> Result<Option<SwarmService>, String> {
        let path = format!("/services/{}", http::encoded(&service.0));
        let answer = self.http.get(&path).await?;
        if answer.status == 404 {
            return Ok(None);
        }
        Ok(read::service(&answer.succeeded()?))
    }
}

fn outcome(answer: &HttpResponse) -> ChangeOutcome {
    let message = answer.message();
    match answer.status {
        200..300 => ChangeOutcome::Done,
        404 => ChangeOutcome::Gone,
        // Swarm reports a failed compare-and-swap as 500, newer engines as 409 or 400.
        _ if message.contains("out of sequence") => ChangeOutcome::OutOfDate,
        400..500 => ChangeOutcome::Refused(message),
        _ => ChangeOutcome::Unknown(message),
    }
}
