//! A private containerd with its CRI plugin, pods in it as a kubelet makes them: cgroup parents, labels, log directories, and containers that
//! ctr makes. They use the host's network, for which no network plugin is needed. The cgroup driver is `systemd` with systemd and cgroup v2,
//! else `cgroupfs`.

use crate::support::engine::{Engine, root_file_system, sweep, which};
use flowcon::host::cri::Cri;
use flowcon::host::cri::messages as cri;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const IMAGE: &str = "flowcon.test/busybox:1";
const READY_WITHIN: Duration = Duration::from_secs(120);
/// Time limit of each call, as a kubelet's: making a pod takes an emulated machine far longer than the daemon waits for a list.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// A kubelet does its rounds each minute.
const ROUND_EVERY: Duration = Duration::from_secs(2);
/// `NamespaceMode` of the interface.
const CONTAINER: i32 = 1;
const NODE: i32 = 2;

pub struct Containerd {
    dir: tempfile::TempDir,
    /// The kubelet's option `--cgroup-root`.
    cgroup_root: String,
    cri: Cri,
    calls: Runtime,
    child: Child,
}

/// The pod to start.
#[derive(Clone, Copy, Default)]
pub struct PodSpec<'a> {
    pub name: &'a str,
    pub labels: &'a [(&'a str, &'a str)],
    pub annotations: &'a [(&'a str, &'a str)],
    /// The weight that the kubelet gives its cgroup, in shares.
    pub shares: u32,
    pub script: &'a str,
}

/// A running pod in the namespace `team`.
#[derive(Clone)]
pub struct Pod {
    pub uid: String,
    sandbox: String,
    pub container: String,
    pub cgroup: Group,
    pub log: PathBuf,
}

/// A cgroup, by its path below the root of each hierarchy.
#[derive(Clone)]
pub struct Group(String);

/// Does what a kubelet does beside running pods, again and again until it is dropped: sets the slices above the pods, and the cpusets of their
/// containers.
pub struct Kubelet {
    stop: mpsc::Sender<()>,
    /// Returns how often it did so.
    rounds: JoinHandle<u32>,
}

impl Kubelet {
    /// Ends it; returns the number of its rounds.
    pub fn end(self) -> u32 {
        drop(self.stop);
        self.rounds.join().unwrap()
    }
}

impl Containerd {
    pub fn start() -> Containerd {
        for program in ["containerd", "ctr", &oci_runtime(), "busybox"] {
            assert!(
                which(program).is_some(),
                "{program} is missing; as root: apt-get install -y containerd runc busybox-static"
            );
        }
        let dir = tempfile::Builder::new().prefix("flowcon-pods-").tempdir().unwrap();
        let path = dir.path().display();
        let config = format!(
            "version = 2\nroot = \"{path}/root\"\nstate = \"{path}/state\"\n[grpc]\naddress = \"{path}/c.sock\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"{IMAGE}\"\nrestrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"native\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = {}\n\
             BinaryName = \"{}\"\n",
            is_systemds(),
            oci_runtime()
        );
        fs::write(dir.path().join("containerd.toml"), config).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let mut command = Command::new("containerd");
        command.arg("--config").arg(dir.path().join("containerd.toml")).args(["--log-level", "warn"]);
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let unique = dir.path().file_name().unwrap().to_string_lossy().replace("flowcon-pods-", "");
        let (cri, calls) = (Cri::new(&dir.path().join("c.sock")), Runtime::new().unwrap());
        let containerd = Containerd { dir, cgroup_root: format!("flowcon-test-{unique}"), cri, calls, child };
        let began = Instant::now();
        while containerd.calls.block_on(containerd.cri.version()).is_err() {
            assert!(began.elapsed() < READY_WITHIN, "containerd is not ready; its log:\n{}", containerd.log());
            sleep(Duration::from_millis(50));
        }
        containerd.import_image();
        containerd
    }

    /// The setting `engine.address` of a daemon.
    pub fn address(&self) -> String {
        format!("cri://{}", self.cri.socket().display())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Imports the image of all containers, also of the sandboxes, which only wait.
    fn import_image(&self) {
        let (layer, archive) = (self.dir.path().join("layer.tar"), self.dir.path().join("image.tar"));
        fs::write(&layer, root_file_system()).unwrap();
        let digest = Command::new("sha256sum").arg(&layer).output().unwrap().stdout;
        let digest = String::from_utf8(digest).unwrap().split_whitespace().next().unwrap().to_owned();
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = serde_json::json!({
            "architecture": architecture, "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sleep", "1000000"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        let manifest = serde_json::json!([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]);
        let mut tar = tar::Builder::new(fs::File::create(&archive).unwrap());
        for (name, text) in [("config.json", config.to_string()), ("manifest.json", manifest.to_string())] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        tar.append_path_with_name(&layer, "layer.tar").unwrap();
        tar.into_inner().unwrap();
        for namespace in ["k8s.io", "default"] {
            // It is unpacked when a container needs it: containerd 2.1 cannot do that at the import of such a file.
            succeeds(self.ctr().args(["--namespace", namespace, "images", "import", "--no-unpack"]).arg(&archive));
        }
    }

    fn call<Q: cri::Request>(&self, request: &Q) -> Q::Answer {
        self.calls
            .block_on(self.cri.call(request, CALL_TIMEOUT))
            .unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Makes a pod in the QoS slice `burstable`, and starts its container.
    pub fn run(&self, spec: PodSpec<'_>) -> Pod {
        let digits: String = spec.name.bytes().map(|byte| format!("{byte:02x}")).collect();
        let uid = format!("{digits:0<8.8}-9f6b-4f0e-8a3c-2f5d1e7b9c01");
        let cgroup = self.cgroup(&["kubepods", "burstable", &format!("pod{uid}")]);
        if is_systemds() {
            start_slice(&cgroup);
        }
        let logs = self.dir.path().join(format!("pods/team_{}_{uid}", spec.name));
        fs::create_dir_all(logs.join("train")).unwrap();
        let map = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let mut labels = map(spec.labels);
        labels.extend(map(&[("io.kubernetes.pod.name", spec.name), ("io.kubernetes.pod.namespace", "team")]));
        let namespaces = cri::NamespaceOption { network: NODE, pid: CONTAINER, ipc: 0 };
        let security_context = Some(cri::LinuxSandboxSecurityContext { namespace_options: Some(namespaces.clone()) });
        let config = cri::PodSandboxConfig {
            metadata: Some(cri::PodSandboxMetadata {
                name: spec.name.to_owned(),
                uid: uid.clone(),
                namespace: "team".to_owned(),
                attempt: 0,
            }),
            log_directory: logs.display().to_string(),
            labels,
            annotations: map(spec.annotations),
            linux: Some(cri::LinuxPodSandboxConfig { cgroup_parent: cgroup.clone(), security_context }),
        };
        let sandbox = self.call(&cri::RunPodSandboxRequest { config: Some(config.clone()) }).pod_sandbox_id;
        set_weight(&cgroup, spec.shares);
        let (container, log) = (String::new(), logs.join("train/0.log"));
        let mut pod = Pod { uid, sandbox, container, cgroup: Group(cgroup), log };
        let resources =
            Some(cri::LinuxContainerResources { cpu_shares: i64::from(spec.shares), cpuset_cpus: "0".to_owned() });
        let security_context = Some(cri::LinuxContainerSecurityContext { namespace_options: Some(namespaces) });
        let container = cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: "train".to_owned(), attempt: 0 }),
            image: Some(cri::ImageSpec { image: IMAGE.to_owned() }),
            command: ["/bin/sh", "-c", spec.script].map(str::to_owned).to_vec(),
            log_path: "train/0.log".to_owned(),
            linux: Some(cri::LinuxContainerConfig { resources, security_context }),
        };
        let create = cri::CreateContainerRequest {
            pod_sandbox_id: pod.sandbox.clone(),
            config: Some(container),
            sandbox_config: Some(config),
        };
        pod.container = self.call(&create).container_id;
        self.call(&cri::StartContainerRequest { container_id: pod.container.clone() });
        pod
    }

    /// The path of a cgroup below the kubelet's root.
    fn cgroup(&self, components: &[&str]) -> String {
        let path: Vec<&str> = std::iter::once(self.cgroup_root.as_str()).chain(components.iter().copied()).collect();
        cgroup_of(&path)
    }

    /// Starts the kubelet's rounds over these pods.
    pub fn kubelet(&self, pods: &[&Pod]) -> Kubelet {
        let slices = [&["kubepods"][..], &["kubepods", "burstable"]].map(|slice| self.cgroup(slice));
        let linux = Some(cri::LinuxContainerResources { cpu_shares: 0, cpuset_cpus: "0".to_owned() });
        let update = |pod: &&Pod| cri::UpdateContainerResourcesRequest {
            container_id: pod.container.clone(),
            linux: linux.clone(),
        };
        let updates: Vec<_> = pods.iter().map(update).collect();
        let (cri, calls) = (self.cri.clone(), self.calls.handle().clone());
        let (stop, stopped) = mpsc::channel();
        let rounds = move || {
            let mut done = 0;
            loop {
                slices.iter().for_each(|slice| set_weight(slice, 1024));
                for update in &updates {
                    calls.block_on(cri.call(update, CALL_TIMEOUT)).unwrap();
                }
                done += 1;
                if stopped.recv_timeout(ROUND_EVERY) != Err(RecvTimeoutError::Timeout) {
                    return done;
                }
            }
        };
        Kubelet { stop, rounds: thread::spawn(rounds) }
    }

    /// Starts a container that is in no pod, as `ctr run` does; with a log, its output is written to that file.
    pub fn run_alone(&self, id: &str, label: Option<&str>, log: Option<&Path>, script: &str) -> Group {
        let mut ctr = self.ctr();
        ctr.args(["run", "--detach", "--snapshotter", "native", "--net-host"]);
        ctr.args(["--runc-binary", &oci_runtime()]);
        ctr.arg("--runc-root").arg(self.dir.path().join("runc")); // the usual one keeps the ids of killed containers
        let parent = self.cgroup(&[]);
        let group = if is_systemds() {
            ctr.args(["--runc-systemd-cgroup", "--cgroup", &format!("{}:ctr:{id}", unit(&parent))]);
            format!("{parent}/ctr-{id}.scope")
        } else {
            let path = format!("{parent}/{id}");
            ctr.args(["--cgroup", &path]);
            path
        };
        if let Some(label) = label {
            ctr.args(["--label", label]);
        }
        if let Some(log) = log {
            ctr.arg("--log-uri").arg(format!("file://{}", log.display()));
        }
        succeeds(ctr.args([IMAGE, id, "/bin/sh", "-c", script]).stdout(Stdio::null()));
        Group(group)
    }

    /// Kills such a container.
    pub fn kill(&self, id: &str) {
        succeeds(self.ctr().args(["task", "kill", "--signal", "KILL", id]));
    }

    fn ctr(&self) -> Command {
        let mut ctr = Command::new("ctr");
        ctr.arg("--address").arg(self.cri.socket());
        ctr
    }

    /// A file for the log of a container.
    pub fn log_file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Ends a pod with its containers.
    pub fn stop(&self, pod: &Pod) {
        self.call(&cri::StopPodSandboxRequest { pod_sandbox_id: pod.sandbox.clone() });
    }

    /// Rotates a log as a kubelet does: renames it, and has the runtime open a new one.
    pub fn rotate(&self, pod: &Pod) {
        fs::rename(&pod.log, pod.log.with_extension("log.20260101-000000")).unwrap();
        self.call(&cri::ReopenContainerLogRequest { container_id: pod.container.clone() });
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill(); // its shims are found by their arguments
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("containerd's log:\n{}", self.log());
        }
        let cgroup = self.cgroup(&[]);
        sweep(self.dir.path(), &cgroup);
        if is_systemds() {
            let _ = Command::new("systemctl").args(["stop", unit(&cgroup)]).status(); // with all units below it
        }
    }
}

impl Pod {
    /// Its CPU weight in the kernel, as text.
    pub fn weight(&self) -> String {
        self.cgroup.weight()
    }

    /// CPU time used so far, in seconds.
    pub fn cpu_used(&self) -> f64 {
        let cgroup = &self.cgroup.0;
        if Engine::is_cgroup_v1() {
            let path = format!("/sys/fs/cgroup/cpuacct{cgroup}/cpuacct.usage");
            return fs::read_to_string(path).unwrap().trim().parse::<f64>().unwrap() / 1e9;
        }
        let stat = fs::read_to_string(format!("/sys/fs/cgroup{cgroup}/cpu.stat")).unwrap();
        stat.lines().find_map(|line| line.strip_prefix("usage_usec ")).unwrap().parse::<f64>().unwrap() / 1e6
    }
}

impl Group {
    /// Its CPU weight in the kernel, as text.
    pub fn weight(&self) -> String {
        fs::read_to_string(weight_file(&self.0)).unwrap().trim().to_owned()
    }
}

/// The OCI runtime of all containers: runc, or that in the environment.
fn oci_runtime() -> String {
    env::var("FLOWCON_TEST_RUNTIME").unwrap_or_else(|_| "runc".to_owned())
}

/// Reloads systemd, where it is the cgroup driver, which sets all limits of its units again.
pub fn reload() {
    if is_systemds() {
        succeeds(Command::new("systemctl").arg("daemon-reload"));
    }
}

/// Whether the cgroup driver is `systemd`.
fn is_systemds() -> bool {
    !Engine::is_cgroup_v1() && Path::new("/run/systemd/system").exists()
}

/// The path of the kubelet's cgroup with these names: each slice of systemd is named after all those that it is in.
fn cgroup_of(names: &[&str]) -> String {
    if !is_systemds() {
        return names.iter().map(|name| format!("/{name}")).collect();
    }
    let names: Vec<String> = names.iter().map(|name| name.replace('-', "_")).collect();
    (1..=names.len()).map(|depth| format!("/{}.slice", names[..depth].join("-"))).collect()
}

/// The unit of a cgroup.
fn unit(cgroup: &str) -> &str {
    cgroup.rsplit('/').next().unwrap()
}

/// Starts the slice of a pod, as the kubelet's library does.
fn start_slice(cgroup: &str) {
    let manager = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"];
    let properties = ["2", "DefaultDependencies", "b", "false", "CPUAccounting", "b", "true", "0"];
    let mut busctl = Command::new("busctl");
    busctl.arg("call").args(manager).args(["StartTransientUnit", "ssa(sv)a(sa(sv))", unit(cgroup), "replace"]);
    succeeds(busctl.args(properties));
}

/// Sets the weight of a cgroup as the kubelet does, to this number of shares.
fn set_weight(cgroup: &str, shares: u32) {
    if is_systemds() {
        let property = format!("CPUWeight={}", weight(shares));
        succeeds(Command::new("systemctl").args(["set-property", "--runtime", unit(cgroup), &property]));
    } else {
        fs::write(weight_file(cgroup), weight(shares).to_string()).unwrap();
    }
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn weight_file(cgroup: &str) -> PathBuf {
    match Engine::is_cgroup_v1() {
        true => Path::new("/sys/fs/cgroup/cpu").join(&cgroup[1..]).join("cpu.shares"),
        false => Path::new("/sys/fs/cgroup").join(&cgroup[1..]).join("cpu.weight"),
    }
}

/// Shares in the units of the kernel, by the kubelet's conversion.
fn weight(shares: u32) -> u32 {
    if Engine::is_cgroup_v1() { shares } else { 1 + (shares - 2) * 9_999 / 262_142 }
}
