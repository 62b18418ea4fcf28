//! A Swarm of three managers, each node with its own flowcond, agent and coordinator, with methods to break and restart each of them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub const NODES: [usize; 3] = [1, 2, 3];
/// The node whose engine has only 288 MiB of disk space.
pub const SMALL: usize = 3;
pub const IMAGE: &str = "localhost:1/job:1";
/// An image that is missing on [`WITHOUT_IMAGE`].
pub const RARE_IMAGE: &str = "localhost:1/rare:1";
pub const WITHOUT_IMAGE: usize = 2;
/// A clock that equals the machine's, as an offset for libfaketime.
pub const NO_OFFSET: &str = "+0";

const CONFIG: &str = "[cluster]\nmoves = \"never\"\nmoves-per-node = 8\n\
    [times]\nlook-every = \"500ms\"\npoll-every = \"1s\"\nheard-within = \"5s\"\nstart-within = \"25s\"\nverify-within = \"40s\"\n\
    carry-within = \"40s\"\nretry-after = \"3s\"\n";

/// A FlowCon program on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Flowcond,
    Agent,
    Coordinator,
}

pub struct Swarm {
    script: Mutex<Child>,
    pub dir: PathBuf,
    parts: Mutex<BTreeMap<(Part, usize), Child>>,
    /// The path of libfaketime, which gives the FlowCon programs on each node their own wall clock.
    faketime: PathBuf,
    engines: Mutex<Vec<Child>>,
}

impl Swarm {
    pub fn start() -> Swarm {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut script = Command::new(root.join("integration/cluster/with-swarm"))
            .args([&NODES.len().to_string(), "sh", "-c", "echo \"$SWARM_DIR\"; read end || true"])
            .envs([("MANAGERS", NODES.len().to_string()), ("SMALL_DISK", SMALL.to_string())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("integration/cluster/with-swarm runs: as root, with docker.io and iproute2");
        let mut line = String::new();
        BufReader::new(script.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.trim().is_empty(), "the Swarm did not come up");
        let swarm = Swarm {
            script: Mutex::new(script),
            dir: line.trim().into(),
            parts: Mutex::default(),
            faketime: faketime_library(),
            engines: Mutex::default(),
        };
        fs::write(swarm.dir.join("flowcoord.toml"), CONFIG).unwrap();
        for node in NODES {
            swarm.set_clock(node, NO_OFFSET);
            swarm.import_image(node, IMAGE);
            if node != WITHOUT_IMAGE {
                swarm.import_image(node, RARE_IMAGE);
            }
            for part in [Part::Flowcond, Part::Agent, Part::Coordinator] {
                swarm.start_part(part, node);
            }
        }
        swarm
    }

    pub fn folder(&self, node: usize) -> PathBuf {
        self.dir.join(node.to_string())
    }

    fn import_image(&self, node: usize, image: &str) {
        let files = self.dir.join("image");
        fs::create_dir_all(files.join("bin")).unwrap();
        fs::copy("/bin/busybox", files.join("bin/busybox")).expect("busybox-static");
        for name in ["sh", "sleep", "cat", "echo", "hostname", "dd", "mv"] {
            let _ = std::os::unix::fs::symlink("busybox", files.join("bin").join(name)); // fails if it exists from an earlier import
        }
        let tar = Command::new("tar").arg("-C").arg(&files).args(["-c", "."]).output().unwrap();
        let file = self.dir.join("image.tar");
        fs::write(&file, tar.stdout).unwrap();
        let imported = self.command(node, &["import", &file.to_string_lossy(), image]).output().unwrap();
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    }

    fn engine(&self, node: usize) -> String {
        format!("unix://{}/docker.sock", self.folder(node).display())
    }

    fn command(&self, node: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["30", "docker", "--host", &self.engine(node)]).args(arguments);
        command
    }

    /// The output of `docker` on the first node where it succeeds; `None` if it fails on all of them.
    pub fn docker(&self, arguments: &[&str]) -> Option<String> {
        NODES.into_iter().find_map(|node| self.docker_on(node, arguments))
    }

    pub fn docker_on(&self, node: usize, arguments: &[&str]) -> Option<String> {
        let output = self.command(node, arguments).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    pub fn start_part(&self, part: Part, node: usize) {
        let folder = self.folder(node);
        let log = |name: &str| OpenOptions::new().create(true).append(true).open(folder.join(name)).unwrap();
        let mut command = match part {
            Part::Flowcond => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
                command.args(["--config", "/dev/null", "--set", &format!("engine.address={}", self.engine(node))]);
                command.args(["--set", "policy.interval=2s", "--state-dir"]).arg(folder.join("state"));
                command.arg("--socket").arg(folder.join("flowcond.sock")).stderr(log("flowcond.log"));
                command
            }
            Part::Agent | Part::Coordinator => {
                let (verb, name) =
                    if part == Part::Agent { ("agent", "agent.log") } else { ("run", "coordinator.log") };
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={}", folder.join("netns").display()));
                command.arg(env!("CARGO_BIN_EXE_flowcoord")).arg(verb).args(["--engine", &self.engine(node)]);
                command
                    .arg("--flowcond")
                    .arg(folder.join("flowcond.sock"))
                    .arg("--socket")
                    .arg(folder.join("coord.sock"));
                command.arg("--config").arg(self.dir.join("flowcoord.toml")).stderr(log(name));
                command
            }
        };
        command.env("LD_PRELOAD", &self.faketime).env("FAKETIME_TIMESTAMP_FILE", folder.join("clock"));
        command.envs(["FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"].map(|name| (name, "1")));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        if let Some(mut before) = self.parts.lock().unwrap().insert((part, node), child) {
            let _ = before.kill();
            let _ = before.wait();
        }
    }

    /// Sets the wall clock of the FlowCon programs on a node, as an offset from the machine's clock.
    pub fn set_clock(&self, node: usize, offset: &str) {
        let (file, new) = (self.folder(node).join("clock"), self.folder(node).join("clock.new"));
        fs::write(&new, offset).unwrap();
        fs::rename(new, file).unwrap();
    }

    /// Kills a program with SIGKILL.
    pub fn kill(&self, part: Part, node: usize) {
        if let Some(mut child) = self.parts.lock().unwrap().remove(&(part, node)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts the programs that have ended, as systemd would: a coordinator or agent may exit with an error when its engine is gone.
    pub fn restart_ended(&self) {
        let ended: Vec<(Part, usize)> = {
            let mut parts = self.parts.lock().unwrap();
            parts.iter_mut().filter_map(|(key, child)| child.try_wait().unwrap().map(|_| *key)).collect()
        };
        ended.into_iter().for_each(|(part, node)| self.start_part(part, node));
    }

    /// Ends an engine with a signal. The engine decides what happens to its containers.
    pub fn end_engine(&self, node: usize, signal: &str) {
        let file = self.folder(node).join("docker.pid");
        let Ok(pid) = fs::read_to_string(&file) else { return };
        let _ = Command::new("kill").args(["-s", signal, pid.trim()]).status();
        let has_ended = || !Path::new("/proc").join(pid.trim()).join("exe").exists();
        let began = Instant::now();
        while !has_ended() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = fs::remove_file(file);
    }

    pub fn start_engine(&self, node: usize) {
        let here = self.folder(node);
        let log = OpenOptions::new().append(true).open(here.join("log")).unwrap();
        let child =
            Command::new("sh").arg(here.join("engine")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.engines.lock().unwrap().push(child.unwrap());
        let began = Instant::now();
        while self.docker_on(node, &["info"]).is_none() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Disconnects a node from the others, or reconnects it.
    pub fn set_cut_off(&self, node: usize, is_cut_off: bool) {
        let netns = format!("--net={}", self.folder(node).join("netns").display());
        let ip = |arguments: &[&str]| {
            let status = Command::new("nsenter").arg(&netns).arg("ip").args(arguments).status().unwrap();
            assert!(status.success(), "{arguments:?}");
        };
        ip(&["link", "set", "eth0", if is_cut_off { "down" } else { "up" }]);
        if !is_cut_off {
            ip(&["route", "replace", "default", "via", "10.213.0.254"]);
        }
    }

    /// Sets whether Swarm runs tasks on a node: `active` or `drain`.
    pub fn set_availability(&self, node: usize, availability: &str) {
        let name = format!("node-{node}");
        persist(|| self.docker(&["node", "update", "--availability", availability, &name]).is_some());
    }

    fn flowctl_on(&self, node: usize, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_flowctl"))
            .args(["cluster", "--socket"])
            .arg(self.folder(node).join("coord.sock"))
            .args(arguments)
            .output()
            .unwrap()
    }

    /// The active coordinator's node and status.
    fn active_coordinator(&self) -> Option<(usize, Value)> {
        NODES.into_iter().find_map(|node| {
            let status: Value = serde_json::from_slice(&self.flowctl_on(node, &["status", "--json"]).stdout).ok()?;
            (status["acts"] == true).then_some((node, status))
        })
    }

    pub fn leader(&self) -> Option<usize> {
        self.active_coordinator().map(|(node, _)| node)
    }

    /// Runs `flowctl cluster` on the node of the active coordinator; whether it succeeded.
    pub fn succeeds(&self, arguments: &[&str]) -> bool {
        self.active_coordinator().is_some_and(|(node, _)| self.flowctl_on(node, arguments).status.success())
    }

    /// All jobs by name; empty while no coordinator is active.
    pub fn jobs(&self) -> BTreeMap<String, Value> {
        let status = self.active_coordinator().map(|(_, status)| status).unwrap_or_default();
        let jobs = status["jobs"].as_array().cloned().unwrap_or_default();
        jobs.into_iter().map(|job| (job["name"].as_str().unwrap_or_default().to_owned(), job)).collect()
    }

    /// Copies the logs and heartbeats to a folder that is kept after the Swarm ends.
    pub fn keep_logs(&self) {
        let target = std::env::temp_dir().join("flowcon-faults-logs");
        let _ = fs::create_dir_all(&target);
        for node in NODES {
            for name in ["coordinator.log", "agent.log", "flowcond.log", "log"] {
                let _ = fs::copy(self.folder(node).join(name), target.join(format!("{node}-{name}")));
            }
        }
        let _ = Command::new("cp").arg("-r").arg(self.dir.join("beats")).arg(&target).status();
        println!("logs and heartbeats: {}", target.display());
    }
}

/// Tries once per second for a minute: the Swarm may have no leader at the moment. Returns whether it succeeded.
pub fn persist(mut succeeds: impl FnMut() -> bool) -> bool {
    (0..60).any(|_| {
        let has_succeeded = succeeds();
        if !has_succeeded {
            std::thread::sleep(Duration::from_secs(1));
        }
        has_succeeded
    })
}

fn faketime_library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketime.so.1")).filter(|library| library.exists());
    found.next().expect("the package libfaketime is installed")
}

impl Drop for Swarm {
    fn drop(&mut self) {
        let mut parts = std::mem::take(&mut *self.parts.lock().unwrap());
        for child in parts.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let mut script = self.script.lock().unwrap();
        drop(script.stdin.take());
        let _ = script.wait();
        for mut engine in self.engines.lock().unwrap().drain(..) {
            let _ = engine.wait();
        }
    }
}
