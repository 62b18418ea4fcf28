//! One limit to write: the difference between a plan and what stands.

use super::{Bytes, ContainerId, CpuWeight, Quota};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One limit and the value that it shall have.
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
    /// Whose limit.
    pub id: ContainerId,
    /// What stands now.
    pub from: Setting,
    /// What shall stand.
    pub to: Setting,
}

impl LimitChange {
    /// Whether the container may use more afterwards. Loosening goes first, so that no moment is tighter than both plans.
    pub fn loosens(&self) -> bool {
        match (self.from, self.to) {
            (Setting::CpuWeight(from), Setting::CpuWeight(to)) => to > from,
            (Setting::CpuQuota(from), Setting::CpuQuota(to)) => unlimited_last(to) > unlimited_last(from),
            (Setting::MemoryLow(from), Setting::MemoryLow(to)) => to > from,
            (Setting::MemoryHigh(from), Setting::MemoryHigh(to)) => unlimited_last(to) > unlimited_last(from),
            (Setting::IoWeight(from), Setting::IoWeight(to)) => to > from,
            _ => false,
        }
    }
}

fn unlimited_last<T: Ord>(limit: Option<T>) -> (bool, Option<T>) {
    (limit.is_none(), limit)
}
