//! The handle on a job's limits, shared by the loop, which reads them, and the actuator, which writes them.

use cgroup::{Cgroup, LimitWriter};
use docker::{Conversion, Recorded, recorded};
use limits::Ledger;
use model::{ContainerId, EngineMark, Limits, Runtime, Setting};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Start times that differ by no more belong to the same run: the start of a command is known only to a clock tick.
pub(super) const SAME_START_MS: u64 = 3_000;

/// For the owner of a container with a GPU hook.
const WRITTEN_DIRECTLY: &str = "an update through the engine could remove its GPUs, so its cgroup is written directly";

/// For the owner of a container whose limits a user's systemd sets.
const ONLY_THE_ENGINES: &str = "its memory is not protected, and a CPU quota needs --cpus: a user's systemd sets its limits, and \
                                           reverts those that the engine cannot set";

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
    /// Whether its cgroup belongs to a user's systemd.
    is_users: bool,
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
            is_users: is_users(cgroup.path()),
            cgroup: Arc::new(Mutex::new(cgroup)),
        }
    }

    /// Whether writes go through an engine or systemd, which may apply them late.
    pub(crate) fn is_deferred(&self) -> bool {
        self.runtime == Runtime::Docker || self.unit.is_some()
    }

    /// Whether only the limits that the engine can set last: it has a user's systemd set them, which sets all other limits of the unit as well,
    /// as it knows them. Nobody does that with a command of a user; what a reload reverts there is written again.
    pub(crate) fn has_only_the_engines(&self) -> bool {
        self.is_users && self.runtime == Runtime::Docker && !self.gpu_hook
    }

    /// Returns what its owner should know about its limits.
    pub(super) fn remark(&self) -> Option<&'static str> {
        let only_the_engines = self.has_only_the_engines().then_some(ONLY_THE_ENGINES);
        only_the_engines.or(self.gpu_hook.then_some(WRITTEN_DIRECTLY))
    }

    /// Returns the current and the original values of the limits that are governed: without those that do not last.
    pub(crate) fn governed(&self, ledger: &Ledger) -> (Limits, Limits) {
        let (current, original) = (*ledger.current(), *ledger.original());
        if !self.has_only_the_engines() {
            return (current, original);
        }
        let engine = ledger.engine().unwrap_or_default();
        // Systemd's users have cgroup version 2; which of its conversions does not matter.
        let by_engine = |limit: &Setting| recorded(*limit, &engine, Conversion::Linear, &engine) != Recorded::Never;
        let original: Limits = original.settings().filter(|limit| by_engine(limit) && !self.is_bfqs(*limit)).collect();
        (current.settings().filter(|limit| original.get(limit.kind()).is_some()).collect(), original)
    }

    /// Whether an engine would write this setting to BFQ's file alone, and as a number of another scale.
    pub(crate) fn is_bfqs(&self, setting: Setting) -> bool {
        matches!(setting, Setting::IoWeight(_)) && self.cgroup().has_bfq_weight()
    }

    /// Processes that were killed for memory around the cgroup of a command, of whose end no engine will tell.
    pub(crate) fn kills_around(&self) -> Option<u64> {
        (self.runtime == Runtime::Scope).then(|| self.cgroup().kills_around())?
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
    (is_unit && !is_users(cgroup) && !gpu_hook).then(|| name.to_owned())
}

/// Whether a cgroup is below that of a user's systemd.
fn is_users(cgroup: &Path) -> bool {
    cgroup.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"user@"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, CpuWeight, EngineLimits, Quota};
    use tempfile::TempDir;

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

    /// A target whose cgroup is this one below a folder.
    fn target(cgroup: &str, runtime: Runtime) -> (TempDir, Target) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(cgroup);
        std::fs::create_dir_all(&path).unwrap();
        let target = Target::new(ContainerId::new("1"), "job".to_owned(), runtime, Cgroup::of_folder(&path));
        (folder, target)
    }

    const ROOTLESS: &str = "user.slice/user-7.slice/user@7.service/user.slice/libpod-1.scope";

    #[test]
    fn below_a_users_systemd_only_the_limits_that_the_engine_can_set_are_governed() {
        let all =
            Limits { cpu_quota: Some(Some(Quota(2_000))), memory_low: Some(Bytes(8 << 20)), ..Limits::KERNEL_DEFAULTS };
        let mut now = all;
        now.set(Setting::CpuWeight(CpuWeight::clamped(40.0)));
        let governed = |cgroup: &str, runtime: Runtime, engine: EngineLimits| {
            let (_folder, target) = target(cgroup, runtime);
            let mut ledger = Ledger::found(all, Some(engine));
            ledger.read(now);
            target.governed(&ledger)
        };
        let none = EngineLimits::default();
        let weights =
            |cpu: f64| Limits { cpu_weight: Some(CpuWeight::clamped(cpu)), io_weight: Some(100), ..Limits::default() };
        assert_eq!(governed(ROOTLESS, Runtime::Docker, none), (weights(40.0), weights(100.0)));
        let of_owner = EngineLimits { cpu_quota: 200_000, cpu_period: 100_000, memory_reservation: 8 << 20, ..none };
        let lasting = |limits: Limits| Limits { memory_high: None, ..limits };
        assert_eq!(governed(ROOTLESS, Runtime::Docker, of_owner), (lasting(now), lasting(all)), "those it has set");
        assert_eq!(governed(ROOTLESS, Runtime::Scope, none), (now, all), "no engine changes a limit of a command");
        assert_eq!(governed("machine.slice/libpod-1.scope", Runtime::Docker, none), (now, all));
    }

    #[test]
    fn a_container_of_a_user_whose_cgroup_the_daemon_writes_itself_has_all_limits() {
        let (_folder, mut target) = target(ROOTLESS, Runtime::Docker);
        assert!(target.has_only_the_engines());
        target.gpu_hook = true;
        assert!(!target.has_only_the_engines());
    }
}
