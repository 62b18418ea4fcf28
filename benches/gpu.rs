//! The cost of reading GPUs: a daemon that reads 8 GPUs with 20 processes each, through the stand-in for NVIDIA's library, compared with
//! one that reads none, measured at the same time. Run as root: `cargo bench --bench gpu` (`SECONDS=60` for a shorter measurement).

#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

#[path = "../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::cost::{number, percents_of_a_core, resident};
use support::daemon::{Daemon, eventually};
use support::gpu::StandIn;

const GPUS: usize = 8;
const PROCESSES: usize = 20;
const TARGET_PERCENT: f64 = 0.2;

/// Processes that are killed on drop.
struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn main() {
    let seconds = number("SECONDS", 120);
    let processes: Vec<Child> = (0..GPUS * PROCESSES)
        .map(|_| Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap())
        .collect();
    let processes = Sleepers(processes);
    let stand_in = StandIn::of(&[]);
    let mut script = String::new();
    for gpu in 0..GPUS {
        writeln!(script, "gpu {gpu} GPU-{gpu} 90 30000000000 42949672960 212500 400000 61 1410 1215 0 NVIDIA A100")
            .unwrap();
    }
    for (number, process) in processes.0.iter().enumerate() {
        writeln!(script, "process {} {} 4 1073741824", number % GPUS, process.id()).unwrap();
    }
    stand_in.set_script(&script);
    let with_gpus = stand_in.daemon(&[]);
    let without_gpus = Daemon::start("off", &["gpu.library=off"]);
    eventually("the daemon reports the GPUs", Duration::from_secs(30), || {
        let status: serde_json::Value = serde_json::from_str(&with_gpus.stdout_of(&["status", "-o", "json"])).unwrap();
        (status["node"]["gpus"].as_array().is_some_and(|gpus| gpus.len() == GPUS)).then_some(())
    });
    sleep(Duration::from_secs(5));
    let over = Duration::from_secs(seconds);
    let [with, without] = percents_of_a_core([&[with_gpus.pid()], &[without_gpus.pid()]], over);
    println!("{GPUS} GPUs with {PROCESSES} processes each, {seconds} s:");
    println!("  reading GPUs      {with:.3} % of a core, {:.1} MiB resident", resident(with_gpus.pid()));
    println!("  not reading GPUs  {without:.3} % of a core, {:.1} MiB resident", resident(without_gpus.pid()));
    println!("  difference        {:.3} % of a core (target: {TARGET_PERCENT} %)", with - without);
}
