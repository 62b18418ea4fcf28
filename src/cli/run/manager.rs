//! Who makes the command's cgroup: this process, systemd, or the daemon for a user who may not.

use cgroup::{CgroupError, Home, Version};
use scope::ScopeName;
use systemd::{Systemd, SystemdError};

/// The manager of the command's cgroup.
pub(super) enum CgroupManager {
    Cgroupfs(Home),
    Systemd(String),
    /// Neither is possible, for this reason. A daemon may make one.
    Missing(anyhow::Error),
}

impl CgroupManager {
    /// Creates the cgroup, unless systemd does it later; `is_required`: without one, the command must not run.
    pub(super) fn for_scope(name: &ScopeName, is_required: bool) -> anyhow::Result<CgroupManager> {
        if node::systemd_is_init() {
            return Ok(CgroupManager::Systemd(name.unit()));
        }
        match home(name) {
            Ok(home) => Ok(CgroupManager::Cgroupfs(home)),
            Err(error) if is_required || is_taken(&error) => Err(error),
            Err(error) => Ok(CgroupManager::Missing(error)),
        }
    }

    /// The files in which the new process must write itself.
    pub(super) fn entrances(&self) -> Vec<std::path::PathBuf> {
        match self {
            CgroupManager::Cgroupfs(home) => home.entrances(),
            CgroupManager::Systemd(_) | CgroupManager::Missing(_) => Vec::new(),
        }
    }

    /// Lets systemd place process `pid`, if it is the manager.
    pub(super) async fn place(&mut self, pid: u32, is_required: bool) -> anyhow::Result<()> {
        let CgroupManager::Systemd(unit) = self else { return Ok(()) };
        let systemd = match Systemd::connect().await {
            Ok(systemd) => systemd,
            // As for a user without a session.
            Err(error) if !is_required => {
                *self = CgroupManager::Missing(error.into());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        Ok(systemd.start_scope(unit, pid, "A job governed by flowcon").await?)
    }

    /// Why there is no cgroup, if there is none.
    pub(super) fn missing(&self) -> Option<&anyhow::Error> {
        match self {
            CgroupManager::Missing(why) => Some(why),
            CgroupManager::Cgroupfs(_) | CgroupManager::Systemd(_) => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            CgroupManager::Cgroupfs(home) => home.is_empty(),
            // systemd and the daemon remove theirs themselves.
            CgroupManager::Systemd(_) | CgroupManager::Missing(_) => true,
        }
    }

    pub(super) fn remove(&self) {
        if let CgroupManager::Cgroupfs(home) = self {
            home.remove();
        }
    }
}

fn home(name: &ScopeName) -> anyhow::Result<Home> {
    if Version::of_host() == Version::None {
        anyhow::bail!("no cgroups are mounted; mount them at /sys/fs/cgroup, or use a container engine");
    }
    Ok(Home::create(&name.cgroup())?)
}

/// Whether another command has the name.
pub(super) fn is_taken(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(CgroupError::Exists { .. }))
        || matches!(error.downcast_ref(), Some(SystemdError::Exists { .. }))
}
