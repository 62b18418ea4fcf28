//! The handle on a job's limits, shared by the loop, which reads them, and the actuator, which writes them.

use cgroup::{Cgroup, LimitWriter};
use model::{ContainerId, EngineMark, Runtime};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Start times that differ by no more belong to the same run: the start of a command is known only to a clock tick.
pub(super) const SAME_START_MS: u64 = 3_000;

/// Handle for reading and writing one container's limits. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub id: ContainerId,
    pub name: String,
    pub runtime: Runtime,
    pub started_unix_ms: u64,
    /// Engine that runs it.
    pub mark: Option<EngineMark>,
    /// Whether the engine must not be asked to update it, because that could remove its GPUs.
    pub gpu_hook: bool,
    /// The systemd unit that owns its cgroup, if there is one.
    pub unit: Option<String>,
    cgroup: Arc<Mutex<Cgroup>>,
}

impl Target {
    pub(crate) fn new(id: ContainerId, name: String, runtime: Runtime, cgroup: Cgroup) -> Target {
        Target {
            id,
            name,
            runtime,
            started_unix_ms: 0,
            mark: None,
            gpu_hook: false,
            unit: None,
            cgroup: Arc::new(Mutex::new(cgroup)),
        }
    }

    /// Whether writes go through an engine or systemd, which may apply them late.
    pub(crate) fn is_deferred(&self) -> bool {
        self.runtime == Runtime::Docker || self.unit.is_some()
    }

    /// Locks the cgroup, for a few reads of control files. A write may take seconds, so it uses [`Target::writer`].
    pub(crate) fn cgroup(&self) -> MutexGuard<'_, Cgroup> {
        // Control files have no state that a panic could leave half-changed.
        self.cgroup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a writer of the limits that leaves the cgroup unlocked.
    pub(crate) fn writer(&self) -> LimitWriter {
        self.cgroup().writer()
    }
}

/// Returns the unit of the system manager that owns a cgroup, through which it is limited. Units of a user's manager are left out, such as
/// those of rootless Podman: the system manager may have another unit of the same name. With a GPU hook there is none: for each change of a
/// limit, systemd applies its own device rules again, in which the GPUs are missing.
pub(super) fn unit_of_cgroup(cgroup: &Path, gpu_hook: bool) -> Option<String> {
    unit(cgroup, gpu_hook).filter(|_| node::systemd_is_init())
}

fn unit(cgroup: &Path, gpu_hook: bool) -> Option<String> {
    let name = cgroup.file_name()?.to_str()?;
    let is_unit = name.ends_with(".scope") || name.ends_with(".slice");
    let is_users = cgroup.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"user@"));
    (is_unit && !is_users && !gpu_hook).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_and_slices_are_limited_through_the_system_manager() {
        let unit = |path: &str| unit(Path::new(path), false);
        assert_eq!(unit("/sys/fs/cgroup/system.slice/docker-1.scope").as_deref(), Some("docker-1.scope"));
        assert_eq!(unit("/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice").as_deref(), Some("kubepods-pod1.slice"));
        assert_eq!(unit("/sys/fs/cgroup/docker/1"), None, "a cgroup of the engine's own");
        assert_eq!(unit("/sys/fs/cgroup/user.slice/user-7.slice/user@7.service/user.slice/libpod-1.scope"), None);
    }

    #[test]
    fn a_container_with_a_gpu_hook_is_not_limited_through_systemd() {
        assert_eq!(unit(Path::new("/sys/fs/cgroup/system.slice/docker-1.scope"), true), None);
    }
}
