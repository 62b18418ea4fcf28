//! The cost of governing: `flowcond` with 200 containers that write one log line per second, compared with `docker stats` for the same
//! containers, measured one after the other. Run as root: `cargo bench --bench overhead` (`CONTAINERS=50` for fewer, `POLICY=flowcon`
//! for another policy than the default).

#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::cost::{cpu_of, resident};
use support::daemon::{Daemon, eventually};
use support::engine::{Engine, RunSpec};

const LINE_PER_SECOND: &str =
    "i=0; while true; do i=$((i+1)); echo \"step $i/100000 loss: $((90000-i))\"; sleep 1; done";
const MEASURED: Duration = Duration::from_secs(60);

fn main() {
    let containers: usize = std::env::var("CONTAINERS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let engine = Engine::start();
    let policy = std::env::var("POLICY").unwrap_or_else(|_| "balanced".to_owned());
    let daemon = Daemon::start(&engine.address(), &[&format!("policy.name={policy}")]);
    for n in 0..containers {
        let name = format!("job-{n}");
        engine.run(RunSpec {
            name: &name,
            labels: &["flowcon.enable=true"],
            script: LINE_PER_SECOND,
            ..RunSpec::default()
        });
    }
    eventually("the daemon reads the metric of every job", Duration::from_secs(120), || {
        let jobs = daemon.jobs();
        (jobs.len() == containers && jobs.iter().all(|job| job["metric"].is_object())).then_some(())
    });
    sleep(Duration::from_secs(25)); // until the decisions caused by the starts are over

    let engines = || cpu_of(&pids("dockerd")) + cpu_of(&pids("containerd"));
    let daemon_cost = measure(|| cpu_of(&[daemon.pid()]), &engines);
    let mut stats = Command::new("docker")
        .args(["--host", &engine.address(), "stats", "--format", "{{.Name}} {{.CPUPerc}}"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    sleep(Duration::from_secs(3));
    let stats_cost = measure(|| cpu_of(&[stats.id()]), &engines);
    stats.kill().unwrap();
    stats.wait().unwrap();

    println!(
        "{containers} containers, one log line per second each, {policy}, measured for {} s each:",
        MEASURED.as_secs()
    );
    println!(
        "  flowcond      {:.2} % of a core, {:.1} MiB resident (targets: 1 %, 40 MiB)",
        daemon_cost.0,
        resident(daemon.pid())
    );
    println!("  docker stats  {:.2} % of a core, and the engine {:+.1} %", stats_cost.0, stats_cost.1 - daemon_cost.1);
}

/// The CPU use of a program and of the engine over [`MEASURED`], in percent of a core.
fn measure(program: impl Fn() -> f64, engine: &impl Fn() -> f64) -> (f64, f64) {
    let (began, before, engine_before) = (Instant::now(), program(), engine());
    sleep(MEASURED);
    let seconds = began.elapsed().as_secs_f64();
    ((program() - before) / seconds * 100.0, (engine() - engine_before) / seconds * 100.0)
}

fn pids(program: &str) -> Vec<u32> {
    let found = Command::new("pgrep").args(["-x", program]).output().unwrap().stdout;
    String::from_utf8(found).unwrap().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
