//! Quantities with their units, so that a share cannot be mistaken for a weight.

use serde::{Deserialize, Serialize};
use std::fmt;

/// CPU time in microseconds (one core busy for one second is 1,000,000).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CpuTime(pub u64);

impl CpuTime {
    /// Returns the time in core-seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the CPU time used since `earlier`; zero if the counter went backwards.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime(self.0.saturating_sub(earlier.0))
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bytes(pub u64);

/// Memory held over time: one byte for one second is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSeconds(pub f64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} B", self.0) } else { write!(f, "{value:.1} {}", UNITS[unit]) }
    }
}

/// A share of the whole node in 0 ..= 1: all cores is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(f64);

impl Share {
    /// The whole node.
    pub const ALL: Share = Share(1.0);
    /// Nothing of the node.
    pub const NONE: Share = Share(0.0);

    /// Returns the nearest valid share; NaN becomes [`Share::NONE`].
    pub fn clamped(fraction: f64) -> Share {
        if fraction.is_nan() { Share::NONE } else { Share(fraction.clamp(0.0, 1.0)) }
    }

    /// Returns the fraction, 0 ..= 1.
    pub fn fraction(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} %", self.0 * 100.0)
    }
}

/// A CPU weight on the kernel's `cpu.weight` scale, 1 ..= 10,000; a container has 100 by default.
///
/// On cgroup v1 it corresponds to `cpu.shares` = weight × 1024 / 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuWeight(u32);

impl CpuWeight {
    /// The kernel's default.
    pub const DEFAULT: CpuWeight = CpuWeight(100);

    /// Returns the nearest valid weight; NaN becomes the default.
    pub fn clamped(weight: f64) -> CpuWeight {
        if weight.is_nan() { CpuWeight::DEFAULT } else { CpuWeight(weight.round().clamp(1.0, 10_000.0) as u32) }
    }

    /// Returns the value for `cpu.weight`.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for CpuWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A CPU bandwidth limit (`cpu.max`): thousandths of one core, 1,500 = one core and a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quota(pub u64);

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} cores", self.0 as f64 / 1000.0)
    }
}
