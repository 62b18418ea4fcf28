//! What looking at GPUs costs: a daemon that sees 8 GPUs with 20 processes each, through the stand-in for NVIDIA's library, beside one
//! that looks at none, in the same minutes. Run as root: `cargo bench --bench gpu` (`SECONDS=60` for a shorter measurement).

#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

#[path = "../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::cost::{cpu_of, resident};
use support::daemon::{Daemon, eventually};
use support::gpu::StandIn;

const GPUS: usize = 8;
const PROCESSES: usize = 20;
const TARGET_PERCENT: f64 = 0.2;

struct Sleeping(Vec<Child>);

impl Drop for Sleeping {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn main() {
    let seconds = std::env::var("SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    let processes: Vec<Child> = (0..GPUS * PROCESSES)
        .map(|_| Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap())
        .collect();
    let processes = Sleeping(processes);
    let stand_in = StandIn::of(&[]);
    let mut script = String::new();
    for gpu in 0..GPUS {
        writeln!(script, "gpu {gpu} GPU-{gpu} 90 30000000000 42949672960 212500 400000 61 1410 1215 0 NVIDIA A100")
            .unwrap();
    }
    for (number, process) in processes.0.iter().enumerate() {
        writeln!(script, "process {} {} 4 1073741824", number % GPUS, process.id()).unwrap();
    }
    stand_in.says(&script);
    let looking = stand_in.daemon(&[]);
    let blind = Daemon::start("off", &["gpu.library=off"]);
    eventually("the GPUs are seen", Duration::from_secs(30), || {
        let status: serde_json::Value = serde_json::from_str(&looking.stdout_of(&["status", "-o", "json"])).unwrap();
        (status["node"]["gpus"].as_array().is_some_and(|gpus| gpus.len() == GPUS)).then_some(())
    });
    sleep(Duration::from_secs(5));
    let before = [&looking, &blind].map(|daemon| cpu_of(&[daemon.pid()]));
    sleep(Duration::from_secs(seconds));
    let cost = |daemon: &Daemon, before: f64| (cpu_of(&[daemon.pid()]) - before) / seconds as f64 * 100.0;
    let (with, without) = (cost(&looking, before[0]), cost(&blind, before[1]));
    println!("{GPUS} GPUs with {PROCESSES} processes each, {seconds} s:");
    println!("  looking at them  {with:.3} % of a core, {:.1} MiB resident", resident(looking.pid()));
    println!("  not looking      {without:.3} % of a core, {:.1} MiB resident", resident(blind.pid()));
    println!("  the difference   {:.3} % of a core (target: {TARGET_PERCENT} %)", with - without);
}
