//! The time from a container's start until its weight is in force: the complete daemon compared with a minimal client, on a real dockerd.
//!
//! Minimal: bollard's event stream and one `docker update`. Daemon: `flowcond`, which also inspects the container, opens the cgroup,
//! decides, stores the original limits durably and reads the limits back. The time ends with the response to the update; it starts at the
//! engine's `State.StartedAt`. Run as root: `cargo bench --bench start_to_weight`.

#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

#[path = "../tests/support/mod.rs"]
mod support;

use bollard::models::{ContainerUpdateBody, EventMessage};
use bollard::query_parameters::EventsOptions;
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::cost::median;
use support::daemon::{Daemon, eventually};
use support::engine::{Engine, RunSpec};

const ROUNDS: usize = 25;
/// The label of the daemon's containers, so that the daemon does not touch those of the minimal client.
const DAEMON_LABEL: &str = "flowcon.bench=daemon";

#[tokio::main]
async fn main() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.name=flowcon", "engine.label=flowcon.bench=daemon"]);
    engine.run(RunSpec { name: "neighbour", labels: &[DAEMON_LABEL], ..RunSpec::default() });
    let (mut minimal, mut complete) = (Vec::new(), Vec::new());
    // Alternates between the two, so that both run under the same conditions.
    for round in 0..ROUNDS {
        minimal.push(through_minimal_client(&engine, round).await);
        complete.push(tokio::task::block_in_place(|| through_daemon(&engine, &daemon, round)));
    }
    let (minimal, complete) = (median(minimal), median(complete));
    println!("start to weight, median of {ROUNDS}: minimal client {minimal:.1} ms");
    println!("  flowcond    {complete:.1} ms, ratio {:.2} (target: at most 2)", complete / minimal);
}

/// The milliseconds until the minimal client has updated a new container.
async fn through_minimal_client(engine: &Engine, round: usize) -> f64 {
    let update = tokio::spawn(update_minimally(engine.address()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let name = format!("minimal-{round}");
    tokio::task::block_in_place(|| engine.run(RunSpec { name: &name, ..RunSpec::default() }));
    let done = update.await.unwrap();
    let started = started(engine, &name);
    assert_eq!(engine.docker(&["inspect", "--format", "{{.HostConfig.CpuShares}}", &name]), "256");
    (done.duration_since(UNIX_EPOCH).unwrap().as_secs_f64() - started) * 1e3
}

/// The start time of a container according to the engine, in Unix seconds.
fn started(engine: &Engine, name: &str) -> f64 {
    let started = engine.docker(&["inspect", "--format", "{{.State.StartedAt}}", name]);
    let seconds = std::process::Command::new("date").args(["-d", &started, "+%s.%N"]).output().unwrap().stdout;
    String::from_utf8(seconds).unwrap().trim().parse().unwrap()
}

/// The milliseconds until the daemon has given a new container twice its neighbour's weight, by the time of the daemon's own event.
fn through_daemon(engine: &Engine, daemon: &Daemon, round: usize) -> f64 {
    let name = format!("daemon-{round}");
    engine.run(RunSpec { name: &name, labels: &[DAEMON_LABEL, "flowcon.weight=2"], ..RunSpec::default() });
    let set_ms = eventually("the daemon sets the weight", Duration::from_secs(20), || {
        let events = daemon.stdout_of(&["watch", "--no-follow", "--recent", "20", "-o", "jsonl"]);
        let mut events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        events.find(|event| event["kind"] == "limit" && event["name"] == name.as_str())?["unix_ms"].as_f64()
    });
    let started = started(engine, &name);
    engine.docker(&["rm", "--force", &name]);
    // Waits until the neighbour's weight is adapted too, so that the rounds do not overlap.
    std::thread::sleep(Duration::from_millis(700));
    set_ms - started * 1e3
}

async fn update_minimally(address: String) -> SystemTime {
    let docker = Docker::connect_with_unix(&address, 10, API_DEFAULT_VERSION).unwrap();
    let filters = HashMap::from([("event".to_owned(), vec!["start".to_owned()])]);
    let mut events = docker.events(Some(EventsOptions { filters: Some(filters), ..EventsOptions::default() }));
    let event: EventMessage = events.next().await.unwrap().unwrap();
    let id = event.actor.unwrap().id.unwrap();
    let body = ContainerUpdateBody { cpu_shares: Some(256), ..ContainerUpdateBody::default() };
    docker.update_container(&id, body).await.unwrap();
    SystemTime::now()
}
