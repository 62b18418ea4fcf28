//! A Docker Swarm for one test: engines in network namespaces, a flowcond and an agent on each node, and a coordinator.
#![allow(dead_code)] // each test binary needs only a part of it

use super::daemon::{TIMEOUT, assert_weights_decide, eventually_or};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Only one Swarm runs at a time, because two would slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The image of the jobs. Nothing listens at this registry, so the engines fail to pull immediately and use the imported image.
pub const IMAGE: &str = "localhost:1/job:1";

/// Restart and stop options of a job's service.
pub const RESTARTS: [&str; 6] =
    ["--restart-condition", "on-failure", "--restart-max-attempts", "2", "--stop-grace-period", "60s"];

pub struct TestSwarm {
    _alone: MutexGuard<'static, ()>,
    script: Child,
    pub dir: PathBuf,
    daemons: Vec<Child>,
    coordinator: Option<Child>,
}

impl TestSwarm {
    /// Starts a Swarm of `nodes` governed nodes with agents, the first of them a manager, without a coordinator.
    pub fn start(nodes: usize) -> TestSwarm {
        TestSwarm::start_with_gpus(nodes, "0")
    }

    /// Like [`TestSwarm::start`], with declared GPUs: the numbers of the nodes, such as `0,0,1`.
    pub fn start_with_gpus(nodes: usize, gpus: &str) -> TestSwarm {
        let mut swarm = TestSwarm::engines(nodes, gpus);
        for node in 1..=nodes {
            let mut agent = swarm.inside(node, env!("CARGO_BIN_EXE_flowcoord"));
            let log = File::create(swarm.folder(node).join("agent.log")).expect("a log");
            swarm.daemons.push(agent.arg("agent").stderr(log).spawn().expect("the agent"));
        }
        swarm
    }

    /// Like [`TestSwarm::start`], without agents.
    pub fn without_agents(nodes: usize) -> TestSwarm {
        TestSwarm::engines(nodes, "0")
    }

    fn engines(nodes: usize, gpus: &str) -> TestSwarm {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut script = Command::new(root().join("integration/cluster/with-swarm"))
            .env("GPUS", gpus)
            .arg(nodes.to_string())
            .args(["sh", "-c", "echo \"$SWARM_DIR\"; read end || true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("integration/cluster/with-swarm runs: as root, with docker.io and iproute2");
        let mut line = String::new();
        BufReader::new(script.stdout.as_mut().expect("piped")).read_line(&mut line).expect("the script's folder");
        assert!(!line.trim().is_empty(), "the Swarm did not start");
        let mut swarm =
            TestSwarm { _alone: alone, script, dir: line.trim().into(), daemons: Vec::new(), coordinator: None };
        for node in 1..=nodes {
            swarm.import_image(node);
            swarm.govern(node);
        }
        swarm
    }

    pub fn folder(&self, node: usize) -> PathBuf {
        self.dir.join(node.to_string())
    }

    pub fn engine(&self, node: usize) -> String {
        format!("unix://{}/docker.sock", self.folder(node).display())
    }

    fn import_image(&self, node: usize) {
        let files = self.dir.join("image");
        fs::create_dir_all(files.join("bin")).expect("a folder");
        fs::copy("/bin/busybox", files.join("bin/busybox")).expect("busybox-static");
        for name in ["sh", "sleep", "cat", "echo", "hostname", "dd", "nc"] {
            let _ = std::os::unix::fs::symlink("busybox", files.join("bin").join(name)); // may exist from the previous node
        }
        self.import(node, &files, IMAGE);
    }

    /// Imports a folder as an image.
    pub fn import(&self, node: usize, files: &Path, image: &str) {
        let tar = Command::new("tar").arg("-C").arg(files).args(["-c", "."]).stdout(Stdio::piped()).spawn();
        let tar = tar.expect("tar").stdout.expect("piped");
        let imported =
            Command::new("docker").args(["--host", &self.engine(node), "import", "-", image]).stdin(tar).output();
        let imported = imported.expect("docker");
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    }

    /// Starts the flowcond of one node.
    fn govern(&mut self, node: usize) {
        let folder = self.folder(node);
        let log = File::create(folder.join("flowcond.log")).expect("a log");
        let flowcond = Command::new(env!("CARGO_BIN_EXE_flowcond"))
            .args(["--config", "/dev/null", "--set", &format!("engine.address={}", self.engine(node))])
            .args(["--set", "policy.interval=2s"])
            .arg("--socket")
            .arg(folder.join("flowcond.sock"))
            .arg("--state-dir")
            .arg(folder.join("state"))
            .stderr(log)
            .spawn();
        self.daemons.push(flowcond.expect("flowcond"));
    }

    /// A command in the network namespace of a node, with the options of `flowcoord`.
    fn inside(&self, node: usize, program: &str) -> Command {
        let folder = self.folder(node);
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", folder.join("netns").display()))
            .arg(program)
            .args(["--engine", &self.engine(node)])
            .arg("--flowcond")
            .arg(folder.join("flowcond.sock"))
            .arg("--socket")
            .arg(folder.join("coord.sock"));
        command
    }

    /// Starts the coordinator on the first node.
    pub fn coordinate(&mut self) {
        self.coordinate_with("");
    }

    /// Like [`TestSwarm::coordinate`], with additional lines in its configuration.
    pub fn coordinate_with(&mut self, lines: &str) {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.dir.join("coordinator.log")).expect("a log");
        let config = self.dir.join("flowcoord.toml");
        let times = "[times]\nlook-every = \"500ms\"\npoll-every = \"1s\"\nheard-within = \"30s\"\n";
        fs::write(&config, format!("{times}{lines}")).expect("written");
        let mut command = self.inside(1, env!("CARGO_BIN_EXE_flowcoord"));
        command.arg("run").arg("--config").arg(config).stderr(log);
        self.coordinator = Some(command.spawn().expect("the coordinator"));
    }

    /// Kills the coordinator with SIGKILL.
    pub fn kill_coordinator(&mut self) {
        if let Some(mut coordinator) = self.coordinator.take() {
            coordinator.kill().expect("it ran");
            coordinator.wait().expect("it ended");
        }
    }

    pub fn docker(&self, node: usize, arguments: &[&str]) -> String {
        let output =
            Command::new("docker").args(["--host", &self.engine(node)]).args(arguments).output().expect("docker");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    /// Runs `flowctl cluster` on the manager.
    pub fn flowctl(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_flowctl"))
            .args(["cluster", "--socket"])
            .arg(self.folder(1).join("coord.sock"))
            .args(arguments)
            .output()
            .expect("flowctl")
    }

    /// Runs `flowctl cluster doctor` on a node; returns whether it succeeded, and its checks.
    pub fn doctor(&self, node: usize) -> (bool, Vec<Value>) {
        let folder = self.folder(node);
        let output = Command::new("nsenter")
            .arg(format!("--net={}", folder.join("netns").display()))
            .arg(env!("CARGO_BIN_EXE_flowctl"))
            .args(["cluster", "doctor", "--json", "--engine", &self.engine(node), "--socket"])
            .arg(folder.join("coord.sock"))
            .output()
            .expect("nsenter");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        (output.status.success(), report["checks"].as_array().expect("checks").clone())
    }

    /// Runs `flowctl cluster` on the manager, which must succeed, and returns its standard output. Repeated if the coordinator does not
    /// reply in time, as on a busy machine: its commands can be repeated, except for `submit`.
    pub fn stdout_of(&self, arguments: &[&str]) -> String {
        let run = || self.flowctl(arguments);
        let is_late = |output: &Output| output.status.code() == Some(TIMEOUT) && arguments[0] != "submit";
        let output = (0..10).map(|_| run()).find(|output| !is_late(output)).unwrap_or_else(run);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// One job in `flowctl cluster status`; `None` while no coordinator replies.
    pub fn job(&self, name: &str) -> Option<Value> {
        self.jobs().into_iter().find(|job| job["name"] == name)
    }

    /// Waits until a job satisfies the condition, and returns it.
    pub fn wait(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let probe = || self.job(name).filter(&condition);
        let diagnostics = || format!("now: {:?}\n{}", self.job(name), self.end_of_log());
        eventually_or(&format!("{name} is {what}"), SOON, probe, diagnostics)
    }

    pub fn running_on(&self, name: &str, node: &str) -> Value {
        self.wait(name, &format!("running on {node}"), |job| job["state"] == "running" && job["node"] == node)
    }

    /// Moves a job, and waits until it is running on a node. Repeated, because a node that has not replied for some seconds accepts no
    /// jobs, and a move to it turns back.
    pub fn move_to(&self, name: &str, node: &str) -> Value {
        let arrived = || {
            let job = self.job(name).filter(|job| job["state"] == "running")?;
            if job["node"] == node {
                return Some(job);
            }
            self.flowctl(&["move", name, node]);
            None
        };
        eventually_or(&format!("{name} is running on {node}"), SOON * 2, arrived, || self.end_of_log())
    }

    /// Waits until the flowcond of a node such as `node-2` has `at_least` evaluations of a job, and returns their number.
    pub fn evaluations(&self, name: &str, node: &str, at_least: u64) -> u64 {
        let number = node.trim_start_matches("node-").parse().expect("node-N");
        let socket = self.folder(number).join("flowcond.sock");
        let ask = |arguments: &[&str]| {
            let flowctl =
                Command::new(env!("CARGO_BIN_EXE_flowctl")).arg("--socket").arg(&socket).args(arguments).output();
            serde_json::from_slice::<Value>(&flowctl.expect("flowctl").stdout).ok()
        };
        let known = || {
            let containers = ask(&["ps", "-o", "json"])?;
            let containers = containers.get("containers").unwrap_or(&containers).as_array()?.clone();
            let is_it = |job: &&Value| job["name"].as_str().is_some_and(|full| full.starts_with(&format!("{name}.")));
            let detail = ask(&["explain", containers.iter().find(is_it)?["id"].as_str()?, "-o", "json"])?;
            detail["explanation"]["reading"]["evaluations"].as_u64()
        };
        let what = format!("{node} has {at_least} evaluations of {name}");
        let log = || fs::read_to_string(self.folder(number).join("flowcond.log")).unwrap_or_default();
        let probe = || known().filter(|known| *known >= at_least);
        eventually_or(&what, SOON, probe, || format!("now: {:?}\n{}", known(), log()))
    }

    /// Disconnects a node from the others, or reconnects it.
    pub fn cut(&self, node: usize, is_cut: bool) {
        let netns = format!("--net={}", self.folder(node).join("netns").display());
        let state = if is_cut { "down" } else { "up" };
        let ip = |arguments: &[&str]| {
            let done = Command::new("nsenter").arg(&netns).arg("ip").args(arguments).status().expect("nsenter");
            assert!(done.success(), "{arguments:?}");
        };
        ip(&["link", "set", "eth0", state]);
        if !is_cut {
            ip(&["route", "replace", "default", "via", "10.213.0.254"]);
        }
    }

    /// Submits a training that writes a heartbeat for each unit, saves its state on SIGTERM, and resumes from it. It does its last unit only
    /// if it is not [held](TestSwarm::hold).
    pub fn submit(&self, name: &str, units: u32, labels: &[&str]) -> PathBuf {
        self.submit_with(name, units, labels, &[])
    }

    /// The folder with the heartbeats of all trainings.
    pub fn beats(&self) -> PathBuf {
        let beats = self.dir.join("beats");
        fs::create_dir_all(&beats).expect("a folder");
        beats
    }

    /// Keeps trainings from ending before the returned function is called.
    pub fn hold(&self, names: &[&str]) -> impl FnOnce() + use<> {
        let beats = self.beats();
        let held: Vec<PathBuf> = names.iter().map(|name| beats.join(format!("{name}.hold"))).collect();
        held.iter().for_each(|file| fs::write(file, "").expect("a file"));
        move || held.iter().for_each(|file| fs::remove_file(file).expect("it is held"))
    }

    /// Like [`TestSwarm::submit`], with additional options of `docker service create`.
    pub fn submit_with(&self, name: &str, units: u32, labels: &[&str], options: &[&str]) -> PathBuf {
        let beats = self.beats();
        let script = format!(
            "i=$(cat /saved/i 2>/dev/null || echo 0); trap 'echo $i >/saved/i; exit 143' TERM; \
             while [ $i -lt {units} ]; do \
             while [ -e /beats/{name}.hold ] && [ $((i+1)) -ge {units} ]; do sleep 0.2; done; \
             echo \"$(hostname) $((i+=1))\" >>/beats/{name}; \
             echo \"epoch $i/{units} loss $((100000-i))\"; sleep ${{PAUSE:-0.2}}; done"
        );
        let (checkpoint, saved) =
            (format!("flowcon.checkpoint={name}"), format!("type=volume,source={name},target=/saved"));
        let shared = format!("type=bind,source={},target=/beats", beats.display());
        let mut arguments =
            vec!["service", "create", "--detach", "--no-resolve-image", "--name", name, "--replicas", "0"];
        arguments.extend(RESTARTS);
        arguments.extend([
            "--label",
            "flowcon.queue=true",
            "--label",
            "flowcon.stop-grace=60s",
            "--label",
            &checkpoint,
        ]);
        labels.iter().for_each(|label| arguments.extend(["--label", label]));
        arguments.extend(["--container-label", "flowcon.enable=true", "--mount", &saved, "--mount", &shared]);
        arguments.extend(options);
        arguments.extend([IMAGE, "sh", "-c", &script]);
        self.docker(1, &arguments);
        beats.join(name)
    }

    /// All jobs in `flowctl cluster status`; none while no coordinator replies.
    pub fn jobs(&self) -> Vec<Value> {
        self.status("jobs")
    }

    fn status(&self, what: &str) -> Vec<Value> {
        let output = self.flowctl(&["status", "--json"]);
        let status = serde_json::from_slice::<Value>(&output.stdout).ok();
        status.and_then(|status| status[what].as_array().cloned()).unwrap_or_default()
    }

    /// Waits until the list of jobs satisfies the condition.
    pub fn wait_for_all(&self, what: &str, condition: impl Fn(&[Value]) -> bool) {
        self.wait_until("jobs", what, condition);
    }

    /// Waits until the list of nodes satisfies the condition.
    pub fn wait_for_nodes(&self, what: &str, condition: impl Fn(&[Value]) -> bool) {
        self.wait_until("nodes", what, condition);
    }

    fn wait_until(&self, of: &str, what: &str, condition: impl Fn(&[Value]) -> bool) {
        let probe = || condition(&self.status(of)).then_some(());
        eventually_or(what, SOON, probe, || format!("now: {:#?}\n{}", self.status(of), self.end_of_log()));
    }

    /// The last lines of the coordinator's log, the newest first.
    pub fn end_of_log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("coordinator.log")).unwrap_or_default();
        log.lines().rev().take(40).collect::<Vec<_>>().join("\n")
    }
}

/// Whether a job runs and has done units: it has replaced the default action of SIGTERM, and its flowcond reads its log.
pub fn has_progress(job: &Value) -> bool {
    job["state"] == "running" && job["units"].as_f64() >= Some(1.0)
}

/// Checks in the heartbeats that there were never two writers and no unit was lost or repeated; returns the last unit.
pub fn assert_one_writer(beats: &Path) -> u32 {
    let text = fs::read_to_string(beats).expect("heartbeats");
    let (mut ended, mut writer, mut last) = (Vec::new(), "", 0);
    for line in text.lines() {
        let (who, unit) = line.split_once(' ').expect("a whole line");
        if who != writer {
            assert!(!ended.contains(&who), "{who} writes again after {writer}");
            ended.push(writer);
            writer = who;
        }
        let unit: u32 = unit.parse().expect("a number");
        assert_eq!(unit, last + 1, "by {who}");
        last = unit;
    }
    last
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

impl Drop for TestSwarm {
    fn drop(&mut self) {
        self.kill_coordinator();
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let logs = fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|node| node.path().join("flowcond.log"));
        let logs: String = logs.filter_map(|log| fs::read_to_string(log).ok()).collect();
        if let Some(mut stdin) = self.script.stdin.take() {
            let _ = stdin.write_all(b"end\n");
        }
        let _ = self.script.wait();
        assert_weights_decide(&logs);
    }
}
