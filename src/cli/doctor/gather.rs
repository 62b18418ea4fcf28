//! Gathers facts: queries the daemon and the engine, reads `/proc` and `/sys`. Changes nothing.

use super::Check;
use super::judge::{self, Inotify, Obstacle, Socket, StateDir};
use crate::api::client::{Client, ClientError};
use crate::api::wire::{Configuration, Status};
use crate::config::{self, EngineChoice, GpuControl, Settings};
use crate::host::cgroup::{Version, node_pressure};
use crate::host::docker::{Engine, EngineAddress, EngineError, EngineInfo};
use crate::host::gpu;
use crate::host::users::{gid_of, uid_of};
use rustix::fs::inotify::{self, CreateFlags};
use rustix::fs::{Access, StatVfsMountFlags};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Timeout of the GPU driver; a healthy driver responds within a second or two.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of containers inspected for GPUs: enough to find the hazard on any machine.
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
    checks.push(judge::pressure(&node_pressure()));
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
        admin: settings.admins.iter().any(|admin| uid_of(admin).is_ok_and(|uid| uid == user.as_raw())),
        group: settings.group.clone(),
        group_exists: group.is_some(),
        member: group.is_some_and(|group| group == primary || own.contains(&group)),
        permission_denied: matches!(daemon, Err(ClientError::PermissionDenied { .. }))
            || daemon.as_ref().is_err_and(|error| error.status().is_some_and(|status| status.as_u16() == 403)),
    }
}

fn inspect(folder: &Path) -> StateDir {
    let Ok(metadata) = fs::metadata(folder) else { return StateDir::Missing };
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
