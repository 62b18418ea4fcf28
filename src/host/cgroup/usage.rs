//! Resource usage of a container: counters and gauges from open control files.

use super::controller::Controller;
use super::directory::{Directories, KeptFile};
use super::pressure;
use model::{Bytes, CpuTime, Usage};
use std::fs;
use std::path::{Path, PathBuf};

/// The open control files for the usage of one cgroup.
#[derive(Debug, Default)]
pub(super) struct Meter {
    cpu: KeptFile,
    cpu_stat: KeptFile,
    memory: KeptFile,
    memory_stat: KeptFile,
    block_io: KeptFile,
    cpu_pressure: KeptFile,
    memory_pressure: KeptFile,
    io_pressure: KeptFile,
}

impl Meter {
    pub(super) fn read(&mut self, directories: &Directories) -> Usage {
        let mut usage = Usage::default();
        let mut buffer = Vec::new(); // per reading, because one kept per cgroup would add up
        self.read_cpu(directories, &mut buffer, &mut usage);
        self.read_memory(directories, &mut buffer, &mut usage);
        self.read_block_io(directories, &mut buffer, &mut usage);
        self.read_pressure(directories, &mut buffer, &mut usage);
        usage
    }

    /// Updates the values of an earlier reading that change fast and are cheap to read: CPU time, memory, and memory pressure.
    pub(super) fn glance(&mut self, directories: &Directories, usage: &mut Usage) {
        let mut buffer = Vec::new();
        usage.cpu = None;
        if directories.cpuacct.is_some() {
            self.read_cpuacct(directories, &mut buffer, usage);
        } else {
            self.read_cpu(directories, &mut buffer, usage);
        }
        usage.memory = self.read_charged(directories, &mut buffer);
        if let Some(unified) = &directories.unified {
            let text = self.memory_pressure.read(unified, &["memory.pressure"], &mut buffer);
            usage.pressure.memory = text.and_then(pressure::some_avg10);
        }
    }

    fn read_cpuacct(&mut self, directories: &Directories, buffer: &mut Vec<u8>, usage: &mut Usage) {
        if let Some(cpuacct) = &directories.cpuacct {
            let text = self.cpu.read(cpuacct, &["cpuacct.usage"], buffer);
            usage.cpu = text.and_then(number).map(|nanos| CpuTime(nanos / 1000));
        }
    }

    fn read_cpu(&mut self, directories: &Directories, buffer: &mut Vec<u8>, usage: &mut Usage) {
        // On version 1, CPU time used and CPU time throttled are in two files, possibly in two hierarchies.
        self.read_cpuacct(directories, buffer, usage);
        let Some(cpu) = directories.of(Controller::Cpu) else { return };
        let Some(stat) = self.cpu_stat.read(cpu, &["cpu.stat"], buffer) else { return };
        if usage.cpu.is_none() {
            usage.cpu = keyed(stat, "usage_usec").map(CpuTime);
        }
        let micros = keyed(stat, "throttled_usec").or_else(|| keyed(stat, "throttled_time").map(|nanos| nanos / 1000));
        usage.throttled = micros.map(CpuTime);
        usage.throttled_periods = keyed(stat, "nr_throttled");
    }

    fn read_memory(&mut self, directories: &Directories, buffer: &mut Vec<u8>, usage: &mut Usage) {
        let Some(memory) = directories.of(Controller::Memory) else { return };
        let inactive = if memory.is_unified() { "inactive_file" } else { "total_inactive_file" };
        usage.memory = self.read_charged(directories, buffer);
        let stat = self.memory_stat.read(memory, &["memory.stat"], buffer);
        let reclaimable = stat.and_then(|stat| keyed(stat, inactive));
        usage.working_set = usage.memory.zip(reclaimable).map(|(all, cache)| Bytes(all.0.saturating_sub(cache)));
    }

    fn read_charged(&mut self, directories: &Directories, buffer: &mut Vec<u8>) -> Option<Bytes> {
        let memory = directories.of(Controller::Memory)?;
        let current = if memory.is_unified() { "memory.current" } else { "memory.usage_in_bytes" };
        self.memory.read(memory, &[current], buffer).and_then(number).map(Bytes)
    }

    fn read_block_io(&mut self, directories: &Directories, buffer: &mut Vec<u8>, usage: &mut Usage) {
        let Some(blkio) = directories.of(Controller::Blkio) else { return };
        if blkio.is_unified() {
            let text = self.block_io.read(blkio, &["io.stat"], buffer);
            usage.block_io = text.map(|text| Bytes(io_stat_bytes(text)));
        } else {
            let names = ["blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"];
            usage.block_io = self.block_io.read(blkio, &names, buffer).and_then(blkio_bytes).map(Bytes);
        }
    }

    fn read_pressure(&mut self, directories: &Directories, buffer: &mut Vec<u8>, usage: &mut Usage) {
        let Some(unified) = &directories.unified else { return };
        let mut some = |file: &mut KeptFile, name| pressure::some_avg10(file.read(unified, &[name], buffer)?);
        usage.pressure.cpu = some(&mut self.cpu_pressure, "cpu.pressure");
        usage.pressure.memory = some(&mut self.memory_pressure, "memory.pressure");
        usage.pressure.io = some(&mut self.io_pressure, "io.pressure");
    }
}

/// Returns the CPU time used by the cgroup with this directory, for one that is read now and then; `None` if it cannot be read.
pub fn cpu_used(directory: &Path) -> Option<CpuTime> {
    let read = |path: &Path, file: &str| fs::read_to_string(path.join(file)).ok();
    // On version 1 the two controllers may be in two hierarchies.
    let beside = PathBuf::from(directory.to_str()?.replacen("/cgroup/cpu/", "/cgroup/cpuacct/", 1));
    let nanos = || [directory, &beside].into_iter().find_map(|path| number(&read(path, "cpuacct.usage")?));
    let micros = read(directory, "cpu.stat").and_then(|stat| keyed(&stat, "usage_usec"));
    micros.or_else(|| Some(nanos()? / 1000)).map(CpuTime)
}

pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Returns the number after `key` in a file of `key number` lines.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix(key)?.strip_prefix(' ')?))
}

/// Parses `8:0 rbytes=1 wbytes=2 rios=…`, one device per line.
fn io_stat_bytes(text: &str) -> u64 {
    let bytes = |field: &str| field.strip_prefix("rbytes=").or(field.strip_prefix("wbytes="))?.parse::<u64>().ok();
    text.split_ascii_whitespace().filter_map(bytes).fold(0, u64::saturating_add)
}

/// Parses `8:0 Read 1`, `8:0 Write 2`, `8:0 Sync 3`, …: each byte is counted once as Read or Write, and again in the other classes.
///
/// Returns `None` without any device: on version 1, newer kernels count nothing until a throttle is set, which is not the same as zero.
fn blkio_bytes(text: &str) -> Option<u64> {
    let bytes = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        matches!(fields.next()?, "Read" | "Write").then(|| fields.next()?.parse::<u64>().ok())?
    };
    text.lines().filter_map(bytes).reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_block_io_counts_once() {
        let v1 = "8:16 Read 4096\n8:16 Write 1000\n8:16 Sync 5096\n8:16 Total 5096\n8:0 Read 4\nTotal 5100\n";
        assert_eq!(blkio_bytes(v1), Some(5100));
        assert_eq!(blkio_bytes("Total 0\n"), None);
        let v2 =
            "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=7 dios=0\n8:0 rbytes=1 wbytes=2 rios=3\n";
        assert_eq!(io_stat_bytes(v2), 1459200 + 314773504 + 3);
    }

    #[test]
    fn only_whole_keys_match() {
        let text = "total_inactive_file_x 1\ninactive_file 2\ntotal_inactive_file 3\n";
        assert_eq!(keyed(text, "inactive_file"), Some(2));
        assert_eq!(keyed(text, "total_inactive_file"), Some(3));
        assert_eq!(keyed(text, "file"), None);
    }
}
