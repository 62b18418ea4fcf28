//! The cost of polling a thousand agents: a real coordinator at its default interval, and a second process that runs the agents' server on
//! a thousand addresses of this machine, with five jobs each. For comparison, the same requests are sent without a coordinator, over new
//! connections and over reused ones. Also measured: the memory of a real agent that is polled and has no jobs.
//! `cargo bench --bench cluster_agents` (`SECONDS=20` for a shorter measurement, `AGENTS=100` for fewer agents).

#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

#[path = "../tests/support/agents.rs"]
mod agents;
#[path = "../tests/support/cost.rs"]
mod cost;
#[path = "../tests/served/mod.rs"]
mod served;

use agents::{Authority, Flowcoord, INFO, engine, eventually};
use axum::body::Bytes;
use cost::{number, percent_of_a_core, private, resident};
use flowcon::api::client::Client as Api;
use flowcon::coordinator::agent::{self, Client, ConnectionPool};
use flowcon::coordinator::{AgentSettings, Settings};
use flowcon::model::Millis;
use flowcon::model::swarm::NodeId;
use serde_json::{Value, json};
use served::{Served, busy_node, idle_node};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

const PORT: u16 = 17_951;
const POLL_EVERY: Duration = Duration::from_secs(5);
const TARGET_PERCENT: f64 = 5.0;
const TARGET_MIB: f64 = 10.0;

/// A child process that runs this program in another role.
struct Role(Child);

impl Role {
    fn start(role: &str, folder: &Path) -> Role {
        let program = std::env::current_exe().unwrap();
        Role(Command::new(program).env("ROLE", role).env("FOLDER", folder).spawn().unwrap())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return; // `cargo test` does not run the measurement
    }
    match std::env::var("ROLE").as_deref() {
        Ok("agents") => return run_agents(&PathBuf::from(std::env::var("FOLDER").unwrap())),
        Ok(role) => return poll_agents(&PathBuf::from(std::env::var("FOLDER").unwrap()), role == "reuse"),
        Err(_) => {}
    }
    let seconds = number("SECONDS", 60);
    let over = Duration::from_secs(seconds);
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::in_folder(folder.path());
    authority.issue("n0", "swarm-manager");
    (1..=agents()).for_each(|node| authority.issue(&name(node), "swarm-worker"));
    let _agents = Role::start("agents", folder.path());
    eventually("the engine accepts connections", Duration::from_secs(60), || {
        std::os::unix::net::UnixStream::connect(folder.path().join("engine.sock")).ok()
    });
    let idle = Flowcoord::start(folder.path(), "agent", &authority.files("n0"), PORT);
    let coordinator = Flowcoord::start(folder.path(), "run", &authority.files("n0"), PORT);
    eventually("the coordinator has polled all agents", Duration::from_secs(300), || {
        let status = status(&folder.path().join("run.sock"))?;
        let polled = status["nodes"].as_array()?.iter().filter(|node| node["agent"].is_string()).count();
        (polled > agents()).then_some(())
    });
    std::thread::sleep(Duration::from_secs(15));
    println!(
        "{} agents with 5 jobs each, polled every {} s, measured for {seconds} s each:",
        agents(),
        POLL_EVERY.as_secs()
    );
    let (percent, mib) = (percent_of_a_core(&[coordinator.0.id()], over), resident(coordinator.0.id()));
    println!(
        "  flowcoord run, complete        {percent:.2} % of a core, {mib:.1} MiB resident (target: {TARGET_PERCENT} %)"
    );
    let (rss, own) = (resident(idle.0.id()), private(idle.0.id()));
    println!("  an agent without jobs          {rss:.1} MiB resident, {own:.1} MiB private (target: {TARGET_MIB} MiB)");
    drop(coordinator);
    for (role, description) in [("reuse", "only requests, reused"), ("new", "a new connection for each")] {
        let poller = Role::start(role, folder.path());
        std::thread::sleep(Duration::from_secs(30));
        println!("  {description:<29}  {:.2} % of a core", percent_of_a_core(&[poller.0.id()], over));
    }
}

fn status(socket: &Path) -> Option<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Api::new(socket, Duration::from_secs(5)).get("/v1/cluster")).ok()
}

fn agents() -> usize {
    number("AGENTS", 1000)
}

fn name(node: usize) -> String {
    format!("n{node}")
}

/// The address of a node's agent. Node 0 is this machine, with the real agent.
fn address(node: usize) -> String {
    if node == 0 { "127.0.0.1".to_owned() } else { format!("127.1.{}.{}", node / 200, node % 200 + 1) }
}

/// Runs all agents until killed. They share one engine and one flowcond, both simulated.
fn run_agents(folder: &Path) {
    let busy = Served::new(busy_node());
    let idle = Served::new(idle_node());
    std::os::unix::fs::symlink(&idle.socket, folder.join("idle.sock")).unwrap();
    let containers = busy_node().jobs.into_iter().map(|job| {
        let id = job.observed.id.as_str().to_owned();
        json!({"Id": id, "State": "running", "Labels": {"com.docker.swarm.service.id": format!("service-of-{id}"),
            "com.docker.swarm.task.id": format!("task-of-{id}")}})
    });
    let containers = Bytes::from(Value::Array(containers.collect()).to_string());
    let nodes = Bytes::from(Value::Array((0..=agents()).map(node).collect()).to_string());
    engine(&folder.join("engine.sock"), move |path| match path {
        "/info" => Bytes::from_static(INFO.as_bytes()),
        "/nodes" => nodes.clone(),
        "/containers/json" => containers.clone(),
        _ => Bytes::from_static(b"[]"),
    });
    let authority = Authority::of_folder(folder);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut running = tokio::task::JoinSet::new();
        let mut controls = Vec::new();
        for node in 1..=agents() {
            let settings = Settings {
                engine: Some(folder.join("engine.sock").display().to_string()),
                socket: folder.join("none.sock"),
                agent: AgentSettings {
                    port: PORT,
                    listen: Some(address(node)),
                    flowcond: busy.socket.clone(),
                    certificates: Some(authority.files(&name(node))),
                    ..AgentSettings::default()
                },
                ..Settings::default()
            };
            let (control, requests) = mpsc::channel(1);
            controls.push(control);
            running.spawn(agent::run(settings, requests));
        }
        let ended = running.join_next().await;
        panic!("an agent stopped: {ended:?}");
    });
}

fn node(number: usize) -> Value {
    json!({
        "ID": name(number),
        "Version": {"Index": 1},
        "Spec": {"Availability": "active", "Role": if number == 0 { "manager" } else { "worker" }, "Labels": {}},
        "Description": {"Hostname": name(number), "Resources": {"NanoCPUs": 16_000_000_000_u64, "MemoryBytes": 1_u64 << 36},
            "Engine": {"EngineVersion": "20.10.24"}},
        "Status": {"State": "ready", "Addr": address(number)},
        "ManagerStatus": if number == 0 { json!({"Leader": true, "Addr": "127.0.0.1:2377"}) } else { Value::Null },
    })
}

/// Sends the coordinator's requests to all agents until killed, without the rest of the coordinator.
fn poll_agents(folder: &Path, reuse_connections: bool) {
    let identity = Authority::of_folder(folder).identity("n0");
    let (connections, failed) = (Arc::new(ConnectionPool::default()), Arc::new(AtomicU64::new(0)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for node in 1..=agents() {
            let client = Client::new(identity.clone(), NodeId(name(node).into()), &address(node), PORT);
            let client = if reuse_connections { client.with_pool(connections.clone()) } else { client };
            let failed = failed.clone();
            tokio::spawn(async move {
                tokio::time::sleep(POLL_EVERY * node as u32 / agents() as u32).await;
                let mut interval = tokio::time::interval(POLL_EVERY);
                loop {
                    interval.tick().await;
                    let report = client.report(&[], Millis::from_secs(60)).await;
                    if report.is_err() && failed.fetch_add(1, Ordering::Relaxed).is_multiple_of(1000) {
                        eprintln!("{report:?}");
                    }
                }
            });
        }
        std::future::pending::<()>().await;
    });
}
