//! `flowctl cluster`: what the coordinator of a Docker Swarm is asked. Imports: the API's client, pages.

mod doctor;
mod health;
mod pages;
mod submit;

use super::commands::{post, print, render, repeat};
use super::completion::{CLUSTER_JOB, NODE};
use super::{Common, Repeat};
use crate::api::client::{Client, segment};
use crate::api::wire::{Cluster, ClusterEvents, ClusterJob};
use crate::term::exit::{Exit, Failure};
use crate::term::screen::Screen;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Where the coordinator listens.
const SOCKET: &str = "/run/flowcon/flowcoord.sock";
/// Between two looks while waiting.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Arguments of `flowctl cluster`.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Show the nodes and the jobs
    #[command(visible_alias = "ls")]
    Status(Repeat),
    /// Show the same, again and again
    Top,
    /// Show the jobs that wait, and what each waits for
    Queue(Repeat),
    /// Say why a job waits, why it is where it is, and what its last move cost
    #[command(visible_aliases = ["describe", "inspect"])]
    Explain {
        /// The service's name, its id, or the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
    },
    /// Queue a training
    Submit(Box<submit::SubmitArgs>),
    /// Move a job to another node
    Move {
        /// The service's name, its id, or the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
        /// Hostname or id
        #[arg(value_hint = NODE)]
        node: String,
    },
    /// Empty a node for maintenance: its jobs move away, and it gets none
    Drain {
        /// Hostname or id
        #[arg(value_hint = NODE)]
        node: String,
        /// Return when no job is left there
        #[arg(long)]
        wait: bool,
    },
    /// Give a drained node jobs again
    Undrain {
        /// Hostname or id
        #[arg(value_hint = NODE)]
        node: String,
    },
    /// Stop a job until it is resumed; it saves its state first
    Pause {
        /// The service's name, its id, or the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
    },
    /// Let a paused job go on, or one that was given up
    Resume {
        /// The service's name, its id, or the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
    },
    /// Say that a node is switched off for good, so that its job may start elsewhere
    NodeIsOff {
        /// The service's name, its id, or the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
        /// Hostname or id
        #[arg(value_hint = NODE)]
        node: String,
    },
    /// Show what the coordinator did and noticed
    Events {
        /// Go on with what happens
        #[arg(long, short)]
        follow: bool,
    },
    /// Show the jobs that ended
    History,
    /// Check coordinator, certificates, agents and clocks, and say how to fix them; on a manager, as root
    Doctor(doctor::DoctorArgs),
}

/// The socket that was named, or the usual one.
pub(super) fn socket(common: &Common) -> PathBuf {
    let named = common.socket.clone().or_else(|| std::env::var_os("FLOWCOORD_SOCKET").map(PathBuf::from));
    named.unwrap_or_else(|| PathBuf::from(SOCKET))
}

/// `flowctl cluster`.
pub async fn cluster(client: &Client, args: &ClusterArgs, screen: &Screen) -> Result<Exit, Failure> {
    let jobs = |job: &str, deed: &str| format!("/v1/cluster/jobs/{}/{deed}", segment(job));
    let nodes = |node: &str, deed: &str| format!("/v1/cluster/nodes/{}/{deed}", segment(node));
    let done = match &args.verb {
        Verb::Status(repeat) => status(client, repeat.watch, screen).await,
        Verb::Top => status(client, Some(LOOK_AGAIN), screen).await,
        Verb::Queue(repeat) => queue(client, repeat.watch, screen).await,
        Verb::Explain { job } => explain(client, job, screen).await,
        Verb::Submit(args) => submit::submit(client, args, screen).await,
        Verb::Move { job, node } => {
            post(client, &format!("{}?node={}", jobs(job, "move"), segment(node)), screen).await
        }
        Verb::Drain { node, wait } => drain(client, node, &nodes(node, "drain"), *wait, screen).await,
        Verb::Undrain { node } => post(client, &nodes(node, "undrain"), screen).await,
        Verb::Pause { job } => post(client, &jobs(job, "pause"), screen).await,
        Verb::Resume { job } => post(client, &jobs(job, "resume"), screen).await,
        Verb::NodeIsOff { job, node } => {
            post(client, &format!("{}?node={}", jobs(job, "node-is-off"), segment(node)), screen).await
        }
        Verb::Events { follow } => events(client, *follow, screen).await,
        Verb::History => history(client, screen).await,
        Verb::Doctor(args) => return doctor::doctor(client, args, screen).await,
    };
    done.map(|()| Exit::Ok).map_err(of_a_cluster)
}

/// Where no coordinator answers, the next step is not the node's daemon.
fn of_a_cluster(failure: Failure) -> Failure {
    match failure.exit {
        Exit::Unreachable => Failure::new(
            Exit::Unreachable,
            failure.message.replace("no daemon answers", "no coordinator answers"),
            "run it on a manager of the Swarm; `systemctl start flowcoord`, `flowctl help cluster`",
        ),
        _ => failure,
    }
}

async fn seen(client: &Client) -> Result<Cluster, Failure> {
    Ok(client.get("/v1/cluster").await?)
}

async fn status(client: &Client, every: Option<Duration>, screen: &Screen) -> Result<(), Failure> {
    repeat(every, screen, async || render(screen, &seen(client).await?, |cluster| &cluster.jobs, pages::status))
        .await
}

async fn queue(client: &Client, every: Option<Duration>, screen: &Screen) -> Result<(), Failure> {
    repeat(every, screen, async || {
        let mut cluster = seen(client).await?;
        cluster.jobs.retain(|job| matches!(job.state.as_str(), "waiting" | "paused" | "refused"));
        render(screen, &cluster.jobs, Vec::as_slice, |jobs, look| pages::queue(jobs, look))
    })
    .await
}

async fn history(client: &Client, screen: &Screen) -> Result<(), Failure> {
    let mut cluster = seen(client).await?;
    cluster.jobs.retain(|job| matches!(job.state.as_str(), "done" | "failed"));
    let page = render(screen, &cluster.jobs, Vec::as_slice, |jobs, look| pages::ended(jobs, look))?;
    Ok(screen.print(&page)?)
}

async fn explain(client: &Client, job: &str, screen: &Screen) -> Result<(), Failure> {
    let cluster = seen(client).await?;
    let is_meant =
        |known: &&ClusterJob| known.name == job || known.id.starts_with(job) || known.gang.as_deref() == Some(job);
    let meant: Vec<ClusterJob> = cluster.jobs.iter().filter(is_meant).cloned().collect();
    if job.is_empty() || meant.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            format!("no job of the cluster is called {job}"),
            "`flowctl cluster status` lists them",
        ));
    }
    let page = render(screen, &meant, Vec::as_slice, |jobs, look| pages::explain(jobs, look))?;
    Ok(screen.print(&page)?)
}

/// With `wait`, until no job is on the node or on its way away from it.
async fn drain(client: &Client, node: &str, path: &str, wait: bool, screen: &Screen) -> Result<(), Failure> {
    let done = client.post(path).await?;
    print(screen, &done, &done.done)?;
    if !wait {
        return Ok(());
    }
    let mut left_before = None;
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let cluster = seen(client).await?;
        let Some(emptied) = cluster.nodes.iter().find(|known| known.name == node || known.id == node) else {
            return Err(Failure::new(Exit::NotFound, format!("{node} has left the cluster"), "`docker node ls`"));
        };
        if emptied.state == "ready" {
            let message = format!("{node} is not drained any more: somebody undrained it");
            return Err(Failure::new(
                Exit::Refused,
                message,
                format!("`flowctl cluster drain {node}` drains it again"),
            ));
        }
        if emptied.workers == 0 {
            return print(screen, &done, &format!("{node} is empty"));
        }
        if left_before != Some(emptied.workers) && !screen.is_json() {
            screen.print(&pages::left_on(&cluster, &emptied.name))?;
        }
        left_before = Some(emptied.workers);
    }
}

async fn events(client: &Client, follow: bool, screen: &Screen) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let told: ClusterEvents = client.get(&format!("/v1/cluster/events?after={after}")).await?;
        // A coordinator that began again counts from 1.
        after = if told.events.is_empty() && after > 0 { newest(client).await?.min(after) } else { after };
        after = told.events.last().map_or(after, |event| event.number);
        let page = render(screen, &told, |told| &told.events, |told, _| pages::events(&told.events))?;
        if !told.events.is_empty() || !follow {
            screen.print(&page)?;
        }
        if !follow {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn newest(client: &Client) -> Result<u64, Failure> {
    let told: ClusterEvents = client.get("/v1/cluster/events").await?;
    Ok(told.events.last().map_or(0, |event| event.number))
}
