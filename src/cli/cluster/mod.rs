//! `flowctl cluster`: queries and controls the coordinator of a Docker Swarm.

mod doctor;
mod events;
mod health;
mod logs;
mod pages;
mod submit;

use super::Common;
use super::commands::{post, print};
use super::completion::{CLUSTER_JOB, NODE};
use super::repeat::{Repeat, repeat};
use api::client::{Client, segment};
use api::wire::{Cluster, ClusterJob};
use clap::{Args, Subcommand};
use model::{JobName, job_or_gang};
use std::path::PathBuf;
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::screen::Screen;

/// Default socket of the coordinator.
const SOCKET: &str = "/run/flowcon/flowcoord.sock";
/// Polling interval.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// Arguments of `flowctl cluster`.
#[derive(Args, Debug)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Show the nodes and the jobs
    #[command(visible_alias = "ls")]
    Status(Repeat),
    /// Show the same, refreshed continuously
    Top,
    /// Show the waiting jobs, and what each waits for
    Queue(Repeat),
    /// Show why a job waits, why it was placed on its node, and the cost of its last move
    #[command(visible_aliases = ["describe", "inspect"])]
    Explain {
        /// Name or id of the service (4 characters of the id suffice), or name of the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
    },
    /// Submit a training to the queue
    Submit(Box<submit::SubmitArgs>),
    /// Move a job to another node
    Move {
        /// Name or id of the service (4 characters of the id suffice), or name of the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
        /// Hostname or id of the node
        #[arg(value_hint = NODE)]
        node: String,
    },
    /// Empty a node for maintenance: its jobs are moved away, and it gets no new ones
    Drain {
        /// Hostname or id of the node
        #[arg(value_hint = NODE)]
        node: String,
        /// Wait until no job is left on the node
        #[arg(long)]
        wait: bool,
    },
    /// Allow jobs on a drained node again
    Undrain {
        /// Hostname or id of the node
        #[arg(value_hint = NODE)]
        node: String,
    },
    /// Stop a job until it is resumed; it saves its state first
    Suspend {
        /// Name or id of the service (4 characters of the id suffice), or name of the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
    },
    /// Resume a job that was suspended or given up
    Resume {
        /// Name or id of the service (4 characters of the id suffice), or name of the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
    },
    /// End a job for good; it may save its state first
    Cancel {
        /// Name or id of the service (4 characters of the id suffice), or name of the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
    },
    /// Print the output of a job, from the node where it runs or ran last
    Logs {
        /// Name or id of the service (4 characters of the id suffice)
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
        /// Keep printing new output until the job ends, also after a move
        #[arg(long, short)]
        follow: bool,
        /// Print only the last N lines, 10,000 at most, and with -f what follows
        #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
        tail: u32,
    },
    /// Declare a node switched off for good, so that its job may start elsewhere
    NodeIsOff {
        /// Name or id of the service (4 characters of the id suffice), or name of the gang
        #[arg(value_hint = CLUSTER_JOB)]
        job: String,
        /// Hostname or id of the node
        #[arg(value_hint = NODE)]
        node: String,
    },
    /// Show the events of the coordinator
    Events {
        /// Keep printing new events
        #[arg(long, short)]
        follow: bool,
    },
    /// Show the jobs that ended
    History,
    /// Check coordinator, certificates, agents and clocks, and say how to fix problems; on a manager, as root
    Doctor(doctor::DoctorArgs),
}

/// The coordinator's socket: from the arguments, the environment, or the default.
pub(super) fn socket(common: &Common) -> PathBuf {
    let named = common.socket.clone().or_else(|| std::env::var_os("FLOWCOORD_SOCKET").map(PathBuf::from));
    named.unwrap_or_else(|| PathBuf::from(SOCKET))
}

/// `flowctl cluster`.
pub(crate) async fn cluster(client: &Client, args: &ClusterArgs, screen: &Screen) -> Result<Exit, Failure> {
    let jobs = |job: &str, action: &str| format!("/v1/cluster/jobs/{}/{action}", segment(job));
    let nodes = |node: &str, action: &str| format!("/v1/cluster/nodes/{}/{action}", segment(node));
    let done = match &args.verb {
        Verb::Status(repeat) => status(client, repeat.watch, screen).await,
        Verb::Top => status(client, Some(POLL_EVERY), screen).await,
        Verb::Queue(repeat) => queue(client, repeat.watch, screen).await,
        Verb::Explain { job } => explain(client, job, screen).await,
        Verb::Submit(args) => submit::submit(client, args, screen).await,
        Verb::Move { job, node } => {
            post(client, &format!("{}?node={}", jobs(job, "move"), segment(node)), screen).await
        }
        Verb::Drain { node, wait } => drain(client, node, &nodes(node, "drain"), *wait, screen).await,
        Verb::Undrain { node } => post(client, &nodes(node, "undrain"), screen).await,
        Verb::Suspend { job } => post(client, &jobs(job, "suspend"), screen).await,
        Verb::Resume { job } => post(client, &jobs(job, "resume"), screen).await,
        Verb::Cancel { job } => post(client, &jobs(job, "cancel"), screen).await,
        Verb::Logs { job, follow, tail } => logs::logs(client, job, *follow, *tail, screen).await,
        Verb::NodeIsOff { job, node } => {
            post(client, &format!("{}?node={}", jobs(job, "node-is-off"), segment(node)), screen).await
        }
        Verb::Events { follow } => events::events(client, *follow, screen).await,
        Verb::History => history(client, screen).await,
        Verb::Doctor(args) => return doctor::doctor(client, args, screen).await,
    };
    done.map(|()| Exit::Ok).map_err(for_coordinator)
}

/// Rewords failures that speak of the daemon: here, it is the coordinator.
fn for_coordinator(failure: Failure) -> Failure {
    let next = match failure.exit {
        Exit::Unreachable => {
            "start it on a manager of the Swarm: `systemctl start flowcoord`; see `flowctl help cluster`"
        }
        Exit::Denied => "run it as root (sudo), or add the user to `admins` in flowcoord.toml and restart flowcoord",
        Exit::Timeout => {
            "wait longer with --timeout SECONDS; `journalctl -u flowcoord` shows what the coordinator is doing"
        }
        _ => return failure,
    };
    let message = failure.message.replace("no daemon answers", "no coordinator answers");
    Failure::new(failure.exit, message.replace("the daemon at", "the coordinator at"), next)
}

async fn fetch(client: &Client) -> Result<Cluster, Failure> {
    Ok(client.get("/v1/cluster").await?)
}

async fn status(client: &Client, every: Option<Duration>, screen: &Screen) -> Result<(), Failure> {
    repeat(every, screen, async || {
        let cluster = fetch(client).await?;
        screen.rendered(&cluster, &cluster.jobs, |look| pages::status(&cluster, look))
    })
    .await
}

async fn queue(client: &Client, every: Option<Duration>, screen: &Screen) -> Result<(), Failure> {
    repeat(every, screen, async || {
        let mut cluster = fetch(client).await?;
        cluster.jobs.retain(|job| matches!(job.state.as_str(), "waiting" | "suspended" | "refused"));
        screen.rendered(&cluster.jobs, &cluster.jobs, |look| pages::queue(&cluster.jobs, look))
    })
    .await
}

async fn history(client: &Client, screen: &Screen) -> Result<(), Failure> {
    let mut cluster = fetch(client).await?;
    cluster.jobs.retain(ClusterJob::is_over);
    screen.show(&cluster.jobs, &cluster.jobs, |look| pages::ended(&cluster.jobs, look))
}

async fn explain(client: &Client, job: &str, screen: &Screen) -> Result<(), Failure> {
    let all = fetch(client).await?.jobs;
    let meant = jobs_named(&all, job)?;
    let cost: f64 = all.iter().filter_map(|job| job.cost).sum();
    screen.show(&meant, &meant, |look| pages::explain(&meant, cost, look))
}

/// Returns the workers that a name means, by the same rule as the coordinator.
fn jobs_named(jobs: &[ClusterJob], name: &str) -> Result<Vec<ClusterJob>, Failure> {
    let names = jobs.iter().map(|job| JobName { id: &job.id, name: &job.name, gang: job.gang.as_deref() });
    match job_or_gang(&names.collect::<Vec<_>>(), name) {
        Ok(found) if found.is_empty() => Err(Failure::new(
            Exit::NotFound,
            format!("the cluster has no job called {name}"),
            "`flowctl cluster status` lists them",
        )),
        Ok(found) => Ok(found.into_iter().map(|at| jobs[at].clone()).collect()),
        Err(several) => {
            let shown: Vec<String> =
                several.into_iter().map(|at| format!("{} ({})", jobs[at].name, jobs[at].id)).collect();
            Err(Failure::new(
                Exit::Refused,
                format!("the ids of several jobs begin with {name}: {}", shown.join(", ")),
                "use a name or more of the id",
            ))
        }
    }
}

/// `flowctl cluster drain`; with `wait`, returns when no job is left on the node or moving away from it.
async fn drain(client: &Client, node: &str, path: &str, wait: bool, screen: &Screen) -> Result<(), Failure> {
    let done = client.post(path).await?;
    print(screen, &done, &done.done)?;
    if !wait {
        return Ok(());
    }
    let mut left_before = None;
    loop {
        tokio::time::sleep(POLL_EVERY).await;
        let cluster = fetch(client).await?;
        let Some(emptied) = cluster.nodes.iter().find(|known| known.name == node || known.id == node) else {
            return Err(Failure::new(Exit::NotFound, format!("{node} has left the cluster"), "`docker node ls`"));
        };
        if emptied.state == "ready" {
            let message = format!("{node} is no longer drained: another user undrained it");
            return Err(Failure::new(
                Exit::Refused,
                message,
                format!("`flowctl cluster drain {node}` drains it again"),
            ));
        }
        if emptied.workers == 0 {
            return print(screen, &done, &emptied_text(&cluster.jobs, node, &emptied.name));
        }
        if left_before != Some(emptied.workers) && !screen.is_json() {
            screen.print(&pages::left_on(&cluster, &emptied.name))?;
        }
        left_before = Some(emptied.workers);
    }
}

/// Says that no worker is left on a node, and which waiting jobs have their only saved state there.
fn emptied_text(jobs: &[ClusterJob], node: &str, hostname: &str) -> String {
    let has_state_there = |job: &&ClusterJob| {
        job.node.as_deref() == Some(hostname) && matches!(job.state.as_str(), "waiting" | "suspended")
    };
    let names: Vec<&str> = jobs.iter().filter(has_state_there).map(|job| job.name.as_str()).collect();
    match names.is_empty() {
        true => format!("{node} is empty"),
        false => format!(
            "{node} is empty, but the only saved state of these jobs is there: {}; keep its disk until they have started elsewhere, and see `flowctl cluster queue` for what they wait for",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_node_may_hold_the_saved_state_of_waiting_jobs() {
        let job = |name: &str, state: &str, node: Option<&str>| -> ClusterJob {
            let document = serde_json::json!({"id": name, "name": name, "state": state, "node": node, "moves": 0});
            serde_json::from_value(document).unwrap()
        };
        let mut jobs = vec![
            job("ended", "done", Some("node-2")),
            job("elsewhere", "waiting", Some("node-1")),
            job("nowhere", "suspended", None),
        ];
        assert_eq!(emptied_text(&jobs, "node-2", "node-2"), "node-2 is empty");
        jobs.extend([job("bert", "suspended", Some("node-2")), job("resnet", "waiting", Some("node-2"))]);
        let text = emptied_text(&jobs, "its-id", "node-2");
        assert!(text.starts_with("its-id is empty, but the only saved state of these jobs is there: bert, resnet; "));
        assert!(text.contains("`flowctl cluster queue`"), "{text}");
    }

    #[test]
    fn explain_finds_a_job_by_its_name_or_a_unique_prefix_of_its_id() {
        let job = |id: &str, name: &str| -> ClusterJob {
            let document = serde_json::json!({"id": id, "name": name, "state": "running", "moves": 0});
            serde_json::from_value(document).unwrap()
        };
        let jobs = [job("k3v9x0aaaaaa", "resnet"), job("k3v9x0bbbbbb", "bert")];
        let found = |name: &str| {
            jobs_named(&jobs, name).map(|found| found.into_iter().map(|job| job.name).collect::<Vec<String>>())
        };
        assert_eq!(found("resnet"), Ok(vec!["resnet".to_owned()]));
        assert_eq!(found("k3v9x0b"), Ok(vec!["bert".to_owned()]));
        assert_eq!(found("k3v").map_err(|failure| failure.exit), Err(Exit::NotFound));
        let several = found("k3v9x0").unwrap_err();
        assert_eq!(several.exit, Exit::Refused);
        assert!(several.message.contains("resnet (k3v9x0aaaaaa), bert (k3v9x0bbbbbb)"), "{}", several.message);
    }
}
