//! `flowctl cluster doctor`: checks the coordinator, the engine, every agent and the certificates. Changes nothing.

use super::super::doctor::{Check, print};
use super::super::flowcoord::DEFAULT_FILE;
use super::health::{self, AgentReply};
use api::client::Client;
use api::wire::Cluster;
use coordinator::Settings;
use coordinator::agent;
use futures_util::{StreamExt, stream};
use model::Millis;
use model::swarm::SwarmNode;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use swarm::{Certificates, Engine, EngineInfo, Identity};
use term::exit::{Exit, Failure};
use term::screen::Screen;

/// Number of agents queried concurrently.
const AT_ONCE: usize = 32;
/// Timeout of one agent.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `flowctl cluster doctor`.
#[derive(clap::Args, Debug)]
pub(super) struct DoctorArgs {
    /// The coordinator's configuration [default: /etc/flowcon/flowcoord.toml]
    #[arg(long, env = "FLOWCOORD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The engine's socket, such as unix:///var/run/docker.sock
    #[arg(long, value_name = "ADDRESS")]
    engine: Option<String>,
}

/// Runs and prints all checks; fails if one of them failed.
pub(super) async fn doctor(client: &Client, args: &DoctorArgs, screen: &Screen) -> Result<Exit, Failure> {
    let file = args.config.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    let mut settings = Settings::load(&file, args.config.is_some())
        .map_err(|error| Failure::new(Exit::Usage, error.to_string(), "`flowcoord check-config` checks it"))?;
    settings.engine = args.engine.clone().or(settings.engine);
    let mut checks = Vec::new();
    if let Some((engine, info)) = swarm(&settings, &mut checks).await {
        if info.is_manager {
            checks.push(health::coordinator(client.get::<Cluster>("/v1/cluster").await.as_ref()));
        }
        let certificates = match settings.agent.certificates.clone() {
            Some(files) => Certificates::of_files(files.certificate, files.key, files.authority),
            None => Certificates::of_swarm(&info.data),
        };
        let identity = certificates.load();
        checks.push(health::certificate(&identity, unix().0 / 1000));
        if let Ok(identity) = identity {
            checks.extend(agents(&engine, &info, identity, settings.agent.port).await);
        }
    }
    print(checks, screen)
}

/// Checks the engine of this node; returns it if it is in a Swarm.
async fn swarm(settings: &Settings, checks: &mut Vec<Check>) -> Option<(Engine, EngineInfo)> {
    let engine = Engine::at(settings.engine.as_deref());
    let info = match &engine {
        Ok(engine) => engine.info().await,
        Err(error) => Err(error.clone()),
    };
    checks.push(health::swarm(&info));
    Some((engine.ok()?, info.ok().filter(|info| info.node.is_some())?))
}

/// Checks every agent. A worker may not query agents: its own agent is checked by its rejection.
async fn agents(engine: &Engine, info: &EngineInfo, identity: Identity, port: u16) -> Vec<Check> {
    let identity = Arc::new(identity);
    if !info.is_manager {
        let Some(node) = info.node.clone() else { return Vec::new() };
        let answer = query(agent::Client::new(identity, node, &info.address, port)).await;
        return vec![health::own_agent(&answer)];
    }
    let nodes: Vec<SwarmNode> = match engine.look().await {
        Ok(swarm) => swarm.nodes,
        Err(error) => return vec![Check::fail("nodes", error, "`docker node ls` sends the same request")],
    };
    let answers = stream::iter(nodes).map(|node| {
        let client = agent::Client::new(identity.clone(), node.id.clone(), &node.address, port);
        async move { health::agent(&node.hostname, node.is_up, &query(client).await) }
    });
    answers.buffered(AT_ONCE).collect::<Vec<_>>().await.concat()
}

async fn query(client: agent::Client) -> AgentReply {
    let before = unix();
    let report = match tokio::time::timeout(TIMEOUT, client.report(&[], Millis::from_secs(60))).await {
        Ok(report) => report,
        Err(_elapsed) => Err(format!("no reply within {} s", TIMEOUT.as_secs())),
    };
    AgentReply { before, report, after: unix() }
}

fn unix() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
