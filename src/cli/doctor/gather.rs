//! Gathers facts: queries the daemon and the engine, reads `/proc` and `/sys`. Changes nothing.

use super::Check;
use super::judge::{self, Disk, Inotify, Obstacle, Socket, StateDir};
use super::{messages, neighbours};
use api::client::{Client, ClientError, segment};
use api::wire::{Configuration, ContainerDetail, Domain, Status};
use cgroup::{Version, node_pressure};
use config::{EngineChoice, GpuControl, Settings};
use cri::Cri;
use docker::{Engine, EngineAddress, EngineError, EngineInfo, EngineName};
use model::{ContainerId, PolicyName, PolicySettings};
use node::users::{gid_of, uid_of};
use rustix::fs::inotify::{self, CreateFlags};
use rustix::fs::{Access, StatVfsMountFlags};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use term::when;

/// Timeout of the GPU driver; a healthy driver responds within a second or two.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of containers inspected: enough to find a hazard on any machine.
const CONTAINERS_AT_MOST: usize = 200;

/// All checks, in the order in which problems should be fixed.
pub(super) async fn checks(client: &Client, state_dir: Option<&Path>) -> Vec<Check> {
    let daemon = client.get::<Status>("/v1/status").await;
    let settings = settings(client).await;
    let state_dir = state_dir.unwrap_or(&settings.state_dir);
    let mut checks = vec![judge::daemon(&daemon)];
    checks.extend(engine(&settings, &daemon).await);
    checks.extend(judge::driver_of_gpus(daemon.as_ref().ok(), &nvidia(&settings).await));
    if settings.gpu_control == GpuControl::Mps {
        checks.push(judge::mps(&gpu::mps::Mps::of_environment()));
    }
    checks.extend(cgroups());
    let effect = daemon.as_ref().ok().and_then(|status| status.node.weights_effect);
    checks.extend(judge::weights(node::loaded_scheduler().as_deref(), effect));
    if settings.policy.policy != PolicyName::Fair {
        let domains = domains(client, daemon.as_ref().ok()).await;
        checks.extend(weak_limits(&settings.policy, &domains));
        if let Ok(daemon) = &daemon {
            checks.extend(neighbours_of(&domains, daemon).await);
            checks.extend(judge::threads(&daemon.containers));
        }
    }
    checks.extend(messages::check(&settings, client.socket(), Path::new("/proc"), when::now_unix_ms()));
    checks.push(judge::pressure(&node_pressure(), &settings.policy));
    checks.push(judge::inotify(&inotify()));
    checks.push(judge::permissions(&socket(&settings, &daemon)));
    checks.push(judge::state_dir(state_dir, &inspect(state_dir)));
    checks
}

/// The settings of the running daemon, or else those that a daemon would load here.
async fn settings(client: &Client) -> Settings {
    let configuration = client.get::<Configuration>("/v1/config").await.ok();
    let current = configuration.and_then(|configuration| config::from_text(&configuration.toml).ok());
    current.unwrap_or_else(|| super::super::config::load(None).unwrap_or_default())
}

async fn engine(settings: &Settings, daemon: &Result<Status, ClientError>) -> Vec<Check> {
    let has_daemon = !matches!(daemon, Err(ClientError::Unreachable { .. }));
    let address = match &settings.engine {
        EngineChoice::Off => return Vec::new(),
        EngineChoice::Pods(socket) => return vec![judge::pods(&Cri::new(socket).version().await)],
        EngineChoice::At(address) => EngineAddress::from_config(Some(address)),
        // The DOCKER_HOST of this user is not that of the daemon.
        EngineChoice::Auto if has_daemon => Ok(EngineAddress::default()),
        EngineChoice::Auto => EngineAddress::from_config(None),
    };
    let engine = match address {
        Ok(address) => Engine::new(address),
        Err(error) => return vec![judge::bad_address(&error.to_string())],
    };
    match engine.info().await {
        Err(error) => {
            let reported = daemon.as_ref().ok().and_then(|status| status.node.runtimes.first());
            vec![judge::no_engine(&error, obstacle(engine.address()), reported.map(String::as_str))]
        }
        Ok(info) => {
            let mut checks = vec![judge::engine(&info), judge::driver(&info), judge::log_driver(&info)];
            checks.push(judge::gpus(has_nvidia(), &gpu_containers(&engine, &info, &settings.label).await, &info));
            // Some are adopted and have no label.
            let governed = daemon.iter().flat_map(|status| &status.containers).map(|job| ContainerId::new(&job.id));
            let governed: Vec<ContainerId> = governed.collect();
            let mislabelled = engine.mislabelled(&settings.label).await.map(|mut found| {
                found.retain(|container| !governed.contains(&container.id));
                found
            });
            checks.extend(judge::labels(&mislabelled));
            if info.name == EngineName::Podman {
                checks
                    .push(judge::restarts(&engine.lost_policies(&settings.label, &governed, CONTAINERS_AT_MOST).await));
            }
            checks
        }
    }
}

/// Why the engine at this address cannot be examined.
fn obstacle(address: &EngineAddress) -> Obstacle {
    let socket = address.socket();
    if !socket.exists() {
        return if *address == EngineAddress::default() { Obstacle::NoSocket } else { Obstacle::NoResponse };
    }
    let closed = rustix::fs::access(socket, Access::READ_OK | Access::WRITE_OK).is_err();
    if closed { Obstacle::Closed } else { Obstacle::NoResponse }
}

/// Checks whether the driver responds. Loads the library only by its default name: a path from the daemon's socket is not trusted.
async fn nvidia(settings: &Settings) -> judge::Driver {
    let is_wanted = settings.gpu_library.is_some();
    let is_usual = settings.gpu_library.as_deref() == Some(Path::new(gpu::DEFAULT));
    let is_loaded = has_nvidia();
    let mut library = None;
    if is_loaded && is_usual {
        let opened = tokio::task::spawn_blocking(|| gpu::Library::open(Path::new(gpu::DEFAULT)).map(drop));
        library = tokio::time::timeout(DRIVER_TIMEOUT, opened).await.ok().and_then(Result::ok);
    }
    judge::Driver { is_loaded, library, is_wanted }
}

fn has_nvidia() -> bool {
    Path::new("/dev/nvidiactl").exists() || Path::new("/proc/driver/nvidia").exists()
}

/// Names of governed containers that get their GPUs through the legacy hook. A container that ends meanwhile is skipped.
async fn gpu_containers(engine: &Engine, info: &EngineInfo, label: &str) -> Result<Vec<String>, EngineError> {
    let mut names = Vec::new();
    for listed in engine.list(label).await?.into_iter().take(CONTAINERS_AT_MOST) {
        match engine.inspect(&listed.id, info.name).await {
            Ok(container) if container.gpu_hook => names.push(container.name),
            Err(error) if error.is_engine_lost() => return Err(error),
            _ => {}
        }
    }
    Ok(names)
}

fn cgroups() -> Vec<Check> {
    let version = Version::of_host();
    let mut checks = vec![judge::cgroups(version)];
    if version == Version::V2 {
        let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
        checks.push(judge::controllers(&controllers));
        let of_user = user_controllers(Path::new("/sys/fs/cgroup"), rustix::process::geteuid().as_raw());
        checks.extend(of_user.and_then(|controllers| judge::user_controllers(&controllers)));
    }
    let read_only = rustix::fs::statvfs(writable_hierarchy(version))
        .is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY));
    if read_only {
        checks.push(judge::read_only_cgroups());
    }
    checks
}

/// The controllers of a user's systemd instance; `None` for root, whose commands need none, and for users without one.
fn user_controllers(hierarchy: &Path, uid: u32) -> Option<String> {
    let file = format!("user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers");
    if uid == 0 { None } else { fs::read_to_string(hierarchy.join(file)).ok() }
}

/// The contention domain of each running job. A job that ends meanwhile, or was not decided yet, is skipped.
async fn domains(client: &Client, daemon: Option<&Status>) -> Vec<Domain> {
    let mut domains = Vec::new();
    let jobs = daemon.into_iter().flat_map(|status| &status.containers).filter(|job| job.state == "running");
    for job in jobs.take(CONTAINERS_AT_MOST) {
        let path = format!("/v1/containers/{}", segment(&job.id));
        domains.extend(client.get::<ContainerDetail>(&path).await.ok().and_then(|job| job.explanation.domain));
    }
    domains
}

/// What takes CPU beside the jobs, below their parents and above.
async fn neighbours_of(domains: &[Domain], daemon: &Status) -> Option<Check> {
    let parents: BTreeSet<PathBuf> = domains.iter().filter_map(|domain| Some(domain.parent.as_ref()?.into())).collect();
    let root = Path::new("/sys/fs/cgroup");
    let hierarchy = match Version::of_host() {
        Version::V2 => root.to_owned(),
        // That of the cpu controller.
        _ => root.join(parents.first()?.strip_prefix(root).ok()?.components().next()?),
    };
    neighbours::judge(neighbours::measure(&hierarchy, &parents, &daemon.containers).await, daemon.node.cores)
}

/// Limits that have less effect on this machine than their names promise.
fn weak_limits(policy: &PolicySettings, jobs: &[Domain]) -> Vec<Check> {
    let hierarchy = Path::new("/sys/fs/cgroup");
    let mut checks: Vec<Check> = judge::parents(jobs).into_iter().collect();
    if policy.govern_memory && Version::of_host() == Version::V2 {
        checks.extend(judge::memory_low(&without_memory_low(hierarchy, jobs)));
    }
    if policy.govern_io {
        let io_cost = fs::read_to_string(hierarchy.join("io.cost.qos")).unwrap_or_default();
        checks.extend(judge::io_weights(&disks(Path::new("/sys/block"), &io_cost)));
    }
    checks
}

/// The cgroups above jobs, relative to the hierarchy, whose `memory.low` is 0.
fn without_memory_low(hierarchy: &Path, jobs: &[Domain]) -> BTreeSet<String> {
    let is_zero = |path: &&Path| fs::read_to_string(path.join("memory.low")).is_ok_and(|low| low.trim() == "0");
    let parents = jobs.iter().filter_map(|job| job.parent.as_deref()).map(Path::new);
    parents
        .filter(|parent| parent.starts_with(hierarchy))
        .flat_map(|parent| parent.ancestors().take_while(move |path| *path != hierarchy))
        .filter(is_zero)
        .filter_map(|path| Some(path.strip_prefix(hierarchy).ok()?.to_string_lossy().into_owned()))
        .collect()
}

/// The disks below `/sys/block`; `io_cost`: content of `io.cost.qos`.
fn disks(block: &Path, io_cost: &str) -> Vec<Disk> {
    let entries = fs::read_dir(block).into_iter().flatten().flatten();
    let mut disks: Vec<Disk> = entries.filter_map(|entry| disk(&entry.path(), io_cost)).collect();
    disks.sort_by(|one, other| one.name.cmp(&other.name));
    disks
}

/// `None` for a virtual or removable device, and for a single path to a disk with several.
fn disk(folder: &Path, io_cost: &str) -> Option<Disk> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    if !folder.join("device").exists() || read("removable").trim() == "1" || read("hidden").trim() == "1" {
        return None;
    }
    let (scheduler, device) = (read("queue/scheduler"), read("dev"));
    let has_scheduler = ["[bfq]", "[cfq]"].into_iter().any(|active| scheduler.contains(active));
    let has_io_cost = io_cost
        .lines()
        .filter_map(|line| line.split_once(' '))
        .any(|(of, fields)| of == device.trim() && fields.split(' ').any(|field| field == "enable=1"));
    Some(Disk { name: folder.file_name()?.to_string_lossy().into_owned(), weighs: has_scheduler || has_io_cost })
}

fn writable_hierarchy(version: Version) -> &'static Path {
    Path::new(if version == Version::V2 { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpu" })
}

fn inotify() -> Inotify {
    let limit = |name: &str| fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse().ok();
    // Each user has instances of their own: another user's trial says nothing about the daemon, which runs as root.
    let is_daemons_user = rustix::process::geteuid().is_root();
    let refused = if is_daemons_user { inotify::init(CreateFlags::CLOEXEC).err() } else { None };
    Inotify {
        watches: limit("max_user_watches"),
        instances: limit("max_user_instances"),
        refused: refused.map(|error| error.to_string()),
    }
}

fn socket(settings: &Settings, daemon: &Result<Status, ClientError>) -> Socket {
    let group = settings.group.as_deref().and_then(|group| gid_of(group).ok());
    let own: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw()).collect();
    let primary = rustix::process::getegid().as_raw();
    let user = rustix::process::geteuid();
    Socket {
        root: user.is_root(),
        own: !user.is_root() && fs::metadata(&settings.socket).is_ok_and(|socket| socket.uid() == user.as_raw()),
        admin: settings.admins.iter().any(|admin| uid_of(admin).is_ok_and(|uid| uid == user.as_raw())),
        group: settings.group.clone(),
        group_exists: group.is_some(),
        member: group.is_some_and(|group| group == primary || own.contains(&group)),
        permission_denied: matches!(daemon, Err(ClientError::PermissionDenied { .. }))
            || daemon.as_ref().is_err_and(|error| error.status().is_some_and(|status| status.as_u16() == 403)),
    }
}

fn inspect(folder: &Path) -> StateDir {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return StateDir::Missing,
        Err(error) => return StateDir::Unknown(error.to_string()),
    };
    if !metadata.is_dir() {
        return StateDir::NotAFolder;
    }
    let stat = rustix::fs::statvfs(folder).ok();
    StateDir::There {
        mode: metadata.mode(),
        owner: metadata.uid(),
        read_only: stat.as_ref().is_some_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY)),
        free_bytes: stat.map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_above_jobs_without_memory_low_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for (cgroup, low) in [("a.slice", "0\n"), ("a.slice/b.slice", "4096\n"), ("c.slice", "max\n")] {
            fs::create_dir_all(folder.path().join(cgroup)).unwrap();
            fs::write(folder.path().join(cgroup).join("memory.low"), low).unwrap();
        }
        fs::write(folder.path().join("memory.low"), "0\n").unwrap();
        let job = |cgroup: &str| Domain {
            containers: 1,
            cores: 2.0,
            most_cores: 2.0,
            processors: None,
            memory_nodes: None,
            parent: Some(folder.path().join(cgroup).to_string_lossy().into_owned()),
        };
        let found = |cgroups: &[&str]| {
            let jobs: Vec<Domain> = cgroups.iter().map(|&cgroup| job(cgroup)).collect();
            without_memory_low(folder.path(), &jobs).into_iter().collect::<Vec<String>>()
        };
        assert_eq!(found(&["a.slice/b.slice", "a.slice", "c.slice"]), ["a.slice"]);
        assert_eq!(found(&["c.slice", ""]), Vec::<String>::new());
    }

    #[test]
    fn io_weights_have_an_effect_with_the_scheduler_bfq_or_with_io_cost() {
        let folder = tempfile::tempdir().unwrap();
        for (name, scheduler, device, removable) in [
            ("sda", "none [bfq]\n", "8:0\n", "0\n"),
            ("sdb", "[none] bfq\n", "8:16\n", "0\n"),
            ("sdc", "[none] bfq\n", "8:32\n", "0\n"),
            ("sr0", "[none]\n", "11:0\n", "1\n"),
        ] {
            let disk = folder.path().join(name);
            fs::create_dir_all(disk.join("device")).unwrap();
            fs::create_dir_all(disk.join("queue")).unwrap();
            for (file, text) in [("queue/scheduler", scheduler), ("dev", device), ("removable", removable)] {
                fs::write(disk.join(file), text).unwrap();
            }
        }
        fs::create_dir_all(folder.path().join("loop0/queue")).unwrap();
        let io_cost = "8:16 enable=1 ctrl=auto rpct=0.00\n8:32 enable=0 ctrl=auto rpct=0.00\n";
        let found = disks(folder.path(), io_cost);
        let found: Vec<(&str, bool)> = found.iter().map(|disk| (disk.name.as_str(), disk.weighs)).collect();
        assert_eq!(found, [("sda", true), ("sdb", true), ("sdc", false)]);
    }

    #[test]
    fn the_controllers_of_a_users_systemd_instance_are_read_but_not_those_of_root() {
        let folder = tempfile::tempdir().unwrap();
        for uid in [0, 7] {
            let service = folder.path().join(format!("user.slice/user-{uid}.slice/user@{uid}.service"));
            fs::create_dir_all(&service).unwrap();
            fs::write(service.join("cgroup.controllers"), "memory pids\n").unwrap();
        }
        assert_eq!(user_controllers(folder.path(), 7).as_deref(), Some("memory pids\n"));
        assert_eq!(user_controllers(folder.path(), 8), None);
        assert_eq!(user_controllers(folder.path(), 0), None);
    }
}
