//! A container as parsed from the engine's `inspect`, with the properties that the daemon needs.

use super::EngineName;
use super::log_pieces::LogFormat;
use bollard::models::{
    ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, DeviceRequest, HostConfig, MountPoint,
};
use model::time::unix_nanos;
use model::{ContainerId, EngineLimits, Parameter, TrainingId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// NVIDIA's legacy hook of Podman, where it is installed.
const PODMAN_HOOKS: [&str; 2] =
    ["/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json", "/etc/containers/oci/hooks.d/oci-nvidia-hook.json"];

/// A running or paused container as described by the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineContainer {
    /// Full id.
    pub id: ContainerId,
    /// Name without the leading slash.
    pub name: String,
    /// Image, as its user named it.
    pub image: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// First process, in the PID namespace of this machine.
    pub pid: u32,
    /// Start time, Unix time in milliseconds; 0 if the engine does not report it.
    pub started_unix_ms: u64,
    /// Creation time, Unix time in milliseconds; 0 if the engine does not report it.
    pub created_unix_ms: u64,
    /// Whether it is frozen by `docker pause`.
    pub paused: bool,
    /// Source of its output.
    pub log: LogSource,
    /// How the logs API sends its output.
    pub log_format: LogFormat,
    /// Bind mounts and volumes.
    pub mounts: Vec<EngineMount>,
    /// Limits in the units of the engine.
    pub limits: EngineLimits,
    /// An update through the engine or systemd can remove its GPUs (legacy NVIDIA hook), so limits are written to its cgroup instead.
    pub gpu_hook: bool,
    /// The engine periodically runs a command in it, which fails while the container is frozen.
    pub has_health_check: bool,
    /// Identifies its training, by image and command.
    pub training: TrainingId,
    /// The numbers in its command.
    pub parameters: Vec<Parameter>,
    /// How often its engine has restarted it since it was last started by somebody.
    pub restarts: u32,
}

/// What the engine knows about the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineEnd {
    /// The exit code.
    pub exit_code: i32,
    /// The kernel killed a process in it for memory.
    pub out_of_memory: bool,
}

/// One entry of the engine's list of containers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Listed {
    /// Full id.
    #[serde(rename = "Id")]
    pub id: ContainerId,
    #[serde(rename = "Names")]
    names: Option<Vec<String>>,
    #[serde(rename = "State")]
    state: Option<String>,
}

impl Listed {
    /// Whether it is running or paused.
    pub(super) fn lives(&self) -> bool {
        matches!(self.state.as_deref(), Some("running" | "paused"))
    }

    /// Whether the entry matches what is already known, as far as it goes: it does not include the start time.
    pub(super) fn agrees_with(&self, known: &EngineContainer) -> bool {
        let state = if known.paused { "paused" } else { "running" };
        let is_name = |name: &String| name.strip_prefix('/').unwrap_or(name) == known.name;
        self.state.as_deref() == Some(state) && self.names.iter().flatten().any(is_name)
    }
}

/// The source of a container's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// The engine's json-file, to be followed.
    JsonFile(PathBuf),
    /// Only available through the logs API.
    Api {
        /// Name of the log driver, for messages.
        driver: String,
    },
    /// Not available: the driver `none` stores nothing.
    None,
}

/// One bind mount or volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineMount {
    /// Path on this machine.
    pub source: PathBuf,
    /// Path inside the container.
    pub destination: PathBuf,
}

/// Why an `inspect` response yields no container to govern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotGoverned {
    /// It has ended, or has not started.
    NotRunning,
    /// The response lacks a field that every running container has.
    Lacks(&'static str),
}

impl EngineContainer {
    /// Whether it has this label, given as `key=value`.
    pub fn has_label(&self, label: &str) -> bool {
        let (key, value) = label.split_once('=').unwrap_or((label, ""));
        self.labels.get(key).is_some_and(|has| has == value)
    }

    /// Parses an `inspect` response. Podman's `json-file` has a different format, so its logs are read through the API.
    pub(super) fn from_inspect(found: ContainerInspectResponse, engine: EngineName) -> Result<Self, NotGoverned> {
        let state = found.state.unwrap_or_default();
        if state.running != Some(true) && state.paused != Some(true) {
            return Err(NotGoverned::NotRunning);
        }
        let pid = match state.pid {
            Some(pid) if pid > 0 => u32::try_from(pid).map_err(|_| NotGoverned::Lacks("a valid State.Pid"))?,
            _ => return Err(NotGoverned::NotRunning),
        };
        let id = found.id.filter(|id| is_container_id(id)).ok_or(NotGoverned::Lacks("a valid Id"))?;
        let host = found.host_config.unwrap_or_default();
        let config = found.config.unwrap_or_default();
        let words = config.image.iter().chain(&found.path).chain(found.args.iter().flatten());
        let training = TrainingId::of(words.map(String::as_str));
        let parameters = Parameter::all(found.args.iter().flatten().map(String::as_str));
        let has_podman_hook = engine == EngineName::Podman
            && asks_podmans_hook(config.env.as_deref().unwrap_or_default())
            && PODMAN_HOOKS.iter().any(|hook| Path::new(hook).exists());
        let check = config.healthcheck.and_then(|check| check.test).unwrap_or_default();
        Ok(EngineContainer {
            parameters,
            image: config.image.unwrap_or_default(),
            name: plain_name(found.name.as_deref().unwrap_or(&id)),
            labels: config.labels.unwrap_or_default().into_iter().collect(),
            pid,
            started_unix_ms: unix_ms(state.started_at.as_deref()),
            created_unix_ms: unix_ms(found.created.as_deref()),
            paused: state.paused == Some(true),
            log: log_source(&host, found.log_path.as_deref().unwrap_or(""), engine),
            log_format: LogFormat { tty: config.tty == Some(true), engine },
            mounts: found.mounts.unwrap_or_default().into_iter().filter_map(mount).collect(),
            limits: limits(&host),
            gpu_hook: has_gpu_hook(&host) || has_podman_hook,
            id: ContainerId::new(&id),
            restarts: found.restart_count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
            has_health_check: check.first().is_some_and(|first| first != "NONE"),
            training,
        })
    }
}

/// Returns the end of a container that has ended, even if the engine is about to start it again. Podman recreates it then, and reports
/// code 0 until its start.
pub(super) fn end(state: &ContainerState) -> Option<EngineEnd> {
    let has_ended = state.pid == Some(0) && state.status != Some(ContainerStateStatusEnum::CREATED);
    let exit_code = state.exit_code.filter(|_| has_ended).and_then(|code| i32::try_from(code).ok())?;
    Some(EngineEnd { exit_code, out_of_memory: state.oom_killed == Some(true) })
}

fn unix_ms(time: Option<&str>) -> u64 {
    time.and_then(unix_nanos).unwrap_or(0) / 1_000_000
}

/// Whether a text is a valid container id. Ids are used in request paths, so nothing else is accepted.
pub(super) fn is_container_id(text: &str) -> bool {
    (12..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a text is a valid container name, by the rule of Docker and Podman. Names are used in request paths too.
pub(super) fn is_container_name(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && text.len() <= 255 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

/// Removes the leading slash of a name such as `/train`.
pub(super) fn plain_name(name: &str) -> String {
    name.strip_prefix('/').unwrap_or(name).to_owned()
}

fn log_source(host: &HostConfig, path: &str, engine: EngineName) -> LogSource {
    let driver = host.log_config.as_ref().and_then(|log| log.typ.clone()).unwrap_or_default();
    match driver.as_str() {
        "none" => LogSource::None,
        "json-file" if engine == EngineName::Docker && path.starts_with('/') => {
            LogSource::JsonFile(PathBuf::from(path))
        }
        _ => LogSource::Api { driver },
    }
}

fn mount(point: MountPoint) -> Option<EngineMount> {
    let (source, destination) = (point.source?, point.destination?);
    let absolute = source.starts_with('/') && destination.starts_with('/');
    absolute.then(|| EngineMount { source: source.into(), destination: destination.into() })
}

pub(super) fn limits(host: &HostConfig) -> EngineLimits {
    EngineLimits {
        cpu_shares: host.cpu_shares.unwrap_or(0),
        nano_cpus: host.nano_cpus.unwrap_or(0),
        cpu_quota: host.cpu_quota.unwrap_or(0),
        cpu_period: host.cpu_period.unwrap_or(0),
        memory: host.memory.unwrap_or(0),
        memory_reservation: host.memory_reservation.unwrap_or(0),
        blkio_weight: host.blkio_weight.map_or(0, i64::from),
    }
}

/// The hook changes the device cgroup without the engine's knowledge, so an `update` that rewrites it removes the GPUs.
fn has_gpu_hook(host: &HostConfig) -> bool {
    let asks_for_gpu = |request: &DeviceRequest| {
        let driver = request.driver.as_deref().unwrap_or("");
        let capabilities = request.capabilities.iter().flatten().flatten();
        matches!(driver, "" | "nvidia") && capabilities.into_iter().any(|capability| capability == "gpu")
    };
    host.runtime.as_deref() == Some("nvidia") || host.device_requests.iter().flatten().any(asks_for_gpu)
}

/// Whether Podman's hook, where installed, gives the container GPUs: it acts on a variable, which most CUDA images set.
fn asks_podmans_hook(env: &[String]) -> bool {
    let mut gpus = env.iter().filter_map(|variable| variable.strip_prefix("NVIDIA_VISIBLE_DEVICES="));
    gpus.any(|gpus| !matches!(gpus, "" | "none" | "void"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: &str = "449e1d56655b86cfb98f8a89e3609ecfab2019fc1609fbc25ceea3c54f9cbd3c";

    fn parsed(changes: serde_json::Value) -> Result<EngineContainer, NotGoverned> {
        let mut answer = json!({
            "Id": ID, "Name": "/train", "Created": "1970-01-01T00:00:00.5Z",
            "State": {"Running": true, "Paused": false, "Pid": 4711, "StartedAt": "1970-01-01T00:00:01.5Z"},
            "LogPath": "/var/lib/docker/x-json.log",
            "Config": {"Labels": {"flowcon.enable": "true"}, "Tty": false},
            "HostConfig": {"LogConfig": {"Type": "json-file"}, "CpuShares": 777, "Runtime": "runc", "CgroupParent": ""},
            "Mounts": [{"Type": "bind", "Source": "/data", "Destination": "/logs"}],
        });
        merge(&mut answer, changes);
        EngineContainer::from_inspect(serde_json::from_value(answer).unwrap(), EngineName::Docker)
    }

    fn merge(base: &mut serde_json::Value, changes: serde_json::Value) {
        match (base, changes) {
            (serde_json::Value::Object(base), serde_json::Value::Object(changes)) => {
                for (key, change) in changes {
                    merge(base.entry(key).or_insert(serde_json::Value::Null), change);
                }
            }
            (base, change) => *base = change,
        }
    }

    #[test]
    fn every_property_of_a_running_container_is_parsed() {
        let container = parsed(json!({})).unwrap();
        assert_eq!(container.name, "train");
        assert_eq!((container.pid, container.paused), (4711, false));
        assert_eq!((container.created_unix_ms, container.started_unix_ms), (500, 1_500));
        assert_eq!(container.log, LogSource::JsonFile("/var/lib/docker/x-json.log".into()));
        assert_eq!(container.limits, EngineLimits { cpu_shares: 777, ..EngineLimits::default() });
        assert_eq!(container.mounts, [EngineMount { source: "/data".into(), destination: "/logs".into() }]);
        assert!(!container.gpu_hook);
    }

    #[test]
    fn a_container_that_ended_or_has_no_process_is_not_governed() {
        assert_eq!(parsed(json!({"State": {"Running": false, "Pid": 0}})), Err(NotGoverned::NotRunning));
        assert_eq!(parsed(json!({"State": {"Pid": 0}})), Err(NotGoverned::NotRunning));
        assert_eq!(parsed(json!({"State": null})), Err(NotGoverned::NotRunning));
    }

    #[test]
    fn only_a_container_without_a_process_has_an_end() {
        let end = |state: serde_json::Value| end(&serde_json::from_value(state).unwrap());
        let killed = end(json!({"Running": false, "Pid": 0, "ExitCode": 137, "OOMKilled": true}));
        assert_eq!(killed, Some(EngineEnd { exit_code: 137, out_of_memory: true }));
        let of = |state: serde_json::Value| end(state).map(|end| end.exit_code);
        assert_eq!(of(json!({"Running": false, "Pid": 0, "ExitCode": 3})), Some(3));
        assert_eq!(of(json!({"Running": true, "Restarting": true, "Pid": 0, "ExitCode": 1})), Some(1));
        assert_eq!(of(json!({"Running": true, "Pid": 4711, "ExitCode": 0})), None);
        assert_eq!(of(json!({"Status": "created", "Running": false, "Pid": 0, "ExitCode": 0})), None);
        assert_eq!(of(json!({"ExitCode": 0})), None);
    }

    #[test]
    fn an_id_that_could_change_a_request_path_is_rejected() {
        assert!(matches!(parsed(json!({"Id": "../../info?x=0123456789"})), Err(NotGoverned::Lacks(_))));
    }

    #[test]
    fn the_log_source_follows_driver_and_path() {
        let driver = |name: &str| parsed(json!({"HostConfig": {"LogConfig": {"Type": name}}})).unwrap().log;
        assert_eq!(driver("none"), LogSource::None);
        assert_eq!(driver("local"), LogSource::Api { driver: "local".into() });
        assert_eq!(parsed(json!({"LogPath": ""})).unwrap().log, LogSource::Api { driver: "json-file".into() });
    }

    #[test]
    fn gpus_of_the_legacy_hook_are_detected_and_cdi_devices_are_not() {
        let gpu =
            |driver: &str| json!({"HostConfig": {"DeviceRequests": [{"Driver": driver, "Capabilities": [["gpu"]]}]}});
        assert!(parsed(json!({"HostConfig": {"Runtime": "nvidia"}})).unwrap().gpu_hook);
        assert!(parsed(gpu("")).unwrap().gpu_hook);
        assert!(parsed(gpu("nvidia")).unwrap().gpu_hook);
        assert!(!parsed(gpu("cdi")).unwrap().gpu_hook);
    }

    #[test]
    fn gpus_of_podmans_hook_are_detected_by_the_variable_that_names_them() {
        let asks = |variable: &str| asks_podmans_hook(&["PATH=/bin".to_owned(), variable.to_owned()]);
        assert!(asks("NVIDIA_VISIBLE_DEVICES=all") && asks("NVIDIA_VISIBLE_DEVICES=0,1"));
        assert!(!asks("NVIDIA_VISIBLE_DEVICES=") && !asks("NVIDIA_VISIBLE_DEVICES=void") && !asks("A=all"));
    }
}
