//! The cost of governing: `flowcond` with 200 containers that write one log line per second, compared with `docker stats` for the same
//! containers, measured one after the other. `flowcond` runs with the environment of its systemd unit. Run as root:
//! `cargo bench --bench overhead` (`CONTAINERS=50` for fewer, `POLICY=flowcon` for another policy than the default).

#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use support::cost::{docker_stats, number, percents_of_a_core, resident};
use support::daemon::{Daemon, eventually};
use support::engine::{Engine, RunSpec};

const LINE_PER_SECOND: &str =
    "i=0; while true; do i=$((i+1)); echo \"step $i/100000 loss: $((90000-i))\"; sleep 1; done";
const MEASURED: Duration = Duration::from_secs(60);

fn main() {
    let containers: usize = number("CONTAINERS", 200);
    let engine = Engine::start();
    let policy = std::env::var("POLICY").unwrap_or_else(|_| "balanced".to_owned());
    let daemon = Daemon::start_as_unit(&engine.address(), &[&format!("policy.name={policy}")]);
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

    let engines = [pids("dockerd"), pids("containerd")].concat();
    let [daemon_cost, engine_alone] = percents_of_a_core([&[daemon.pid()], &engines], MEASURED);
    let mut stats = docker_stats(&engine.address());
    let [stats_cost, engine_asked] = percents_of_a_core([&[stats.id()], &engines], MEASURED);
    stats.kill().unwrap();
    stats.wait().unwrap();

    println!(
        "{containers} containers, one log line per second each, {policy}, measured for {} s each:",
        MEASURED.as_secs()
    );
    println!(
        "  flowcond      {daemon_cost:.2} % of a core, {:.1} MiB resident (targets: 0.5 %, 24 MiB)",
        resident(daemon.pid())
    );
    println!("  docker stats  {stats_cost:.2} % of a core, and the engine {:+.1} %", engine_asked - engine_alone);
}

fn pids(program: &str) -> Vec<u32> {
    let found = Command::new("pgrep").args(["-x", program]).output().unwrap().stdout;
    String::from_utf8(found).unwrap().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
