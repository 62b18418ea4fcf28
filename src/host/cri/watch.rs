//! Keeps the daemon's list of workloads correct, by listing them every two seconds.
//!
//! CRI's events came with containerd 1.7 and are optional in CRI-O; a list of a node's pods costs a millisecond, one of containerd's
//! labelled containers as well. A container is described once, when it is first listed as running. The watcher runs until the receiver is
//! dropped.

use super::messages::Request;
use super::workload::{ContainerEnd, MainContainer, Workload};
use super::{Cri, CriError, RuntimeVersion, containerd};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

const LIST_EVERY: Duration = Duration::from_secs(2);
/// An unchanged list is reported again after so many lists.
const REPORT_EVERY: u32 = 15;
const BACK_OFF: Duration = Duration::from_secs(5);

/// Events from the watcher to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadEvent {
    /// Connected or reconnected. A [`WorkloadEvent::Listed`] follows.
    Connected(RuntimeVersion),
    /// The connection was lost or could not be established; sent once until the next `Connected`. The message includes the next step.
    Lost(String),
    /// All wanted workloads that run. One that is missing has ended.
    Listed(Vec<Workload>),
    /// The container of the workload with this id has ended, as far as the runtime knows how.
    Ended(String, Option<ContainerEnd>),
}

/// The receiver was dropped.
struct ReceiverDropped;

/// Watches the pods and containers with `label`, given as `key=value`, until the receiver of `sender` is dropped.
pub async fn watch(cri: Cri, label: String, sender: mpsc::Sender<WorkloadEvent>) {
    let mut watcher = Watcher { cri, label, sender, known: BTreeMap::new() };
    let mut loss_reported = false;
    loop {
        let mut connected = false;
        let Err(error) = watcher.follow(&mut connected).await else { return };
        if connected || !loss_reported {
            loss_reported = true;
            if watcher.send(WorkloadEvent::Lost(error.to_string())).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = sleep(BACK_OFF) => {}
            () = watcher.sender.closed() => return,
        }
    }
}

struct Watcher {
    cri: Cri,
    label: String,
    sender: mpsc::Sender<WorkloadEvent>,
    /// Workloads as last listed, by id.
    known: BTreeMap<String, Workload>,
}

impl Watcher {
    /// Lists workloads until a call fails; `Ok` if the receiver was dropped.
    async fn follow(&mut self, connected: &mut bool) -> Result<(), CriError> {
        let version = self.cri.version().await?;
        *connected = true;
        if self.send(WorkloadEvent::Connected(version.clone())).await.is_err() {
            return Ok(());
        }
        let mut report_in = 0;
        loop {
            let listed = self.list(&version).await?;
            if listed != self.known || report_in == 0 {
                report_in = REPORT_EVERY;
                if self.report(listed).await.is_err() {
                    return Ok(());
                }
            }
            report_in -= 1;
            tokio::select! {
                () = sleep(LIST_EVERY) => {}
                () = self.sender.closed() => return Ok(()),
            }
        }
    }

    async fn list(&self, runtime: &RuntimeVersion) -> Result<BTreeMap<String, Workload>, CriError> {
        let mut listed = Vec::new();
        if runtime.has_pods {
            self.list_pods(&mut listed).await?;
        }
        if runtime.has_containers() {
            self.list_containers(&mut listed).await?;
        }
        Ok(listed.into_iter().map(|workload| (workload.id.clone(), workload)).collect())
    }

    async fn list_pods(&self, listed: &mut Vec<Workload>) -> Result<(), CriError> {
        for candidate in self.cri.candidates(&self.label).await? {
            let known = self.known.get(&candidate.metadata.uid).filter(|pod| pod.container.id == candidate.container);
            let container: Option<MainContainer> = match known {
                Some(pod) => Some(pod.container.clone()),
                // It may have ended since the list.
                None => match self.cri.container(&candidate.container).await {
                    Err(CriError::Refused { .. }) => None,
                    described => described?,
                },
            };
            listed.extend(container.map(|container| candidate.with(container)));
        }
        Ok(())
    }

    async fn list_containers(&self, listed: &mut Vec<Workload>) -> Result<(), CriError> {
        for (namespace, containers) in self.cri.containers(&self.label).await? {
            if containers.is_empty() {
                continue;
            }
            let tasks = self.cri.tasks(&namespace).await?;
            for container in containers {
                let id = containerd::id_of(&namespace, &container);
                let known = self.known.get(&id).cloned();
                match tasks.get(&container.id) {
                    // One that is left out counts as ended.
                    Some(process) if process.is_unknown() => listed.push(known.ok_or_else(|| self.unknown(&id))?),
                    Some(process) if process.runs() => {
                        let known = known.filter(|known| known.container.pid == process.pid);
                        listed.extend(known.or_else(|| containerd::workload(&namespace, container, process)));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The error that containerd does not know whether a container runs.
    fn unknown(&self, id: &str) -> CriError {
        CriError::Unreachable {
            operation: containerd::ListTasksRequest::METHOD,
            socket: self.cri.socket().to_owned(),
            why: format!("the shim of {id} did not tell its state"),
        }
    }

    async fn report(&mut self, listed: BTreeMap<String, Workload>) -> Result<(), ReceiverDropped> {
        let run = |workload: &Workload| (workload.container.id.clone(), workload.container.pid);
        let runs_on = |known: &Workload| listed.get(&known.id).is_some_and(|now| run(now) == run(known));
        for ended in self.known.values().filter(|known| !runs_on(known)) {
            let end = self.cri.end(ended).await;
            self.send(WorkloadEvent::Ended(ended.id.clone(), end)).await?;
        }
        self.known = listed;
        self.send(WorkloadEvent::Listed(self.known.values().cloned().collect())).await
    }

    async fn send(&self, event: WorkloadEvent) -> Result<(), ReceiverDropped> {
        self.sender.send(event).await.map_err(|_| ReceiverDropped)
    }
}

#[cfg(test)]
mod tests {
    use super::super::grpc::testing::{Answer, Recorded};
    use super::containerd::{
        Any, Container, ListContainersRequest, ListContainersResponse, ListNamespacesRequest, ListNamespacesResponse,
        ListTasksRequest, ListTasksResponse, Namespace, Process,
    };
    use super::*;
    use prost::Message;
    use std::sync::Mutex;

    const LABELLED: u32 = 20;
    const RUNNING: i32 = 2;
    const UNKNOWN: i32 = 0;

    fn answer(message: &impl Message) -> Answer {
        let encoded = message.encode_to_vec();
        let length = u32::try_from(encoded.len()).unwrap().to_be_bytes();
        (&[("grpc-status", "0")], [&[0], &length[..], &encoded].concat().into())
    }

    fn container(id: u32) -> Container {
        let spec = format!(r#"{{"process":{{}},"linux":{{"cgroupsPath":"/jobs/{id}"}}}}"#);
        Container { id: id.to_string(), spec: Some(Any { value: spec.into() }), ..Container::default() }
    }

    /// A containerd with pods, Docker's containers, and labelled ones in the namespace `jobs`, whose tasks have this status.
    fn containerd_with(status: &'static Mutex<i32>, called: &'static Mutex<Vec<String>>) -> Recorded {
        Recorded::start(move |path, namespace| {
            let method = &path[1..];
            called.lock().unwrap().push(format!("{} {namespace}", method.rsplit('.').next().unwrap()));
            if method == ListNamespacesRequest::METHOD {
                let namespaces = [containerd::OF_PODS, "moby", "jobs"].map(|name| Namespace { name: name.into() });
                return answer(&ListNamespacesResponse { namespaces: namespaces.into() });
            }
            let ids = || (1..=LABELLED).filter(|_| namespace == "jobs");
            if method == ListContainersRequest::METHOD {
                return answer(&ListContainersResponse { containers: ids().map(container).collect() });
            }
            assert_eq!(method, ListTasksRequest::METHOD);
            let (status, unlabelled) = (*status.lock().unwrap(), 0);
            let task = |id: u32| Process { id: id.to_string(), pid: id + 1, status, ..Process::default() };
            answer(&ListTasksResponse { tasks: ids().chain([unlabelled]).map(task).collect() })
        })
    }

    fn watcher(of: &Recorded) -> Watcher {
        let (sender, _) = mpsc::channel(1);
        Watcher { cri: Cri::new(&of.socket()), label: "flowcon.enable=true".into(), sender, known: BTreeMap::new() }
    }

    #[tokio::test]
    async fn any_number_of_containers_is_listed_by_four_calls_on_one_connection() {
        static STATUS: Mutex<i32> = Mutex::new(RUNNING);
        static CALLED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let runtime = containerd_with(&STATUS, &CALLED);
        let watcher = watcher(&runtime);
        let lists = 3;
        for _ in 0..lists {
            let mut listed = Vec::new();
            watcher.list_containers(&mut listed).await.unwrap();
            let first = &listed[0];
            assert_eq!((listed.len(), first.id.as_str(), first.container.pid), (LABELLED as usize, "jobs/1", 2));
        }
        let of_a_list = ["Namespaces/List ", "Containers/List moby", "Containers/List jobs", "Tasks/List jobs"];
        assert_eq!(*CALLED.lock().unwrap(), of_a_list.repeat(lists));
        assert_eq!(runtime.connections().await, 1);
    }

    #[tokio::test]
    async fn a_container_whose_state_is_unknown_has_not_ended() {
        static STATUS: Mutex<i32> = Mutex::new(RUNNING);
        static CALLED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let runtime = containerd_with(&STATUS, &CALLED);
        let mut watcher = watcher(&runtime);
        let mut listed = Vec::new();
        watcher.list_containers(&mut listed).await.unwrap();
        *STATUS.lock().unwrap() = UNKNOWN;
        let error = watcher.list_containers(&mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("the shim of jobs/1 did not tell its state"), "{error}");
        watcher.known = listed.iter().map(|workload| (workload.id.clone(), workload.clone())).collect();
        let mut again = Vec::new();
        watcher.list_containers(&mut again).await.unwrap();
        assert_eq!(again, listed);
    }
}
