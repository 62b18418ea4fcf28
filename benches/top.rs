//! The cost of `flowctl top`: CPU time of the real program on a real pseudo-terminal, refreshing ten times per second with 200 jobs.
//!
//! The real server publishes a new snapshot over a real socket ten times per second (all numbers of all jobs change), then every
//! two seconds (as the daemon does). For comparison, on the same terminal and at the same rate: `flowctl status --watch`, and the
//! system's `top` and `htop` on the processes of this machine, if installed. CPU time is user plus system time, of all threads.

#[path = "../tests/pty/mod.rs"]
mod pty;
#[path = "../tests/served/mod.rs"]
mod served;

use flowcon::model::{NodeStatus, Share};
use pty::Pty;
use served::{Served, busy_node, idle_node};
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const JOBS: usize = 200;
const REFRESHES_PER_SECOND: f64 = 10.0;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(15);

/// The maximum CPU use, as a fraction of a core.
const TARGET: f64 = 0.05;

fn main() {
    println!(
        "{JOBS} jobs, {REFRESHES_PER_SECOND} refreshes per second, {} s each, load {}",
        MEASURED.as_secs(),
        load()
    );
    println!("{:<52} {:>9} {:>12} {:>10}", "", "of a core", "CPU a look", "to the pty");
    let flowctl = env!("CARGO_BIN_EXE_flowctl");
    let mut worst = 0.0_f64;
    for (every_s, snapshots) in [(0.1, "a snapshot per refresh"), (2.0, "a snapshot every 2 s")] {
        let served = Served::new(full_node(0));
        let socket = served.socket.display().to_string();
        while_publishing(&served, every_s, || {
            for (columns, rows) in [(80, 24), (200, 60)] {
                let name = format!("flowctl top, {columns}×{rows}, {snapshots}");
                worst = worst.max(measure(&name, &format!("{flowctl} --socket {socket} top -d 0.1"), columns, rows));
            }
            let watch = format!("{flowctl} --socket {socket} status --watch=0.1");
            measure(&format!("flowctl status --watch, {snapshots}"), &watch, 200, 60);
        });
    }
    for (name, command) in [("the system's top", "top -d 0.1"), ("htop", "htop -d 1")] {
        if installed(command) {
            measure(&format!("{name}, 200×60, {} processes", processes()), command, 200, 60);
        }
    }
    let verdict = if worst <= TARGET { "met" } else { "MISSED" };
    println!("target of at most {:.0} % of a core for flowctl top: {verdict} ({:.1} %)", TARGET * 100.0, worst * 100.0);
}

/// A node of [`JOBS`] jobs, with every kind of job in turn. All their numbers change a little with each tick.
fn full_node(tick: u64) -> NodeStatus {
    let mut node = idle_node();
    node.ticks = tick;
    node.unix_ms = unix_ms();
    node.jobs = busy_node().jobs.into_iter().cycle().take(JOBS).collect();
    for (number, job) in node.jobs.iter_mut().enumerate() {
        let phase = (tick as f64 + 7.0 * number as f64) / 50.0;
        job.observed.id = flowcon::model::ContainerId::new(&format!("{number:064x}"));
        job.observed.name = format!("training-{number:03}");
        job.recent = (0..60).map(|at| 0.5 + 0.4 * (phase + f64::from(at) / 10.0).sin()).collect();
        job.cpu_used = Some(0.5 + 0.5 * phase.cos());
        if let Some(latest) = &mut job.observed.learning.latest {
            latest.value = 0.5 + 0.4 * phase.sin();
        }
        if let Some(plan) = &mut job.plan {
            plan.share = Share::clamped(0.5 + 0.5 * phase.sin());
        }
    }
    node
}

/// Publishes a snapshot every `every_s` seconds while `work` runs.
fn while_publishing(served: &Served, every_s: f64, mut work: impl FnMut()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut tick = 0;
            while !done.load(Ordering::Relaxed) {
                tick += 1;
                served.status.send(Arc::new(full_node(tick))).expect("the server listens");
                sleep(Duration::from_secs_f64(every_s));
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
}

/// Runs the command on a terminal and prints its cost; returns its CPU use as a fraction of a core.
fn measure(name: &str, command: &str, columns: u16, rows: u16) -> f64 {
    let pty = Pty::run(command, rows, columns, &[]);
    sleep(WARM_UP);
    let (cpu, bytes, started) = (cpu_time(pty.pid()), pty.written(), Instant::now());
    sleep(MEASURED);
    let elapsed = started.elapsed().as_secs_f64();
    let cpu = cpu_time(pty.pid()) - cpu;
    let bytes = pty.written() - bytes;
    assert!(bytes > 0, "{name} draws nothing:\n{}", pty.screen());
    let refreshes = elapsed * REFRESHES_PER_SECOND;
    println!(
        "{name:<52} {:>7.2} % {:>9.2} ms {:>7.1} kB/s",
        100.0 * cpu / elapsed,
        1000.0 * cpu / refreshes,
        bytes as f64 / elapsed / 1000.0
    );
    cpu / elapsed
}

/// The CPU time of a process with all its threads, in seconds: `utime` plus `stime` of `/proc/PID/stat`.
fn cpu_time(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks: f64 = [11, 12].iter().map(|at| fields[*at].parse::<f64>().expect("a number")).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or("?").to_owned()
}

fn processes() -> usize {
    let numeric = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    fs::read_dir("/proc")
        .map_or(0, |all| all.flatten().filter(|entry| numeric(&entry.file_name().to_string_lossy())).count())
}

fn installed(command: &str) -> bool {
    let program = command.split(' ').next().unwrap_or(command);
    Command::new("sh").args(["-c", &format!("command -v {program}")]).output().is_ok_and(|found| found.status.success())
}
