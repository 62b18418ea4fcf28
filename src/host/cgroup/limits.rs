//! Reads the current limits of a cgroup, in the units of `model`.

use super::controller::Controller;
use super::directory::Directories;
use super::directory::Directory;
use model::{Bytes, CpuWeight, Limits, Quota};

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
    cpu_shares(cpu).map(weight_of)
}

pub(super) fn cpu_shares(cpu: &Directory) -> Option<u64> {
    number(cpu, "cpu.shares")
}

/// Converts shares of version 1.
pub(super) fn weight_of(shares: u64) -> CpuWeight {
    CpuWeight::clamped(shares as f64 * 100.0 / 1024.0)
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

/// The soft limit of version 1 is no protection: a cgroup above it is the first to be reclaimed, and others have none.
pub(super) fn memory_low(memory: &Directory) -> Option<Bytes> {
    let low = if memory.is_unified() { limit(memory, "memory.low") } else { None };
    low.map(|low| low.unwrap_or(Bytes(NO_LIMIT)))
}

pub(super) fn memory_high(memory: &Directory) -> Option<Option<Bytes>> {
    if memory.is_unified() { limit(memory, "memory.high") } else { None }
}

/// A file with the block I/O weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoWeightFile {
    /// `io.weight`: 1 ..= 10,000, default 100.
    Io,
    /// `io.bfq.weight`: 1 ..= 1000, default 100. From version 250 on, systemd keeps weights up to 100 and divides the rest by 11.
    Bfq,
    /// `blkio.bfq.weight` of version 1: 1 ..= 1000, default 100.
    LegacyBfq,
    /// `blkio.weight` of CFQ: 10 ..= 1000, default 500. Its 500 weights above the default stand for 900.
    Cfq,
}

/// Default of `io.weight` and of BFQ.
const IO_WEIGHT_DEFAULT: u16 = 100;
const CFQ_DEFAULT: u64 = 500;
/// Number of weights above the default that are one weight of BFQ.
const BFQ_STEP: u64 = 11;

impl IoWeightFile {
    /// Returns those that exist: of version 2 all, as systemd writes them; of version 1 the one that runc chooses.
    pub(super) fn present(blkio: &Directory) -> Vec<IoWeightFile> {
        use IoWeightFile::{Bfq, Cfq, Io, LegacyBfq};
        let (candidates, at_most) = if blkio.is_unified() { ([Io, Bfq], 2) } else { ([LegacyBfq, Cfq], 1) };
        candidates.into_iter().filter(|file| blkio.has(file.name())).take(at_most).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            IoWeightFile::Io => "io.weight",
            IoWeightFile::Bfq => "io.bfq.weight",
            IoWeightFile::LegacyBfq => "blkio.bfq.weight",
            IoWeightFile::Cfq => "blkio.weight",
        }
    }

    /// Converts to the scale of `io.weight`, mapping default to default, so that the ratio to ungoverned containers is preserved.
    fn model_weight(self, number: u64) -> u16 {
        let default = u64::from(IO_WEIGHT_DEFAULT);
        let scaled = match self {
            IoWeightFile::Bfq if number > default => default + (number.min(1000) - default) * BFQ_STEP,
            IoWeightFile::Io | IoWeightFile::Bfq | IoWeightFile::LegacyBfq => number,
            IoWeightFile::Cfq if number > CFQ_DEFAULT => default + (number.min(1000) - CFQ_DEFAULT) * 9 / 5,
            IoWeightFile::Cfq => (number + 2) / 5,
        };
        scaled.clamp(1, 10_000) as u16
    }

    pub(super) fn kernel_number(self, weight: u16) -> u64 {
        let (weight, default) = (u64::from(weight.clamp(1, 10_000)), u64::from(IO_WEIGHT_DEFAULT));
        match self {
            IoWeightFile::Io => weight,
            IoWeightFile::Bfq if weight > default => default + (weight - default) / BFQ_STEP,
            IoWeightFile::Bfq => weight,
            IoWeightFile::LegacyBfq => weight.min(1000),
            IoWeightFile::Cfq if weight > default => CFQ_DEFAULT + ((weight.min(1000) - default) * 5 + 4) / 9,
            IoWeightFile::Cfq => (weight * 5).max(10),
        }
    }

    /// Parses a single weight, or the `default` line of a file with one line per device.
    fn read(self, blkio: &Directory) -> Option<u16> {
        let text = blkio.read(self.name())?;
        let default = text.lines().find_map(|line| line.strip_prefix("default ")).unwrap_or(text.trim());
        default.trim().parse().ok().map(|number| self.model_weight(number))
    }
}

/// Returns the first weight that is not the default, because runc and crun write only BFQ's file where it exists.
pub(super) fn io_weight(blkio: &Directory) -> Option<u16> {
    let weights: Vec<u16> = IoWeightFile::present(blkio).into_iter().filter_map(|file| file.read(blkio)).collect();
    let set = weights.iter().find(|weight| **weight != IO_WEIGHT_DEFAULT);
    set.or(weights.first()).copied()
}

/// Whether BFQ's file of version 2 is there.
pub(super) fn has_bfq_weight(blkio: &Directory) -> bool {
    IoWeightFile::present(blkio).contains(&IoWeightFile::Bfq)
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
