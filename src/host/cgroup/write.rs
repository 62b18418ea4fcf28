//! Writing one limit to the kernel and reading it back.

use super::CgroupError;
use super::controller::Controller;
use super::directory::Directories;
use super::directory::Directory;
use super::limits::{self, IoWeightFile};
use cgroups_rs::fs::cpu::CpuController;
use cgroups_rs::fs::memory::MemController;
use model::{Bytes, CpuWeight, Quota, Setting};

/// Smallest run time per period that the kernel accepts, in microseconds.
const SHORTEST_RUN_US: u64 = 1000;

/// `shares`: see [`super::LimitWriter::write_exact`].
pub(super) fn write(directories: &Directories, setting: Setting, shares: i64) -> Result<Setting, CgroupError> {
    let controller = match setting {
        Setting::CpuWeight(_) | Setting::CpuQuota(_) => Controller::Cpu,
        Setting::MemoryLow(_) | Setting::MemoryHigh(_) => Controller::Memory,
        Setting::IoWeight(_) => Controller::Blkio,
    };
    let Some(directory) = directories.of(controller) else {
        return Err(CgroupError::Unsupported { path: directories.any_path(), setting });
    };
    if directory.is_own() {
        return Err(CgroupError::Own { path: directory.path().to_owned() });
    }
    let unsupported = || CgroupError::Unsupported { path: directory.path().to_owned(), setting };
    let read_back = match setting {
        Setting::CpuWeight(weight) => {
            limits::cpu_weight(directory).ok_or_else(unsupported)?;
            write_cpu_weight(directory, weight, shares)?;
            limits::cpu_weight(directory).map(Setting::CpuWeight)
        }
        Setting::CpuQuota(quota) => {
            limits::cpu_quota(directory).ok_or_else(unsupported)?;
            write_cpu_quota(directory, quota)?;
            limits::cpu_quota(directory).map(Setting::CpuQuota)
        }
        Setting::MemoryLow(bytes) => {
            limits::memory_low(directory).ok_or_else(unsupported)?;
            write_memory_low(directory, bytes)?;
            limits::memory_low(directory).map(Setting::MemoryLow)
        }
        Setting::MemoryHigh(bytes) => {
            limits::memory_high(directory).ok_or_else(unsupported)?;
            write_raw(directory, "memory.high", bytes.map_or("max".to_owned(), |bytes| bytes.0.to_string()))?;
            limits::memory_high(directory).map(Setting::MemoryHigh)
        }
        Setting::IoWeight(weight) => {
            let files = IoWeightFile::present(directory);
            if files.is_empty() {
                return Err(unsupported());
            }
            for file in files {
                write_raw(directory, file.name(), file.kernel_number(weight).to_string())?;
            }
            limits::io_weight(directory).map(Setting::IoWeight)
        }
    };
    read_back.ok_or_else(|| CgroupError::Write {
        path: directory.path().to_owned(),
        value: setting.to_string(),
        reason: "written, but the value cannot be read back".to_owned(),
    })
}

fn write_cpu_weight(cpu: &Directory, weight: CpuWeight, shares: i64) -> Result<(), CgroupError> {
    let (file, number) = if cpu.is_unified() {
        ("cpu.weight", u64::from(weight.number()))
    } else {
        let gives = |shares: &u64| *shares > 0 && limits::weight_of(*shares) == weight;
        let exact = u64::try_from(shares).ok().filter(gives).or(limits::cpu_shares(cpu).filter(gives));
        ("cpu.shares", exact.unwrap_or((f64::from(weight.number()) * 1024.0 / 100.0).round() as u64))
    };
    cpu_controller(cpu).set_shares(number).map_err(|error| write_error(cpu, file, number, &error))
}

fn write_cpu_quota(cpu: &Directory, quota: Option<Quota>) -> Result<(), CgroupError> {
    let controller = cpu_controller(cpu);
    let file = if cpu.is_unified() { "cpu.max" } else { "cpu.cfs_quota_us" };
    let period = controller.cfs_period().map_err(|error| write_error(cpu, file, "its period", &error))?;
    let run_us = match quota {
        None => -1,
        Some(Quota(millis)) => {
            let micros = millis.saturating_mul(period) / 1000;
            i64::try_from(micros.max(SHORTEST_RUN_US)).unwrap_or(i64::MAX)
        }
    };
    controller.set_cfs_quota(run_us).map_err(|error| write_error(cpu, file, run_us, &error))
}

fn write_memory_low(memory: &Directory, bytes: Bytes) -> Result<(), CgroupError> {
    let number = i64::try_from(bytes.0).unwrap_or(i64::MAX);
    // The soft limit of version 2 is `memory.low`.
    let controller = MemController::new(memory.anchored(), memory.anchored(), true);
    controller.set_soft_limit(number).map_err(|error| write_error(memory, "memory.low", number, &error))
}

fn cpu_controller(cpu: &Directory) -> CpuController {
    CpuController::new(cpu.anchored(), cpu.anchored(), cpu.is_unified())
}

fn write_raw(directory: &Directory, file: &str, value: String) -> Result<(), CgroupError> {
    directory.write(file, &value).map_err(|error| CgroupError::Write {
        path: directory.path().join(file),
        value,
        reason: error.to_string(),
    })
}

fn write_error(
    directory: &Directory,
    file: &str,
    value: impl ToString,
    error: &(dyn std::error::Error + 'static),
) -> CgroupError {
    let kernel = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    CgroupError::Write { path: directory.path().join(file), value: value.to_string(), reason: kernel }
}
