//! Reads the current limits of a cgroup, in the units of `model`.

use super::directory::Directories;
use super::directory::Directory;
use super::hierarchy::Controller;
use crate::model::{Bytes, CpuWeight, Limits, Quota};

/// Memory sizes from this value on mean "no limit": the kernel's maximum, rounded down to a page, is slightly larger.
const NO_LIMIT: u64 = 1 << 62;

pub(super) fn read(directories: &Directories) -> Limits {
    let cpu = directories.of(Controller::Cpu);
    let memory = directories.of(Controller::Memory);
    Limits {
        cpu_weight: cpu.and_then(cpu_weight),
        cpu_quota: cpu.and_then(cpu_quota),
        memory_low: memory.and_then(memory_low),
        memory_high: memory.and_then(memory_high),
        io_weight: directories.of(Controller::Blkio).and_then(io_weight),
    }
}

pub(super) fn cpu_weight(cpu: &Directory) -> Option<CpuWeight> {
    if cpu.is_unified() {
        return number(cpu, "cpu.weight").map(|weight| CpuWeight::clamped(weight as f64));
    }
    number(cpu, "cpu.shares").map(|shares| CpuWeight::clamped(shares as f64 * 100.0 / 1024.0))
}

pub(super) fn cpu_quota(cpu: &Directory) -> Option<Option<Quota>> {
    if cpu.is_unified() {
        let text = cpu.read("cpu.max")?;
        let (quota, period) = text.trim().split_once(' ')?;
        return bandwidth(quota, period.parse().ok()?);
    }
    bandwidth(cpu.read("cpu.cfs_quota_us")?.trim(), number(cpu, "cpu.cfs_period_us")?)
}

/// Converts microseconds of CPU time per period to thousandths of a core; `max` and −1 are unlimited.
fn bandwidth(quota_us: &str, period_us: u64) -> Option<Option<Quota>> {
    if quota_us == "max" || quota_us == "-1" {
        return Some(None);
    }
    let quota: u64 = quota_us.parse().ok()?;
    Some(Some(Quota(quota.saturating_mul(1000).checked_div(period_us)?)))
}

/// The soft limit of version 1 protects nothing until it is set: its unlimited default reads as 0.
pub(super) fn memory_low(memory: &Directory) -> Option<Bytes> {
    if memory.is_unified() {
        return limit(memory, "memory.low").map(|low| low.unwrap_or(Bytes(NO_LIMIT)));
    }
    limit(memory, "memory.soft_limit_in_bytes").map(Option::unwrap_or_default)
}

pub(super) fn memory_high(memory: &Directory) -> Option<Option<Bytes>> {
    if memory.is_unified() { limit(memory, "memory.high") } else { None }
}

/// The file with the block I/O weight, chosen as by runc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoWeightFile {
    /// `io.bfq.weight` and `blkio.bfq.weight`: 1 ..= 1000, default 100.
    Bfq(&'static str),
    /// `io.weight`: 1 ..= 10,000, default 100.
    Io(&'static str),
    /// `blkio.weight` of CFQ: 10 ..= 1000, default 500.
    Cfq(&'static str),
}

impl IoWeightFile {
    pub(super) fn of(blkio: &Directory) -> Option<IoWeightFile> {
        use IoWeightFile::{Bfq, Cfq, Io};
        let candidates = if blkio.is_unified() {
            [Bfq("io.bfq.weight"), Io("io.weight")]
        } else {
            [Bfq("blkio.bfq.weight"), Cfq("blkio.weight")]
        };
        candidates.into_iter().find(|file| blkio.has(file.name()))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            IoWeightFile::Bfq(name) | IoWeightFile::Io(name) | IoWeightFile::Cfq(name) => name,
        }
    }

    /// Converts to the scale of `io.weight`, mapping default to default, so that the ratio to ungoverned containers is preserved.
    fn model_weight(self, number: u64) -> u16 {
        let scaled = match self {
            IoWeightFile::Bfq(_) | IoWeightFile::Io(_) => number,
            IoWeightFile::Cfq(_) => (number + 2) / 5,
        };
        scaled.clamp(1, 10_000) as u16
    }

    pub(super) fn kernel_number(self, weight: u16) -> u64 {
        let weight = u64::from(weight);
        match self {
            IoWeightFile::Bfq(_) => weight.clamp(1, 1000),
            IoWeightFile::Io(_) => weight.clamp(1, 10_000),
            IoWeightFile::Cfq(_) => (weight * 5).clamp(10, 1000),
        }
    }
}

/// Parses a single weight, or the `default` line of a file with one line per device.
pub(super) fn io_weight(blkio: &Directory) -> Option<u16> {
    let file = IoWeightFile::of(blkio)?;
    let text = blkio.read(file.name())?;
    let default = text.lines().find_map(|line| line.strip_prefix("default ")).unwrap_or(text.trim());
    default.trim().parse().ok().map(|number| file.model_weight(number))
}

fn number(directory: &Directory, name: &str) -> Option<u64> {
    directory.read(name)?.trim().parse().ok()
}

/// Inner `None` = unlimited.
fn limit(directory: &Directory, name: &str) -> Option<Option<Bytes>> {
    let text = directory.read(name)?;
    if text.trim() == "max" {
        return Some(None);
    }
    let bytes: u64 = text.trim().parse().ok()?;
    Some((bytes < NO_LIMIT).then_some(Bytes(bytes)))
}
