//! CPU time and memory of processes, and what else several benchmarks need.

#![allow(dead_code)] // each benchmark needs only a part of it
#![allow(clippy::unwrap_used)] // benchmarks fail by panicking

use std::fs;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// CPU seconds of whole processes, including their ended threads.
pub fn cpu_of(pids: &[u32]) -> f64 {
    let ticks = |pid: &u32| -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    pids.iter().filter_map(ticks).sum::<f64>() / rustix::param::clock_ticks_per_second() as f64
}

/// CPU time of this thread, which is independent of other processes.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU use of processes over a time, in percent of a core.
pub fn percent_of_a_core(pids: &[u32], over: Duration) -> f64 {
    let [percent] = percents_of_a_core([pids], over);
    percent
}

/// CPU use of several groups of processes over the same time, each in percent of a core.
pub fn percents_of_a_core<const GROUPS: usize>(groups: [&[u32]; GROUPS], over: Duration) -> [f64; GROUPS] {
    let (began, before) = (Instant::now(), groups.map(cpu_of));
    sleep(over);
    let (seconds, after) = (began.elapsed().as_secs_f64(), groups.map(cpu_of));
    std::array::from_fn(|group| (after[group] - before[group]) / seconds * 100.0)
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

/// The number in an environment variable, or the default.
pub fn number<T: FromStr>(variable: &str, default: T) -> T {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The median; of an even number of values, the upper of the middle two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Starts `docker stats` for all containers of an engine; returns when it has started to print.
pub fn docker_stats(address: &str) -> Child {
    let stats = Command::new("docker")
        .args(["--host", address, "stats", "--format", "{{.Name}} {{.CPUPerc}}"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    sleep(Duration::from_secs(3));
    stats
}
