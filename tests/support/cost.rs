//! CPU time and memory of a process, for benchmarks.

#![allow(dead_code)] // each benchmark needs only a part of it
#![allow(clippy::unwrap_used)] // benchmarks fail by panicking

use std::fs;

/// CPU seconds of whole processes, including their ended threads.
pub fn cpu_of(pids: &[u32]) -> f64 {
    let ticks = |pid: &u32| -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    pids.iter().filter_map(ticks).sum::<f64>() / rustix::param::clock_ticks_per_second() as f64
}

/// Resident memory in MiB.
pub fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Memory not shared with other processes, in MiB.
pub fn private(pid: u32) -> f64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let lines = maps.lines().filter(|line| line.starts_with("Private_"));
    lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()).sum::<f64>() / 1024.0
}
