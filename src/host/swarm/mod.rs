//! Docker Swarm through one engine's Unix socket: what there is, and one change at a time.
//!
//! JSON is read and edited as JSON, not through a library's closed types: a service's spec goes back with every field that it had, also
//! those that nobody here knows. Each request has one connection, a deadline of its caller's, and a bound on its answer. Imports: model.

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
use http::{Answer, Http, HttpError};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// The label that makes a service a job: services without it are not even read.
const QUEUE_LABEL: &str = "flowcon.queue";

/// Where the engine listens unless told otherwise.
const SOCKET: &str = "/var/run/docker.sock";

/// One engine of a Swarm.
#[derive(Clone, Debug)]
pub struct Engine {
    http: Http,
}

/// What an engine tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// Its node's id, if it is in a Swarm.
    pub node: Option<NodeId>,
    /// The address that other nodes reach it at.
    pub address: Arc<str>,
    /// The Swarm's id, which managers know.
    pub cluster: Option<Arc<str>>,
    /// It is a manager.
    pub is_manager: bool,
    /// Where it keeps certificates and volumes.
    pub data: PathBuf,
}

impl Engine {
    /// The engine at `unix:///path`, a path, or the usual place.
    ///
    /// # Errors
    /// An address of another kind.
    pub fn at(address: Option<&str>) -> Result<Engine, String> {
        let address = address.unwrap_or(SOCKET);
        let path = address.strip_prefix("unix://").unwrap_or(address);
        if !path.starts_with('/') {
            return Err(format!(
                "engine = \"{address}\": expected unix:///var/run/docker.sock or another socket's path"
            ));
        }
        Ok(Engine { http: Http::new(PathBuf::from(path)) })
    }

    /// What the engine tells of itself.
    ///
    /// # Errors
    /// In words.
    pub async fn info(&self) -> Result<EngineInfo, String> {
        let answer = self.http.get("/info").await.map_err(|error| error.to_string())?;
        read::info(&answer.succeeded()?)
    }

    /// The Swarm at this instant, as near as five requests can be to one.
    ///
    /// # Errors
    /// The engine does not answer, is in no Swarm, or is no manager; in words, with the next step.
    pub async fn look(&self) -> Result<Swarm, String> {
        let info = self.info().await?;
        let Some(told_by) = info.node else {
            return Err(
                "this engine is in no Swarm; `docker swarm init` or `docker swarm join` makes it one".to_owned()
            );
        };
        if !info.is_manager {
            return Err(
                "this engine is no manager of its Swarm; run flowcoord on a manager, or `docker node promote` it"
                    .to_owned(),
            );
        }
        let filter = format!("?filters={}", http::encoded(&format!("{{\"label\":[\"{QUEUE_LABEL}\"]}}")));
        let tasks = self.list(&format!("/tasks{filter}")).await?;
        // Of all services: their jobs are wanted complete.
        let wanted = http::encoded("{\"desired-state\":[\"running\",\"complete\"]}");
        let wanted = self.list(&format!("/tasks?filters={wanted}")).await?;
        let services = self.list(&format!("/services{filter}")).await?;
        let nodes = self.list("/nodes").await?;
        let is_leader = nodes.iter().any(|node| read::leads(node, &told_by));
        let mut swarm = Swarm {
            cluster: info.cluster.unwrap_or_default(),
            told_by: Some(told_by),
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
        match self.http.get(path).await.map_err(|error| error.to_string())?.succeeded()? {
            Value::Array(list) => Ok(list),
            _ => Err(format!("the engine did not answer {path} with a list")),
        }
    }

    /// Changes a service if it still has the version that was decided on.
    pub async fn change(&self, change: &ServiceChange) -> ChangeOutcome {
        let path = format!("/services/{}", http::encoded(&change.service.0));
        self.swap(&path, change.version, |spec| write::service(spec, change)).await
    }

    /// Changes a node's labels and availability if it still has the version that was decided on.
    pub async fn change_node(&self, change: &NodeChange) -> ChangeOutcome {
        let path = format!("/nodes/{}", http::encoded(&change.node.0));
        self.swap(&path, change.version, |spec| write::node(spec, change)).await
    }

    /// Reads an object, edits its spec, and writes it back under the version that was decided on: compare-and-swap.
    async fn swap(&self, path: &str, version: u64, edit: impl FnOnce(&mut Value)) -> ChangeOutcome {
        let mut object = match self.http.get(path).await {
            Ok(answer) if answer.status == 404 => return ChangeOutcome::Gone,
            Ok(answer) => match answer.succeeded() {
                Ok(object) => object,
                Err(error) => return ChangeOutcome::Unknown(error),
            },
            Err(error) => return ChangeOutcome::Unknown(error.to_string()),
        };
        if read::version(&object) != Some(version) {
            return ChangeOutcome::OutOfDate;
        }
        let mut spec = object["Spec"].take();
        edit(&mut spec);
        match self.http.post(&format!("{path}/update?version={version}"), &spec).await {
            Ok(answer) => outcome(&answer),
            Err(HttpError::Unsent(error)) => ChangeOutcome::Unknown(error),
            Err(error) => ChangeOutcome::Unknown(error.to_string()),
        }
    }

    /// Makes a service with 0 replicas of a submission.
    ///
    /// # Errors
    /// Swarm's refusal in its words.
    pub async fn create(&self, submission: &Submission) -> Result<ServiceId, Refusal> {
        let spec = write::created(submission);
        let answer = self.http.post("/services/create", &spec).await;
        let answer = answer.map_err(|error| Refusal::Failed(error.to_string()))?;
        if !answer.is_success() {
            let message = answer.message();
            return Err(match answer.status {
                409 => Refusal::Refused(message),
                400..500 => Refusal::Invalid(message),
                _ => Refusal::Failed(message),
            });
        }
        let id = answer.body["ID"].as_str().map(|id| ServiceId(id.into()));
        id.ok_or_else(|| Refusal::Failed("Swarm made the service and did not tell its id".to_owned()))
    }

    /// One service as it is now; `None` = there is none.
    ///
    /// # Errors
    /// In words.
    pub async fn service(&self, service: &ServiceId) -> Result<Option<SwarmService>, String> {
        let path = format!("/services/{}", http::encoded(&service.0));
        let answer = self.http.get(&path).await.map_err(|error| error.to_string())?;
        if answer.status == 404 {
            return Ok(None);
        }
        Ok(read::service(&answer.succeeded()?))
    }
}

fn outcome(answer: &Answer) -> ChangeOutcome {
    let message = answer.message();
    match answer.status {
        200..300 => ChangeOutcome::Done,
        404 => ChangeOutcome::Gone,
        // Swarm tells a lost compare-and-swap as 500, newer engines as 409 or 400.
        _ if message.contains("out of sequence") => ChangeOutcome::OutOfDate,
        400..500 => ChangeOutcome::Refused(message),
        _ => ChangeOutcome::Unknown(message),
    }
}
