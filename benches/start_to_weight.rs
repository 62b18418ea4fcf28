//! From a container's start to its weight in force: the whole daemon beside the barest possible client, on a real dockerd.
//!
//! Bare: bollard's event stream and one `docker update`. Client: [`watch`] (which inspects what started) and
//! [`Engine::update`]. Daemon: `flowcond`, which also opens the cgroup, decides, makes the original durable and reads back.
//! Each waits until the update is answered; the clock starts at the engine's `State.StartedAt`.
//! Also what one round of listing costs: it happens every 30 s. Run as root: `cargo bench --bench start_to_weight`.

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
/// The daemon's containers carry another label, so that it leaves the other clients' alone.
const DAEMONS_LABEL: &str = "flowcon.bench=daemon";

#[tokio::main]
async fn main() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.name=flowcon", "engine.label=flowcon.bench=daemon"]);
    engine.run(RunSpec { name: "neighbour", labels: &[DAEMONS_LABEL], ..RunSpec::default() });
    let (mut bare, mut ours, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that both meet the same machine.
    for round in 0..ROUNDS {
        bare.push(start_to_weight(&engine, round, Side::Bare).await);
        ours.push(start_to_weight(&engine, round, Side::Ours).await);
        whole.push(tokio::task::block_in_place(|| through_daemon(&engine, &daemon, round)));
    }
    let (bare, ours, whole) = (median(bare), median(ours), median(whole));
    println!("start to weight, median of {ROUNDS}: bare {bare:.1} ms");
    println!("  our client  {ours:.1} ms, ratio {:.2}", ours / bare);
    println!("  flowcond    {whole:.1} ms, ratio {:.2} (target: at most 2)", whole / bare);
    cost_of_a_list(&engine).await;
}

#[derive(Clone, Copy)]
enum Side {
    Bare,
    Ours,
}

async fn start_to_weight(engine: &Engine, round: usize, side: Side) -> f64 {
    let watching = match side {
        Side::Bare => tokio::spawn(bare(engine.address())),
        Side::Ours => tokio::spawn(ours(engine.address())),
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    let name = format!("{}-{round}", if matches!(side, Side::Bare) { "bare" } else { "ours" });
    tokio::task::block_in_place(|| engine.run(RunSpec { name: &name, labels: &[LABEL], ..RunSpec::default() }));
    let done = watching.await.unwrap();
    let started = started(engine, &name);
    assert_eq!(engine.docker(&["inspect", "--format", "{{.HostConfig.CpuShares}}", &name]), "256");
    (done.duration_since(UNIX_EPOCH).unwrap().as_secs_f64() - started) * 1e3
}

/// When the engine says that a container started, Unix seconds.
fn started(engine: &Engine, name: &str) -> f64 {
    let started = engine.docker(&["inspect", "--format", "{{.State.StartedAt}}", name]);
    let seconds = std::process::Command::new("date").args(["-d", &started, "+%s.%N"]).output().unwrap().stdout;
    String::from_utf8(seconds).unwrap().trim().parse().unwrap()
}

/// Twice its neighbour's weight is due at once: the daemon's own event says when it stood.
fn through_daemon(engine: &Engine, daemon: &Daemon, round: usize) -> f64 {
    let name = format!("daemon-{round}");
    engine.run(RunSpec { name: &name, labels: &[DAEMONS_LABEL, "flowcon.weight=2"], ..RunSpec::default() });
    let stood = eventually("its weight stands", Duration::from_secs(20), || {
        let events = daemon.stdout_of(&["watch", "--no-follow", "--recent", "20", "-o", "jsonl"]);
        let mut events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        events.find(|event| event["kind"] == "limit" && event["name"] == name.as_str())?["unix_ms"].as_f64()
    });
    let started = started(engine, &name);
    engine.docker(&["rm", "--force", &name]);
    // The neighbour's weight follows; the next round begins from rest.
    std::thread::sleep(Duration::from_millis(700));
    stood - started * 1e3
}

async fn bare(address: String) -> SystemTime {
    let docker = Docker::connect_with_unix(&address, 10, API_DEFAULT_VERSION).unwrap();
    let filters = HashMap::from([("event".to_owned(), vec!["start".to_owned()])]);
    let mut events = docker.events(Some(EventsOptions { filters: Some(filters), ..EventsOptions::default() }));
    let event: EventMessage = events.next().await.unwrap().unwrap();
    let id = event.actor.unwrap().id.unwrap();
    let body = ContainerUpdateBody { cpu_shares: Some(256), ..ContainerUpdateBody::default() };
    docker.update_container(&id, body).await.unwrap();
    SystemTime::now()
}

async fn ours(address: String) -> SystemTime {
    let client = Client::new(EngineAddress::parse(&address).unwrap());
    let (sender, mut events) = mpsc::channel(16);
    tokio::spawn(watch(client.clone(), Wanted::labelled(LABEL), sender));
    let mut conversion = None;
    loop {
        match events.recv().await.unwrap() {
            EngineEvent::Connected(info) => conversion = Some(info.conversion),
            EngineEvent::Started(container) => {
                // 256 shares on cgroup v1; whatever gives the same weight elsewhere.
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

async fn cost_of_a_list(engine: &Engine) {
    let client = Client::new(EngineAddress::parse(&engine.address()).unwrap());
    let (began, cpu) = (Instant::now(), own_cpu_ms());
    let listed = client.list(LABEL).await.unwrap();
    for row in &listed {
        client.inspect(&row.id, EngineName::Docker).await.unwrap();
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64() * 1e3, own_cpu_ms() - cpu);
    let each = listed.len() as f64;
    println!("one list of {each} containers: {:.2} ms each, {:.2} ms of own CPU each", wall / each, cpu / each);
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
