//! Where a job's limits are written: shared by the loop, which reads them, and the actuator, which writes them.

use crate::host::cgroup::Cgroup;
use crate::model::{ContainerId, EngineLimits, EngineMark, Limits, Runtime, Setting};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One container's handle for reading and writing limits. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub id: ContainerId,
    pub name: String,
    pub runtime: Runtime,
    pub started_unix_ms: u64,
    /// Its limits before our first change.
    pub original: Limits,
    /// The same in the engine's own numbers.
    pub engine_limits: Option<EngineLimits>,
    /// Which engine it is in.
    pub mark: Option<EngineMark>,
    /// What stands by our hand, as it was read back. After a restart it may be more than the journal knows.
    pub ours: Vec<Setting>,
    /// The engine must not be asked to update it: that could take its GPUs away.
    pub gpu_hook: bool,
    /// The systemd unit that owns its cgroup, where systemd does.
    pub unit: Option<String>,
    cgroup: Arc<Mutex<Cgroup>>,
}

impl Target {
    pub fn new(id: ContainerId, name: String, runtime: Runtime, cgroup: Cgroup) -> Target {
        let original = cgroup.limits();
        Target {
            id,
            name,
            runtime,
            started_unix_ms: 0,
            original,
            engine_limits: None,
            mark: None,
            ours: Vec::new(),
            gpu_hook: false,
            unit: None,
            cgroup: Arc::new(Mutex::new(cgroup)),
        }
    }

    /// The cgroup, for a moment: each use is a few reads or one write of control files.
    pub fn cgroup(&self) -> MutexGuard<'_, Cgroup> {
        // Control files have no state that a panic could leave half-changed.
        self.cgroup.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `limits` holds of the same kind as `setting`.
pub(super) fn standing(limits: &Limits, setting: Setting) -> Option<Setting> {
    match setting {
        Setting::CpuWeight(_) => limits.cpu_weight.map(Setting::CpuWeight),
        Setting::CpuQuota(_) => limits.cpu_quota.map(Setting::CpuQuota),
        Setting::MemoryLow(_) => limits.memory_low.map(Setting::MemoryLow),
        Setting::MemoryHigh(_) => limits.memory_high.map(Setting::MemoryHigh),
        Setting::IoWeight(_) => limits.io_weight.map(Setting::IoWeight),
    }
}

/// Whether a setting that was read is one that was asked for, as far as kernels and engines round: weights within 1, quotas within
/// 1 %, memory within 64 KiB (a page may be that large).
pub(super) fn same(a: Setting, b: Setting) -> bool {
    const PAGE_LARGEST: u64 = 64 << 10;
    let near = |a: u64, b: u64| a.abs_diff(b) <= 1.max(a.max(b) / 100);
    match (a, b) {
        (Setting::CpuWeight(a), Setting::CpuWeight(b)) => a.number().abs_diff(b.number()) <= 1,
        (Setting::IoWeight(a), Setting::IoWeight(b)) => a.abs_diff(b) <= 10.max(a.max(b) / 50),
        (Setting::CpuQuota(Some(a)), Setting::CpuQuota(Some(b))) => near(a.0, b.0),
        (Setting::MemoryLow(a), Setting::MemoryLow(b)) => a.0.abs_diff(b.0) <= PAGE_LARGEST,
        (Setting::MemoryHigh(Some(a)), Setting::MemoryHigh(Some(b))) => a.0.abs_diff(b.0) <= PAGE_LARGEST,
        (a, b) => a == b,
    }
}

/// Whether `setting` is what stands.
pub(super) fn stands_in(limits: &Limits, setting: Setting) -> bool {
    standing(limits, setting).is_some_and(|now| same(now, setting))
}

/// Whether two settings are of one kind.
pub(super) fn same_kind(a: Setting, b: Setting) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, CpuWeight, Quota};

    #[test]
    fn rounding_is_no_change_and_a_persons_value_is() {
        let weight = |number: f64| Setting::CpuWeight(CpuWeight::clamped(number));
        assert!(same(weight(50.0), weight(51.0)));
        assert!(!same(weight(50.0), weight(52.0)));
        assert!(!same(weight(5000.0), weight(5049.0)));
        assert!(same(Setting::MemoryLow(Bytes(10_000_000)), Setting::MemoryLow(Bytes(9_998_336))));
        assert!(!same(Setting::CpuQuota(None), Setting::CpuQuota(Some(Quota(2000)))));
        assert!(!same(Setting::CpuQuota(Some(Quota(100))), weight(100.0)));
    }
}
