//! The demo's Swarm: engines in network namespaces of this machine, started and removed by the same script as in the tests.
//!
//! The script exits when its standard input closes, so everything is removed however this process ends.

use super::failures::{failure_in, failure_of, last_words};
use super::nodes::LabNode;
use super::schedule::ClusterJob;
use crate::demo::schedule::labels;
use crate::trial::backend::image;
use crate::trial::confine::Cores;
use crate::trial::temp_dir::TempDir;
use anyhow::{Context, Result, bail, ensure};
use api::client::Client;
use api::wire::Cluster;
use model::CpuTime;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// Starts engines, each in a network namespace, and removes them.
const SCRIPT: &str = include_str!("../../../integration/cluster/with-swarm");

/// Nothing listens at this registry, so the engines fail to pull immediately and use the imported image.
const IMAGE: &str = "localhost:1/flowcon-demo:1";

/// Configuration of the coordinator, with short times because the demo is short.
const COORDINATOR: &str =
    "[times]\nlook-every = \"500ms\"\npoll-every = \"1s\"\nheard-within = \"10s\"\nmove-takes = \"5s\"\n";

/// Time between two decisions of a node.
const INTERVAL: &str = "policy.interval=2s";

/// Timeout for the start of the daemons and the removal of containers.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The daemons to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Governed {
    /// flowcond on each node.
    Nodes,
    /// flowcond on each node, agents and a coordinator.
    Cluster,
}

/// The script that runs the private engines. [`Engines::close`] waits until they are removed; otherwise, that takes a while after its end.
pub(super) struct Engines {
    script: Child,
    /// Holds the script's file.
    folder: TempDir,
}

/// The Swarm of the engines, with its daemons, which are killed when it is dropped.
pub(super) struct Swarm {
    dir: PathBuf,
    cgroup: String,
    nodes: u16,
    daemons: Vec<Child>,
    /// Names of the services that stay, with the records of the nodes about them.
    remembered: Vec<String>,
}

impl Engines {
    /// Starts the script.
    ///
    /// Each engine is confined to one CPU, like the jobs of `flowctl demo`: with only a quota, the jobs of a node run on several CPUs at
    /// once until the quota is used up, and hardly compete, so weights have no effect.
    pub(super) fn start(nodes: &[LabNode], cpus: &Cores) -> Result<Engines> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "the demo starts container engines: run it as root, with `sudo flowcoord demo`"
        );
        for (program, package) in
            [("dockerd", "docker.io"), ("docker", "docker.io"), ("ip", "iproute2"), ("nsenter", "util-linux")]
        {
            let found = std::env::var_os("PATH")
                .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
            ensure!(found, "the demo needs {program}: install it with `apt-get install {package}`");
        }
        let folder = TempDir::new()?;
        let script_file = folder.socket().with_file_name("with-swarm");
        fs::write(&script_file, SCRIPT).with_context(|| format!("write {}", script_file.display()))?;
        let script = Command::new("sh")
            .arg(&script_file)
            .arg(nodes.len().to_string())
            .args(["sh", "-c", "echo \"$SWARM_DIR $SWARM_CGROUP\"; read end || true"])
            .env("CPU_CORES", list(nodes.iter().map(|node| format!("{:.3}", node.cores))))
            .env("CPUS", list(nodes.iter().filter_map(|node| cpus.number(node.cpu)).map(|cpu| cpu.to_string())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start sh")?;
        Ok(Engines { script, folder })
    }

    /// Stops the script and waits until it has removed the engines.
    pub(super) async fn close(mut self) {
        drop(self.script.stdin.take());
        // The script itself reports what it could not remove.
        let _ = self.script.wait().await;
        drop(self.folder);
    }
}

impl Swarm {
    /// Waits until the engines form a Swarm and imports the demo's image on each.
    pub(super) async fn on(engines: &mut Engines, nodes: u16) -> Result<Swarm> {
        let stdout = engines.script.stdout.take().context("a pipe to the script")?;
        let line =
            BufReader::new(stdout).lines().next_line().await.context("read the output of the engines' script")?;
        let line = line.unwrap_or_default();
        let Some((dir, cgroup)) = line.split_once(' ') else {
            bail!("the engines did not start; see their messages above");
        };
        let (dir, cgroup) = (PathBuf::from(dir), cgroup.to_owned());
        let swarm = Swarm { dir, cgroup, nodes, daemons: Vec::new(), remembered: Vec::new() };
        let tar = image::root_file_system()?;
        let imports = (1..=nodes).map(|node| swarm.import(node, &tar));
        futures_util::future::try_join_all(imports).await?;
        Ok(swarm)
    }

    fn folder(&self, node: u16) -> PathBuf {
        self.dir.join(node.to_string())
    }

    fn engine(&self, node: u16) -> String {
        format!("unix://{}/docker.sock", self.folder(node).display())
    }

    /// CPU-seconds that the containers and flowconds of all nodes have used; `None` if their cgroup cannot be read.
    pub(super) fn cpu_used_s(&self) -> Option<f64> {
        let trees = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
        let used = trees.iter().find_map(|tree| cgroup::cpu_used(Path::new(&format!("{tree}{}", self.cgroup))));
        used.map(CpuTime::as_secs_f64)
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
        stdin.write_all(tar).await.context("send the image to docker")?;
        drop(stdin);
        ensure!(docker.wait().await?.success(), "docker import failed on node {node}");
        Ok(())
    }

    async fn docker(&self, arguments: &[&str]) -> Result<String> {
        let done = Command::new("docker").args(["--host", &self.engine(1)]).args(arguments).output().await;
        let done = done.context("start docker")?;
        if !done.status.success() {
            let socket = self.folder(1).join("docker.sock");
            if std::os::unix::net::UnixStream::connect(socket).is_err() {
                let log = fs::read(self.folder(1).join("log")).unwrap_or_default();
                bail!("the engine of node 1 has ended. Its log says:\n{}", last_words(&String::from_utf8_lossy(&log)));
            }
            let error = String::from_utf8_lossy(&done.stderr);
            bail!("docker {}: {}", arguments.first().copied().unwrap_or(""), error.trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    }

    /// The file of a job's heartbeats.
    pub(super) fn heartbeats(&self, job: &ClusterJob, tag: &str) -> PathBuf {
        self.dir.join(format!("beats-{tag}")).join(&job.name)
    }

    /// Creates the job's service, either placed by Swarm or queued for the coordinator.
    pub(super) async fn submit(&self, job: &ClusterJob, tag: &str, is_queued: bool) -> Result<()> {
        let volume = format!("{}-{tag}", job.name);
        let beats = self.dir.join(format!("beats-{tag}"));
        fs::create_dir_all(&beats).with_context(|| format!("create {}", beats.display()))?;
        let saved = format!("type=volume,source={volume},target=/saved");
        let shared = format!("type=bind,source={},target=/beats", beats.display());
        let checkpoint = format!("flowcon.checkpoint={volume}");
        let labels = labels(job.kind, job.amount);
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
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
        labels.iter().for_each(|label| arguments.extend(["--container-label", label]));
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

    /// Starts the daemons and waits until they are connected.
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
            return until("flowcond started", async || sockets.iter().all(|socket| socket.exists())).await;
        }
        let config = self.dir.join("flowcoord.toml");
        fs::write(&config, COORDINATOR).with_context(|| format!("write {}", config.display()))?;
        let coordinator = self.flowcoord(1, &["run", "--config", &config.to_string_lossy()])?;
        self.daemons.push(coordinator);
        let client = self.coordinator();
        until("the coordinator had all nodes", async || {
            let seen = client.get::<Cluster>("/v1/cluster").await;
            let ready = seen.map_or(0, |seen| seen.nodes.iter().filter(|node| node.state == "ready").count());
            ready == usize::from(self.nodes)
        })
        .await
    }

    fn coordinator(&self) -> Client {
        Client::new(&self.folder(1).join("coord.sock"), Duration::from_secs(2))
    }

    /// Starts flowcond in the node's cgroup, so that it counts the node's cores and not the machine's.
    fn flowcond(&self, node: u16) -> Result<Child> {
        let folder = self.folder(node);
        let (state, before) = (folder.join("state"), folder.join("before"));
        if before.exists() {
            let copied = std::process::Command::new("cp").arg("-r").args([&before, &state]).status();
            ensure!(copied.context("start cp")?.success(), "cannot copy {}", before.display());
        }
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

    /// Starts flowcoord in the node's network namespace.
    fn flowcoord(&self, node: u16, arguments: &[&str]) -> Result<Child> {
        let folder = self.folder(node);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", folder.join("netns").display())).arg(this_program()?).args(arguments);
        command.args(["--engine", &self.engine(node), "--flowcond"]).arg(folder.join("flowcond.sock"));
        command.arg("--socket").arg(folder.join("coord.sock"));
        spawn(command, &folder.join(format!("{}.log", arguments[0])))
    }

    /// Keeps what the coordinator and the nodes have recorded about these jobs, which have ended, for all later runs.
    pub(super) async fn remember(&mut self, jobs: &[ClusterJob]) -> Result<()> {
        let client = self.coordinator();
        until("the coordinator had recorded the ends", async || {
            let seen = client.get::<Cluster>("/v1/cluster").await;
            seen.is_ok_and(|seen| seen.jobs.len() == jobs.len() && seen.jobs.iter().all(|job| job.state == "done"))
        })
        .await?;
        self.remembered = jobs.iter().map(|job| job.name.clone()).collect();
        Ok(())
    }

    /// Removes the jobs, then stops the daemons. The next run knows nothing about this one, unless it is remembered.
    pub(super) async fn clear(&mut self) -> Result<()> {
        let is_before = !self.remembered.is_empty() && !self.folder(1).join("before").exists();
        let services = self.docker(&["service", "ls", "--format", "{{.Name}}"]).await?;
        for service in services.lines().filter(|service| !self.remembered.iter().any(|name| name == service)) {
            self.docker(&["service", "rm", service]).await?;
        }
        for mut daemon in self.daemons.drain(..) {
            daemon.kill().await.context("stop a daemon")?;
        }
        for node in 1..=self.nodes {
            let (state, before) = (self.folder(node).join("state"), self.folder(node).join("before"));
            if is_before {
                fs::rename(&state, &before).with_context(|| format!("rename {}", state.display()))?;
            } else if state.exists() {
                fs::remove_dir_all(&state).with_context(|| format!("remove {}", state.display()))?;
            }
        }
        let engines: Vec<String> = (1..=self.nodes).map(|node| self.engine(node)).collect();
        until("all containers were gone", async || {
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

    /// The engines' task states, for jobs that do not end.
    pub(super) async fn task_states(&self) -> String {
        let services = self.docker(&["service", "ls", "--quiet"]).await.unwrap_or_default();
        let mut states = Vec::new();
        for service in services.lines() {
            let format = "{{.Name}} {{.DesiredState}} {{.CurrentState}} {{.Error}}";
            states.push(
                self.docker(&["service", "ps", "--no-trunc", "--format", format, service]).await.unwrap_or_default(),
            );
        }
        states.join("\n")
    }

    /// Returns the name and the error of one of these jobs that has failed and will not be restarted. `None` also if nothing replies.
    pub(super) async fn failure(&self, jobs: &[&str], is_queued: bool) -> Option<String> {
        if is_queued {
            let seen = self.coordinator().get::<Cluster>("/v1/cluster").await.ok()?;
            return seen.jobs.iter().find_map(failure_of);
        }
        let format = "{{.Name}}|{{.DesiredState}}|{{.CurrentState}}|{{.Error}}";
        let arguments = [["service", "ps", "--no-trunc", "--format", format].as_slice(), jobs].concat();
        failure_in(&self.docker(&arguments).await.ok()?)
    }
}

fn list(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(",")
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
        ensure!(began.elapsed() < TIMEOUT, "timed out after {} s before {what}", TIMEOUT.as_secs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
