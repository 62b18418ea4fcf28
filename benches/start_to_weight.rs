//! The time from a container's start until its weight is in force: the complete daemon compared with a minimal client, on a real dockerd.
//!
//! Minimal: bollard's event stream and one `docker update`. Client: [`watch`] (which inspects the started container) and
//! [`Engine::update`]. Daemon: `flowcond`, which also opens the cgroup, decides, stores the original limits durably and reads the limits
//! back. The time ends with the response to the update; it starts at the engine's `State.StartedAt`.
//! Also prints the cost of listing the containers, which the daemon does every 30 s. Run as root: `cargo bench --bench start_to_weight`.

#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

#[path = "../tests/support/mod.rs"]
mod support;

use bollard::models::{ContainerUpdateBody, EventMessage};
use bollard::query_parameters::EventsOptions;
use bollard::{API_DEFAULT_VERSION, Docker};
use flowcon::host::docker::{Engine as Client, EngineAddress, EngineEvent, EngineName, Wanted, watch};
use flowcon::model::{CpuWeight, Setting};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::daemon::{Daemon, eventually};
use support::engine::{Engine, RunSpec};
use tokio::sync::mpsc;

const LABEL: &str = "flowcon.enable=true";
const ROUNDS: usize = 25;
/// The label of the daemon's containers, so that the daemon does not touch those of the other clients.
const DAEMON_LABEL: &str = "flowcon.bench=daemon";

#[tokio::main]
async fn main() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.name=flowcon", "engine.label=flowcon.bench=daemon"]);
    engine.run(RunSpec { name: "neighbour", labels: &[DAEMON_LABEL], ..RunSpec::default() });
    let (mut minimal, mut client, mut complete) = (Vec::new(), Vec::new(), Vec::new());
    // Alternates between the three, so that all run under the same conditions.
    for round in 0..ROUNDS {
        minimal.push(start_to_weight(&engine, round, Side::Minimal).await);
        client.push(start_to_weight(&engine, round, Side::Client).await);
        complete.push(tokio::task::block_in_place(|| through_daemon(&engine, &daemon, round)));
    }
    let (minimal, client, complete) = (median(minimal), median(client), median(complete));
    println!("start to weight, median of {ROUNDS}: minimal client {minimal:.1} ms");
    println!("  our client  {client:.1} ms, ratio {:.2}", client / minimal);
    println!("  flowcond    {complete:.1} ms, ratio {:.2} (target: at most 2)", complete / minimal);
    print_list_cost(&engine).await;
}

#[derive(Clone, Copy)]
enum Side {
    Minimal,
    Client,
}

async fn start_to_weight(engine: &Engine, round: usize, side: Side) -> f64 {
    let update = match side {
        Side::Minimal => tokio::spawn(update_minimally(engine.address())),
        Side::Client => tokio::spawn(update_with_client(engine.address())),
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    let name = format!("{}-{round}", if matches!(side, Side::Minimal) { "minimal" } else { "client" });
    tokio::task::block_in_place(|| engine.run(RunSpec { name: &name, labels: &[LABEL], ..RunSpec::default() }));
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

async fn update_with_client(address: String) -> SystemTime {
    let client = Client::new(EngineAddress::parse(&address).unwrap());
    let (sender, mut events) = mpsc::channel(16);
    tokio::spawn(watch(client.clone(), Wanted::labelled(LABEL), sender));
    let mut conversion = None;
    loop {
        match events.recv().await.unwrap() {
            EngineEvent::Connected(info) => conversion = Some(info.conversion),
            EngineEvent::Started(container) => {
                // 256 shares on cgroup v1, and the equivalent weight on cgroup v2.
                let conversion = conversion.unwrap();
                let weight = Setting::CpuWeight(CpuWeight::clamped(f64::from(conversion.weight(256))));
                let mut limits = container.limits;
                limits.cpu_shares = 256;
                client.update(&container.id, &limits, conversion, &[weight]).await.unwrap();
                return SystemTime::now();
            }
            _ => {}
        }
    }
}

async fn print_list_cost(engine: &Engine) {
    let client = Client::new(EngineAddress::parse(&engine.address()).unwrap());
    let (began, cpu) = (Instant::now(), own_cpu_ms());
    let listed = client.list(LABEL).await.unwrap();
    for row in &listed {
        client.inspect(&row.id, EngineName::Docker).await.unwrap();
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64() * 1e3, own_cpu_ms() - cpu);
    let count = listed.len() as f64;
    println!("listing {count} containers: {:.2} ms each, {:.2} ms of own CPU time each", wall / count, cpu / count);
}

fn own_cpu_ms() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let nanos: f64 = threads
        .filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()))
        .sum();
    nanos / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
