//! What `flowctl top` costs: CPU time of the real program on a real pseudo-terminal, looking ten times a second at 200 jobs.
//!
//! Served over a real socket by the real server, with another snapshot ten times a second (all numbers of all jobs move) and every
//! two seconds (as the daemon publishes). Beside it, on the same terminal and as often: `flowctl status --watch`, and the system's own
//! `top` and `htop` over whatever runs on this machine, where they are installed. CPU time is user and system, of all threads.

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
const LOOKS_A_SECOND: f64 = 10.0;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(15);

/// Part of a core that is not to be exceeded.
const TARGET: f64 = 0.05;

fn main() {
    println!("{JOBS} jobs, {LOOKS_A_SECOND} looks a second, {} s each, {} load", MEASURED.as_secs(), load());
    println!("{:<52} {:>9} {:>12} {:>10}", "", "of a core", "CPU a look", "to the pty");
    let flowctl = env!("CARGO_BIN_EXE_flowctl");
    let mut worst = 0.0_f64;
    for (every, words) in [(0.1, "another snapshot at each look"), (2.0, "another snapshot every 2 s")] {
        let served = Served::new(full_node(0));
        let socket = served.socket.display().to_string();
        publishing(&served, every, || {
            for (columns, rows) in [(80, 24), (200, 60)] {
                let what = format!("flowctl top, {columns}×{rows}, {words}");
                worst = worst.max(measured(&what, &format!("{flowctl} --socket {socket} top -d 0.1"), columns, rows));
            }
            let watch = format!("{flowctl} --socket {socket} status --watch=0.1");
            measured(&format!("flowctl status --watch, {words}"), &watch, 200, 60);
        });
    }
    for (what, command) in [("top of the system", "top -d 0.1"), ("htop", "htop -d 1")] {
        if installed(command) {
            measured(&format!("{what}, 200×60, {} processes", processes()), command, 200, 60);
        }
    }
    let verdict = if worst <= TARGET { "kept" } else { "MISSED" };
    println!("at most {:.0} % of a core for flowctl top: {verdict} ({:.1} %)", TARGET * 100.0, worst * 100.0);
}

/// As many jobs of each sort as there are, all their numbers a little further at each tick.
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

/// Publishes snapshots while `work` goes on.
fn publishing(served: &Served, every: f64, mut work: impl FnMut()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut tick = 0;
            while !done.load(Ordering::Relaxed) {
                tick += 1;
                served.status.send(Arc::new(full_node(tick))).expect("the server listens");
                sleep(Duration::from_secs_f64(every));
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
}

/// Runs the command on a terminal and prints what it costs; the part of a core.
fn measured(what: &str, command: &str, columns: u16, rows: u16) -> f64 {
    let pty = Pty::run(command, rows, columns, &[]);
    sleep(WARM_UP);
    let (cpu, bytes, begun) = (cpu_time(pty.pid()), pty.written(), Instant::now());
    sleep(MEASURED);
    let took = begun.elapsed().as_secs_f64();
    let cpu = cpu_time(pty.pid()) - cpu;
    let bytes = pty.written() - bytes;
    assert!(bytes > 0, "{what} draws nothing:\n{}", pty.screen());
    let looks = took * LOOKS_A_SECOND;
    println!(
        "{what:<52} {:>7.2} % {:>9.2} ms {:>7.1} kB/s",
        100.0 * cpu / took,
        1000.0 * cpu / looks,
        bytes as f64 / took / 1000.0
    );
    cpu / took
}

/// CPU time of a process with all its threads, in seconds: `utime` and `stime` of `/proc/PID/stat`.
fn cpu_time(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
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
