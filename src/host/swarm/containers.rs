//! Containers of Swarm services on this node, and the location of their volumes.

use super::Engine;
use super::http::encoded;
use model::swarm::{Attestation, ServiceId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The label of containers of Swarm services, with the id of the service.
pub const SERVICE_LABEL: &str = "com.docker.swarm.service.id";
/// Maximum number of attempts to kill all processes of a container, which may fork meanwhile.
const KILLS: usize = 20;
const BETWEEN_KILLS: std::time::Duration = std::time::Duration::from_millis(50);
const TASK: &str = "com.docker.swarm.task.id";

/// A container of a service on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalWorker {
    /// Id of the container.
    pub container: Arc<str>,
    /// Its service.
    pub service: ServiceId,
    /// Its task.
    pub task: Arc<str>,
    /// Whether its process has been started, as opposed to a container that was only created.
    pub has_started: bool,
    /// Whether it has ended according to its engine.
    pub has_ended: bool,
}

/// A volume as found on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundVolume {
    /// On this node's disk.
    Local(VolumePlace),
    /// Created with another driver or with options, such as those of NFS.
    Other,
    /// There is no such volume.
    Missing,
}

/// Location of a local volume on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlace {
    /// The directory that containers see.
    pub data: PathBuf,
    /// Services whose containers mount it; `None` for a container without a service.
    pub users: BTreeSet<Option<ServiceId>>,
    /// Containers that have not ended and can write to it: their services and names.
    pub writers: Vec<(Option<ServiceId>, Arc<str>)>,
}

impl Engine {
    /// Returns the containers of services on this node, including ended ones.
    ///
    /// # Errors
    /// A message.
    pub async fn workers(&self) -> Result<Vec<LocalWorker>, String> {
        Ok(self.containers(Some(SERVICE_LABEL)).await?.iter().filter_map(worker).collect())
    }

    /// Whether anything of a service is alive here, according to the engine, and to the processes of containers that the engine reports as
    /// ended.
    pub async fn attest(&self, service: &ServiceId) -> Attestation {
        let containers = match self.containers(Some(&format!("{SERVICE_LABEL}={service}"))).await {
            Ok(containers) => containers,
            Err(error) => return Attestation::Unknown(error),
        };
        let workers: Vec<LocalWorker> = containers.iter().filter_map(worker).collect();
        if workers.len() < containers.len() {
            return Attestation::Unknown("the engine listed a container without an id".to_owned());
        }
        let (ended, alive): (Vec<_>, Vec<_>) = workers.into_iter().partition(|worker| worker.has_ended);
        let ended: Vec<Arc<str>> = ended.into_iter().map(|worker| worker.container).collect();
        let living = tokio::task::spawn_blocking(move || processes(&ended).map(|living| living.len())).await;
        match living {
            Ok(Ok(0)) if alive.is_empty() => Attestation::Gone,
            Ok(Ok(living)) => Attestation::Alive(alive.len() + living),
            Ok(Err(error)) => Attestation::Unknown(format!("cannot read /proc: {error}")),
            Err(error) => Attestation::Unknown(error.to_string()),
        }
    }

    /// Creates a volume with these labels, unless it exists.
    ///
    /// # Errors
    /// A message.
    pub async fn make_volume(&self, name: &str, labels: &BTreeMap<Arc<str>, Arc<str>>) -> Result<(), String> {
        let labels: BTreeMap<&str, &str> = labels.iter().map(|(label, value)| (&**label, &**value)).collect();
        self.http.post("/volumes/create", &json!({"Name": name, "Labels": labels})).await?.succeeded().map(drop)
    }

    /// Looks up a volume.
    ///
    /// # Errors
    /// A message: the engine does not respond, or reports an error.
    pub async fn volume(&self, name: &str) -> Result<FoundVolume, String> {
        let answer = self.http.get(&format!("/volumes/{}", encoded(name))).await?;
        if answer.status == 404 {
            return Ok(FoundVolume::Missing);
        }
        let volume = answer.succeeded()?;
        let is_plain = volume["Options"].as_object().is_none_or(serde_json::Map::is_empty);
        if volume["Driver"].as_str() != Some("local") || !is_plain {
            return Ok(FoundVolume::Other);
        }
        let data = volume["Mountpoint"].as_str().filter(|path| path.starts_with('/'));
        let data =
            PathBuf::from(data.ok_or_else(|| format!("the engine does not report the location of the volume {name}"))?);
        let (mut users, mut writers) = (BTreeSet::new(), Vec::new());
        for container in self.containers(None).await? {
            let mounts = container["Mounts"].as_array().map_or(&[][..], Vec::as_slice);
            // A bind mount may name the directory of the volume. One above it is that of a tool, such as an agent in a container.
            let is_it = |mount: &&Value| {
                let bound = mount["Source"].as_str().filter(|_| mount["Type"].as_str() == Some("bind"));
                mount["Name"].as_str() == Some(name) || bound.is_some_and(|source| Path::new(source).starts_with(&data))
            };
            let service = container["Labels"][SERVICE_LABEL].as_str().map(|id| ServiceId(id.into()));
            if mounts.iter().any(|mount| mount["Name"].as_str() == Some(name)) {
                users.insert(service.clone());
            }
            let can_write = mounts.iter().filter(is_it).any(|mount| mount["RW"].as_bool() != Some(false));
            if can_write && !has_ended(&container) {
                let named = container["Names"][0].as_str().map(|name| name.trim_start_matches('/'));
                writers.push((service, named.or(container["Id"].as_str()).unwrap_or_default().into()));
            }
        }
        Ok(FoundVolume::Local(VolumePlace { data, users, writers }))
    }

    /// Stops a container: SIGTERM, then SIGKILL after `grace_s` seconds.
    ///
    /// # Errors
    /// A message.
    pub async fn stop(&self, container: &str, grace_s: u64) -> Result<(), String> {
        let path = format!("/containers/{}/stop?t={grace_s}", encoded(container));
        let answer = self.http.post(&path, &Value::Null).await?;
        // 304: already stopped.
        if matches!(answer.status, 304 | 404) { Ok(()) } else { answer.succeeded().map(drop) }
    }

    /// Kills every process of a container without its engine. Returns whether none is left.
    pub fn kill_processes(&self, container: &str) -> bool {
        for _try in 0..KILLS {
            match processes(&[container.into()]) {
                Ok(living) if living.is_empty() => return true,
                Ok(living) => living.into_iter().for_each(|process| {
                    // Fails if the process has ended meanwhile.
                    let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
                }),
                Err(_) => return false,
            }
            std::thread::sleep(BETWEEN_KILLS);
        }
        false
    }

    async fn containers(&self, label: Option<&str>) -> Result<Vec<Value>, String> {
        let filter = label
            .map_or_else(String::new, |label| format!("&filters={}", encoded(&json!({"label": [label]}).to_string())));
        self.list(&format!("/containers/json?all=1{filter}")).await
    }
}

fn worker(container: &Value) -> Option<LocalWorker> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(Arc::<str>::from);
    Some(LocalWorker {
        container: text(&container["Id"])?,
        service: ServiceId(text(&container["Labels"][SERVICE_LABEL])?),
        task: text(&container["Labels"][TASK]).unwrap_or_default(),
        has_started: container["State"].as_str() != Some("created"),
        has_ended: has_ended(container),
    })
}

/// Whether a container has ended: `created` is about to start, and `removing` may not have ended yet.
fn has_ended(container: &Value) -> bool {
    matches!(container["State"].as_str(), Some("exited" | "dead"))
}

/// Returns the processes in the cgroups of these containers.
fn processes(containers: &[Arc<str>]) -> std::io::Result<Vec<rustix::process::Pid>> {
    let mut living = Vec::new();
    if containers.is_empty() {
        return Ok(living);
    }
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(process) = number.and_then(rustix::process::Pid::from_raw) else { continue };
        let cgroup = match fs::read_to_string(entry.path().join("cgroup")) {
            Ok(cgroup) => cgroup,
            Err(error) if has_just_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        if !containers.iter().any(|id| cgroup.contains(id.as_ref())) {
            continue;
        }
        // A zombie cannot write anything.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next().map(str::to_owned));
        if !matches!(state.as_deref(), None | Some("Z" | "X")) {
            living.push(process);
        }
    }
    Ok(living)
}

/// Whether there is no such file or process. If access is denied, the process may exist.
fn has_just_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}
