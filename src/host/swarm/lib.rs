//! Docker Swarm through the Unix socket of one engine: reading the state, and applying single changes.
//!
//! JSON is read and edited as JSON, not through the closed types of a library: a service's spec is written back with all of its fields,
//! including unknown ones. Each request has its own connection, a deadline set by the caller, and a limited response.

mod certificates;
mod containers;
mod http;
mod output;
mod read;
mod sight;
mod write;

pub use certificates::{CertificateError, Certificates, Identity, Peer, Role, peer_of};
pub use containers::{FoundVolume, LocalWorker, SERVICE_LABEL, VolumePlace};

use http::{Http, HttpResponse};
use model::Refusal;
use model::cluster::Submission;
use model::swarm::{ChangeOutcome, NodeChange, NodeId, ServiceChange, ServiceId, Swarm, SwarmService, SwarmTask};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// The label that makes a service a job; services without it are not read.
const QUEUE_LABEL: &str = "flowcon.queue";

/// The label of the services of a gang, and of their network.
const GANG_LABEL: &str = "flowcon.gang";

/// Number of services in one request for their tasks: with their ids, its URL has about 4 KB.
const SERVICES_PER_REQUEST: usize = 100;

/// With more services, the tasks of all services are read in one request, because the engine looks up each service that a request names.
const SERVICES_BY_ID: usize = 500;

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

    /// Reads the state of the Swarm with a few requests in quick succession.
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
        let services = self.list(&format!("/services{filter}")).await?;
        let mut services: Vec<SwarmService> = services.iter().filter_map(read::service).collect();
        services.sort_by(|one, other| one.id.cmp(&other.id));
        let tasks = self.tasks(&services).await?;
        // Tasks of all services; a task of a Swarm job has the desired state `complete`.
        let wanted = http::encoded("{\"desired-state\":[\"running\",\"complete\"]}");
        let wanted = self.list(&format!("/tasks?filters={wanted}")).await?;
        let nodes = self.list("/nodes").await?;
        let is_leader = nodes.iter().any(|node| read::leads(node, &reported_by));
        let mut swarm = Swarm {
            cluster: info.cluster.unwrap_or_default(),
            reported_by: Some(reported_by),
            is_leader,
            nodes: nodes.iter().filter_map(read::node).collect(),
            services,
            tasks,
        };
        swarm.nodes.sort_by(|one, other| one.id.cmp(&other.id));
        let is_job = |of: &ServiceId| holds(&swarm.services, of);
        for (node, _, reserved) in wanted.iter().filter_map(read::reservation).filter(|(_, of, _)| !is_job(of)) {
            if let Ok(at) = swarm.nodes.binary_search_by(|known| known.id.cmp(&node)) {
                swarm.nodes[at].reserved = swarm.nodes[at].reserved.with(reserved);
            }
        }
        Ok(swarm)
    }

    /// Reads all tasks of these services, which are ordered by id, including past tasks. Swarm's filter by label does not find tasks that
    /// are older than the label: it compares the labels that the service had when the task was created.
    async fn tasks(&self, services: &[SwarmService]) -> Result<Vec<SwarmTask>, String> {
        let mut documents = Vec::new();
        for path in task_paths(services) {
            let answer = self.http.get(&path).await?;
            if answer.status == 404 {
                // A service was removed since they were listed.
                documents = self.list("/tasks").await?;
                break;
            }
            documents.extend(listed(answer, &path)?);
        }
        let tasks = documents.iter().filter_map(read::task).filter(|task| holds(services, &task.service));
        let mut tasks: Vec<SwarmTask> = tasks.collect();
        tasks.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(tasks)
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, String> {
        listed(self.http.get(path).await?, path)
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

    /// Creates a network for the services of a gang, across all nodes; none if there is one with this name. It has the label of the gang.
    ///
    /// # Errors
    /// A message.
    pub async fn create_network(&self, name: &str, gang: &str) -> Result<(), String> {
        let network = json!({"Name": name, "Driver": "overlay", "Attachable": true, "Labels": {GANG_LABEL: gang}});
        let answer = self.http.post("/networks/create", &network).await?;
        if answer.status == 409 { Ok(()) } else { answer.succeeded().map(drop) }
    }

    /// Removes the networks of gangs that no service uses.
    ///
    /// # Errors
    /// A message.
    pub async fn remove_unused_networks(&self) -> Result<(), String> {
        let filter = http::encoded(&json!({"label": [GANG_LABEL]}).to_string());
        self.http.post(&format!("/networks/prune?filters={filter}"), &Value::Null).await?.succeeded().map(drop)
    }

    /// Returns the names of the variables that an image sets; none if the image is not on this node.
    ///
    /// # Errors
    /// A message: the engine does not respond.
    pub async fn variables_of(&self, image: &str) -> Result<BTreeSet<String>, String> {
        let answer = self.http.get(&format!("/images/{}/json", http::encoded(image))).await?;
        let variables = answer.body["Config"]["Env"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(variables.filter_map(|variable| Some(variable.split_once('=')?.0.to_owned())).collect())
    }

    /// Removes a service.
    ///
    /// # Errors
    /// A message.
    pub async fn remove(&self, service: &ServiceId) -> Result<(), String> {
        let answer = self.http.delete(&format!("/services/{}", http::encoded(&service.0))).await?;
        if answer.status == 404 { Ok(()) } else { answer.succeeded().map(drop) }
    }

    /// Reads all services of the Swarm, including those that are no jobs.
    ///
    /// # Errors
    /// A message.
    pub async fn services(&self) -> Result<Vec<SwarmService>, String> {
        Ok(self.list("/services").await?.iter().filter_map(read::service).collect())
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

fn listed(answer: HttpResponse, path: &str) -> Result<Vec<Value>, String> {
    match answer.succeeded()? {
        Value::Array(list) => Ok(list),
        _ => Err(format!("invalid response of the engine to {path}: not a list")),
    }
}

/// Whether a service is one of these, which are ordered by id.
fn holds(services: &[SwarmService], id: &ServiceId) -> bool {
    services.binary_search_by(|service| service.id.cmp(id)).is_ok()
}

/// Returns the paths at which the tasks of these services are listed.
fn task_paths(services: &[SwarmService]) -> Vec<String> {
    if services.len() > SERVICES_BY_ID {
        return vec!["/tasks".to_owned()];
    }
    let path = |services: &[SwarmService]| {
        let ids: Vec<&str> = services.iter().map(|service| &*service.id.0).collect();
        format!("/tasks?filters={}", http::encoded(&json!({ "service": ids }).to_string()))
    };
    services.chunks(SERVICES_PER_REQUEST).map(path).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    fn service(id: &str) -> Value {
        let spec = json!({"Name": id, "Labels": {QUEUE_LABEL: "true"}, "Mode": {"Replicated": {"Replicas": 1}}});
        json!({"ID": id, "Version": {"Index": 1}, "Spec": spec})
    }

    fn task(id: &str, service: &str, desired: &str) -> Value {
        let spec = json!({"Resources": {"Reservations": {"NanoCPUs": 1_000_000_000}}});
        json!({"ID": id, "ServiceID": service, "NodeID": "n", "DesiredState": desired, "Status": {"State": "running"}, "Spec": spec})
    }

    /// An engine with the service `s`, which got its label after its tasks were created, and the service `other` without the label.
    fn reply(path: &str, is_removed: bool) -> (u16, Value) {
        let own = [task("t1", "s", "running"), task("t0", "s", "shutdown")];
        let other = task("t2", "other", "running");
        let body = match path.split_once('?') {
            None if path == "/info" => {
                json!({"DockerRootDir": "/data", "Swarm": {"NodeID": "n", "ControlAvailable": true}})
            }
            None if path == "/nodes" => {
                json!([{"ID": "n", "Version": {"Index": 1}, "Spec": {}, "Status": {"State": "ready"}, "Description": {}}])
            }
            None => json!([own[0], other, own[1]]),
            Some(("/services", _)) => json!([service("s")]),
            Some((_, filters)) if filters.contains("desired") => json!([own[0], other]),
            Some((_, filters)) if filters.contains("label") => json!([]),
            Some(_) if is_removed => return (404, json!({"message": "service x not found"})),
            Some(_) => json!(own),
        };
        (200, body)
    }

    async fn serve(listener: &UnixListener, is_removed: bool) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0, "a whole request");
            }
            let request = String::from_utf8(request).unwrap();
            let (status, body) = reply(request.split(' ').nth(1).unwrap(), is_removed);
            let (body, head) = (body.to_string(), format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n"));
            let response = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_tasks_of_a_service_are_read_even_if_they_are_older_than_its_label() {
        for is_removed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let socket = folder.path().join("engine.sock");
            let listener = UnixListener::bind(&socket).unwrap();
            let engine = Engine::at(socket.to_str()).unwrap();
            let swarm = tokio::select! {
                swarm = engine.look() => swarm.unwrap(),
                () = serve(&listener, is_removed) => panic!("the engine has stopped"),
            };
            let read: Vec<(&str, bool)> = swarm.tasks.iter().map(|task| (&*task.id, task.is_wanted)).collect();
            assert_eq!(read, [("t0", false), ("t1", true)]);
            assert_eq!(swarm.nodes[0].reserved.cores, 1.0, "the reservation of the service that is not a job");
        }
    }

    #[test]
    fn tasks_are_requested_by_service_in_short_urls_unless_there_are_many() {
        let services = |count: usize| -> Vec<SwarmService> {
            (0..count).filter_map(|number| read::service(&service(&format!("{number:025}")))).collect()
        };
        assert!(task_paths(&services(0)).is_empty());
        let paths = task_paths(&services(201));
        assert_eq!(paths.len(), 3);
        assert!(paths.iter().all(|path| path.len() < 4096));
        let last = http::encoded(&format!("{{\"service\":[\"{:025}\"]}}", 200));
        assert_eq!(paths[2], format!("/tasks?filters={last}"));
        assert_eq!(task_paths(&services(SERVICES_BY_ID + 1)), ["/tasks"]);
    }
}
