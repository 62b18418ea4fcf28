//! What a process costs, as the kernel counts it. For benchmarks.

#![allow(dead_code)] // each benchmark uses a part of it
#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

use std::fs;

/// CPU seconds of whole processes, their ended threads included.
pub fn cpu_of(pids: &[u32]) -> f64 {
    let ticks = |pid: &u32| -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    pids.iter().filter_map(ticks).sum::<f64>() / rustix::param::clock_ticks_per_second() as f64
}

/// MiB in memory.
pub fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// MiB that no other process shares.
pub fn private(pid: u32) -> f64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let lines = maps.lines().filter(|line| line.starts_with("Private_"));
    lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()).sum::<f64>() / 1024.0
}
