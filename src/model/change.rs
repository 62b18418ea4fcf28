//! One limit to write: the difference between a plan and the current limits.

use super::{Bytes, ContainerId, CpuWeight, EngineLimits, Limits, Quota};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One limit and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// `cpu.weight`.
    CpuWeight(CpuWeight),
    /// `cpu.max`; `None` = unlimited.
    CpuQuota(Option<Quota>),
    /// `memory.low`; 0 = unprotected.
    MemoryLow(Bytes),
    /// `memory.high`; `None` = `max`.
    MemoryHigh(Option<Bytes>),
    /// `io.weight`.
    IoWeight(u16),
}

/// The limits that flowcon governs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKind {
    /// `cpu.weight`.
    CpuWeight,
    /// `cpu.max`.
    CpuQuota,
    /// `memory.low`.
    MemoryLow,
    /// `memory.high`.
    MemoryHigh,
    /// `io.weight`.
    IoWeight,
}

impl LimitKind {
    /// Every kind once.
    pub const ALL: [LimitKind; 5] =
        [LimitKind::CpuWeight, LimitKind::CpuQuota, LimitKind::MemoryLow, LimitKind::MemoryHigh, LimitKind::IoWeight];
}

impl Setting {
    /// Returns the limit that this is a value of.
    #[inline]
    pub fn kind(self) -> LimitKind {
        match self {
            Setting::CpuWeight(_) => LimitKind::CpuWeight,
            Setting::CpuQuota(_) => LimitKind::CpuQuota,
            Setting::MemoryLow(_) => LimitKind::MemoryLow,
            Setting::MemoryHigh(_) => LimitKind::MemoryHigh,
            Setting::IoWeight(_) => LimitKind::IoWeight,
        }
    }

    /// Returns the value in its own unit; `None` = unlimited.
    #[inline]
    pub fn number(self) -> Option<u64> {
        match self {
            Setting::CpuWeight(weight) => Some(u64::from(weight.number())),
            Setting::CpuQuota(quota) => quota.map(|quota| quota.0),
            Setting::MemoryLow(bytes) => Some(bytes.0),
            Setting::MemoryHigh(bytes) => bytes.map(|bytes| bytes.0),
            Setting::IoWeight(weight) => Some(u64::from(weight)),
        }
    }
}

impl Limits {
    /// Returns the value of one kind, if it is known.
    #[inline]
    pub fn get(&self, kind: LimitKind) -> Option<Setting> {
        match kind {
            LimitKind::CpuWeight => self.cpu_weight.map(Setting::CpuWeight),
            LimitKind::CpuQuota => self.cpu_quota.map(Setting::CpuQuota),
            LimitKind::MemoryLow => self.memory_low.map(Setting::MemoryLow),
            LimitKind::MemoryHigh => self.memory_high.map(Setting::MemoryHigh),
            LimitKind::IoWeight => self.io_weight.map(Setting::IoWeight),
        }
    }

    /// Replaces the value of one kind.
    pub fn set(&mut self, setting: Setting) {
        match setting {
            Setting::CpuWeight(value) => self.cpu_weight = Some(value),
            Setting::CpuQuota(value) => self.cpu_quota = Some(value),
            Setting::MemoryLow(value) => self.memory_low = Some(value),
            Setting::MemoryHigh(value) => self.memory_high = Some(value),
            Setting::IoWeight(value) => self.io_weight = Some(value),
        }
    }

    /// Removes the value of one kind.
    pub fn unset(&mut self, kind: LimitKind) {
        match kind {
            LimitKind::CpuWeight => self.cpu_weight = None,
            LimitKind::CpuQuota => self.cpu_quota = None,
            LimitKind::MemoryLow => self.memory_low = None,
            LimitKind::MemoryHigh => self.memory_high = None,
            LimitKind::IoWeight => self.io_weight = None,
        }
    }

    /// Returns the known values in the order of [`LimitKind::ALL`].
    pub fn settings(&self) -> impl Iterator<Item = Setting> + '_ {
        LimitKind::ALL.into_iter().filter_map(|kind| self.get(kind))
    }
}

impl EngineLimits {
    /// Returns these limits with the numbers of one limit taken from `other`.
    pub fn with(self, kind: LimitKind, other: &EngineLimits) -> EngineLimits {
        match kind {
            LimitKind::CpuWeight => EngineLimits { cpu_shares: other.cpu_shares, ..self },
            LimitKind::CpuQuota => EngineLimits {
                nano_cpus: other.nano_cpus,
                cpu_quota: other.cpu_quota,
                cpu_period: other.cpu_period,
                ..self
            },
            LimitKind::MemoryLow => EngineLimits { memory_reservation: other.memory_reservation, ..self },
            LimitKind::IoWeight => EngineLimits { blkio_weight: other.blkio_weight, ..self },
            LimitKind::MemoryHigh => self, // no engine has it
        }
    }
}

impl FromIterator<Setting> for Limits {
    /// If a kind occurs more than once, its last value counts.
    fn from_iter<I: IntoIterator<Item = Setting>>(settings: I) -> Limits {
        let mut limits = Limits::default();
        settings.into_iter().for_each(|setting| limits.set(setting));
        limits
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::CpuWeight(weight) => write!(f, "CPU weight {weight}"),
            Setting::CpuQuota(Some(quota)) => write!(f, "CPU quota {quota}"),
            Setting::CpuQuota(None) => f.write_str("no CPU quota"),
            Setting::MemoryLow(bytes) => write!(f, "memory protection {bytes}"),
            Setting::MemoryHigh(Some(bytes)) => write!(f, "memory squeeze at {bytes}"),
            Setting::MemoryHigh(None) => f.write_str("no memory squeeze"),
            Setting::IoWeight(weight) => write!(f, "I/O weight {weight}"),
        }
    }
}

/// One limit to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitChange {
    /// The container whose limit it is.
    pub id: ContainerId,
    /// The current value.
    pub from: Setting,
    /// The value to write, of the same kind.
    pub to: Setting,
}

impl LimitChange {
    /// Whether the container may use more afterwards. Loosening is written first, so that limits are never tighter than under both plans.
    #[inline]
    pub fn loosens(&self) -> bool {
        self.from.number().is_some_and(|from| self.to.number().is_none_or(|to| to > from))
    }
}
