//! The demo's Swarm: engines in network namespaces of this machine, made and removed by the script that the tests use too.
//!
//! The script ends when its standard input does, so that everything is removed whatever becomes of this process. Imports: api, trial.

use super::schedule::ClusterJob;
use crate::api::client::Client;
use crate::api::wire::Cluster;
use crate::lab::demo::schedule::labels;
use crate::lab::trial::backend::image;
use crate::lab::trial::confine::Cores;
use crate::lab::trial::temp_dir::TempDir;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// Makes engines, each in a network namespace, and removes them.
const SCRIPT: &str = include_str!("../../../integration/cluster/with-swarm");

/// Nobody listens at that registry, which the engines learn at once; what they have is used then.
const IMAGE: &str = "localhost:1/flowcon-demo:1";

/// Short, because the demo is.
const COORDINATOR: &str = "[times]\nlook-every = \"500ms\"\npoll-every = \"1s\"\nheard-within = \"10s\"\n";

/// Between two decisions of a node.
const INTERVAL: &str = "policy.interval=2s";

/// Until daemons answer, and until containers are gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which daemons run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Governed {
    /// flowcond on each node.
    Nodes,
    /// Agents and a coordinator too.
    Cluster,
}

/// Engines that form a Swarm; dropping it removes them.
pub(super) struct Swarm {
    script: Child,
    dir: PathBuf,
    cgroup: String,
    nodes: u16,
    cores_a_node: f64,
    daemons: Vec<Child>,
}

impl Swarm {
    /// Engines with the demo's image on each.
    ///
    /// Each is confined to one CPU, as the jobs of `flowctl demo` are: where a quota alone makes a node small, its jobs run on several CPUs at
    /// once until it is used up, and hardly meet, so that no weight counts.
    pub(super) async fn start(nodes: u16, cores_a_node: f64, cpus: &Cores) -> Result<Swarm> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "the demo makes engines: run it as root, as `sudo flowcoord demo`"
        );
        for (program, package) in
            [("dockerd", "docker.io"), ("docker", "docker.io"), ("ip", "iproute2"), ("nsenter", "util-linux")]
        {
            let found = std::env::var_os("PATH")
                .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
            ensure!(found, "the demo needs {program}: `apt-get install {package}`");
        }
        let folder = TempDir::new()?;
        let script_file = folder.socket().with_file_name("with-swarm");
        fs::write(&script_file, SCRIPT).with_context(|| format!("write {}", script_file.display()))?;
        let mut script = Command::new("sh")
            .arg(&script_file)
            .arg(nodes.to_string())
            .args(["sh", "-c", "echo \"$SWARM_DIR $SWARM_CGROUP\"; read end || true"])
            .env("CPU_CORES", format!("{cores_a_node:.3}"))
            .env("CPUS", cpus.list())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start sh")?;
        let stdout = script.stdout.take().context("a pipe to the script")?;
        let line = BufReader::new(stdout).lines().next_line().await.context("listen to the engines' script")?;
        let line = line.unwrap_or_default();
        let Some((dir, cgroup)) = line.split_once(' ') else {
            bail!("the engines did not come up; what they said stands above");
        };
        let (dir, cgroup) = (PathBuf::from(dir), cgroup.to_owned());
        let swarm = Swarm { script, dir, cgroup, nodes, cores_a_node, daemons: Vec::new() };
        let tar = image::root_file_system()?;
        let imports = (1..=nodes).map(|node| swarm.import(node, &tar));
        futures_util::future::try_join_all(imports).await?;
        Ok(swarm)
    }

    /// Cores of all nodes.
    pub(super) fn cores(&self) -> f64 {
        f64::from(self.nodes) * self.cores_a_node
    }

    fn folder(&self, node: u16) -> PathBuf {
        self.dir.join(node.to_string())
    }

    fn engine(&self, node: u16) -> String {
        format!("unix://{}/docker.sock", self.folder(node).display())
    }

    async fn import(&self, node: u16, tar: &[u8]) -> Result<()> {
        let change = format!("ENV {}", image::ENVIRONMENT);
        let mut docker = Command::new("docker")
            .args(["--host", &self.engine(node), "import", "--change", &change, "-", IMAGE])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("start docker")?;
        let mut stdin = docker.stdin.take().context("a pipe to docker")?;
        stdin.write_all(tar).await.context("give docker the image")?;
        drop(stdin);
        ensure!(docker.wait().await?.success(), "docker import failed on node {node}");
        Ok(())
    }

    async fn docker(&self, arguments: &[&str]) -> Result<String> {
        let done = Command::new("docker").args(["--host", &self.engine(1)]).args(arguments).output().await;
        let done = done.context("start docker")?;
        let complaint = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "docker {}: {}", arguments.first().copied().unwrap_or(""), complaint.trim());
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    }

    /// Where a job writes its heartbeats.
    pub(super) fn heartbeats(&self, job: &ClusterJob, tag: &str) -> PathBuf {
        self.dir.join(format!("beats-{tag}")).join(&job.name)
    }

    /// Creates the job's service: at once with Swarm's own placement, or for the coordinator to place.
    pub(super) async fn submit(&self, job: &ClusterJob, tag: &str, is_queued: bool) -> Result<()> {
        let volume = format!("{}-{tag}", job.name);
        let beats = self.dir.join(format!("beats-{tag}"));
        fs::create_dir_all(&beats).with_context(|| format!("create {}", beats.display()))?;
        let saved = format!("type=volume,source={volume},target=/saved");
        let shared = format!("type=bind,source={},target=/beats", beats.display());
        let checkpoint = format!("flowcon.checkpoint={volume}");
        let told = labels(job.kind, job.amount);
        let told: Vec<String> = told.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let mut arguments = vec!["service", "create", "--detach", "--no-resolve-image", "--name", &job.name];
        arguments.extend([
            "--restart-condition",
            "on-failure",
            "--restart-max-attempts",
            "2",
            "--stop-grace-period",
            "60s",
        ]);
        arguments.extend(["--container-label", "flowcon.enable=true"]);
        told.iter().for_each(|label| arguments.extend(["--container-label", label]));
        arguments.extend(["--mount", &saved, "--mount", &shared]);
        if is_queued {
            arguments.extend(["--replicas", "0", "--label", "flowcon.queue=true", "--label", &checkpoint]);
            arguments.extend(["--label", "flowcon.stop-grace=60s"]);
        }
        let command = job.command();
        let heartbeat = format!("/beats/{}", job.name);
        arguments.extend([IMAGE, image::PROGRAM]);
        arguments.extend(command.iter().map(String::as_str));
        arguments.extend(["--save", "/saved", "--heartbeat", &heartbeat]);
        self.docker(&arguments).await.map(drop)
    }

    /// Starts the daemons and waits until they know each other.
    pub(super) async fn govern(&mut self, governed: Governed) -> Result<()> {
        for node in 1..=self.nodes {
            let flowcond = self.flowcond(node)?;
            self.daemons.push(flowcond);
            if governed == Governed::Cluster {
                let agent = self.flowcoord(node, &["agent"])?;
                self.daemons.push(agent);
            }
        }
        if governed == Governed::Nodes {
            let sockets: Vec<PathBuf> = (1..=self.nodes).map(|node| self.folder(node).join("flowcond.sock")).collect();
            return until("flowcond answers", async || sockets.iter().all(|socket| socket.exists())).await;
        }
        let config = self.dir.join("flowcoord.toml");
        fs::write(&config, COORDINATOR).with_context(|| format!("write {}", config.display()))?;
        let coordinator = self.flowcoord(1, &["run", "--config", &config.to_string_lossy()])?;
        self.daemons.push(coordinator);
        let client = Client::new(&self.folder(1).join("coord.sock"), Duration::from_secs(2));
        until("the coordinator knows all nodes", async || {
            let seen = client.get::<Cluster>("/v1/cluster").await;
            let ready = seen.map_or(0, |seen| seen.nodes.iter().filter(|node| node.state == "ready").count());
            ready == usize::from(self.nodes)
        })
        .await
    }

    /// In the node's cgroup, so that it counts the node's cores and not the machine's.
    fn flowcond(&self, node: u16) -> Result<Child> {
        let folder = self.folder(node);
        let enter = "for tree in /sys/fs/cgroup /sys/fs/cgroup/cpu; do here=$tree$0/flowcond; \
                     [ ! -d \"$tree$0\" ] || { mkdir -p \"$here\" && echo $$ >\"$here/cgroup.procs\"; }; done; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", enter, &format!("{}/{node}", self.cgroup)]).arg(this_program()?);
        command.args([
            "__flowcond",
            "--config",
            "/dev/null",
            "--set",
            &format!("engine.address={}", self.engine(node)),
        ]);
        command.args(["--set", INTERVAL, "--socket"]).arg(folder.join("flowcond.sock"));
        command.arg("--state-dir").arg(folder.join("state"));
        spawn(command, &folder.join("flowcond.log"))
    }

    /// In the node's network.
    fn flowcoord(&self, node: u16, arguments: &[&str]) -> Result<Child> {
        let folder = self.folder(node);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", folder.join("netns").display())).arg(this_program()?).args(arguments);
        command.args(["--engine", &self.engine(node), "--flowcond"]).arg(folder.join("flowcond.sock"));
        command.arg("--socket").arg(folder.join("coord.sock"));
        spawn(command, &folder.join(format!("{}.log", arguments[0])))
    }

    /// Removes the jobs, then ends the daemons.
    pub(super) async fn clear(&mut self) -> Result<()> {
        let services = self.docker(&["service", "ls", "--quiet"]).await?;
        for service in services.lines() {
            self.docker(&["service", "rm", service]).await?;
        }
        for mut daemon in self.daemons.drain(..) {
            daemon.kill().await.context("end a daemon")?;
        }
        let engines: Vec<String> = (1..=self.nodes).map(|node| self.engine(node)).collect();
        until("all containers are gone", async || {
            for engine in &engines {
                let listed = Command::new("docker").args(["--host", engine, "ps", "--all", "--quiet"]).output().await;
                if !listed.is_ok_and(|listed| listed.status.success() && listed.stdout.is_empty()) {
                    return false;
                }
            }
            true
        })
        .await
    }

    /// What the engines say of jobs that do not end.
    pub(super) async fn complaints(&self) -> String {
        let services = self.docker(&["service", "ls", "--quiet"]).await.unwrap_or_default();
        let mut told = Vec::new();
        for service in services.lines() {
            let format = "{{.Name}} {{.DesiredState}} {{.CurrentState}} {{.Error}}";
            told.push(
                self.docker(&["service", "ps", "--no-trunc", "--format", format, service]).await.unwrap_or_default(),
            );
        }
        told.join("\n")
    }

    /// Ends everything; the script removes it.
    pub(super) async fn close(mut self) {
        self.daemons.clear();
        drop(self.script.stdin.take());
        // Whether it could remove all of it, it says itself.
        let _ = self.script.wait().await;
    }
}

fn this_program() -> Result<OsString> {
    Ok(std::env::current_exe().context("find the running program's file")?.into_os_string())
}

fn spawn(mut command: Command, log: &Path) -> Result<Child> {
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("open {}", log.display()))?;
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().context("start a daemon")
}

/// Waits for a condition.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_so().await {
        ensure!(began.elapsed() < PATIENCE, "{} s went by until {what}", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
