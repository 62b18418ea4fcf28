//! A private Podman service for a test: its storage, socket and cgroups are separate and removed when dropped.

#![allow(dead_code)] // each test binary needs only a part of it
#![allow(clippy::unwrap_used)] // tests fail by panicking, also in their support code

use super::daemon::eventually;
use super::engine::which;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const INSTALL: &str = "apt-get install -y --no-install-recommends podman runc busybox-static";
const IMAGE: &str = "flowcon-test:1";

/// A running `podman system service`.
pub struct Podman {
    dir: tempfile::TempDir,
    cgroup_parent: String,
    service: Child,
}

impl Podman {
    /// Starts the service and imports an image with a shell.
    pub fn start() -> Podman {
        assert!(Command::new("podman").arg("--version").output().is_ok(), "podman is missing; as root: {INSTALL}");
        let dir = tempfile::Builder::new().prefix("flowcon-podman-").tempdir().unwrap();
        let at = dir.path().display();
        let storage = format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{at}/graph\"\nrunroot = \"{at}/run\"\n");
        let runtime = ["runc", "crun"].into_iter().find(|name| which(name).is_some()).expect(INSTALL);
        let containers = format!(
            "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"{runtime}\"\ntmp_dir = \"{at}/tmp\"\n\
             [containers]\ndefault_ulimits = []\n"
        );
        fs::write(dir.path().join("storage.conf"), storage).unwrap();
        fs::write(dir.path().join("containers.conf"), containers).unwrap();
        let unique = dir.path().file_name().unwrap().to_string_lossy().replace("flowcon-podman-", "");
        let address = format!("unix://{at}/podman.sock");
        // Import first: two podman processes that initialise an empty store at once interfere.
        import_image(dir.path());
        let mut service = command(dir.path());
        service.args(["system", "service", "--time", "0", &address]).stdout(Stdio::null()).stderr(Stdio::null());
        let service = service.spawn().unwrap();
        let podman = Podman { cgroup_parent: format!("/flowcon-podman-{unique}"), service, dir };
        let began = Instant::now();
        while !podman.dir.path().join("podman.sock").exists() {
            assert!(began.elapsed() < Duration::from_secs(180), "podman system service created no socket");
            std::thread::sleep(Duration::from_millis(50));
        }
        podman
    }

    /// The address of the socket for `DOCKER_HOST`.
    pub fn address(&self) -> String {
        format!("unix://{}/podman.sock", self.dir.path().display())
    }

    /// Starts a labelled container and returns its full id.
    pub fn run(&self, name: &str, label: &str, script: &str) -> String {
        self.run_with(name, label, &["--ulimit", "host"], script)
    }

    /// Like [`Podman::run`], with these options of `podman run`.
    pub fn run_with(&self, name: &str, label: &str, options: &[&str], script: &str) -> String {
        let run = ["run", "--detach", "--network", "none", "--cgroup-parent", &self.cgroup_parent];
        let what = ["--name", name, "--label", label];
        self.podman(&[run.as_slice(), &what, options, &[IMAGE, "sh", "-c", script]].concat())
    }

    /// Pauses a container. Repeated while it fails: on a busy machine, runc can give up before a cgroup of version 1 is frozen.
    pub fn pause(&self, name: &str) {
        let paused = || self.try_podman(&["pause", name]).status.success().then_some(());
        eventually("podman pause", Duration::from_secs(30), paused);
    }

    /// Runs a podman command that may fail.
    fn try_podman(&self, args: &[&str]) -> Output {
        command(self.dir.path()).args(args).output().unwrap()
    }

    /// Runs a podman command that must succeed, and returns its trimmed output.
    pub fn podman(&self, args: &[&str]) -> String {
        let output = self.try_podman(args);
        assert!(output.status.success(), "podman {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = command(self.dir.path()).args(["rm", "--all", "--force", "--time", "0"]).output();
        let _ = self.service.kill();
        let _ = self.service.wait();
        super::engine::sweep(self.dir.path(), &self.cgroup_parent);
    }
}

fn import_image(dir: &Path) {
    let mut import = command(dir);
    import.args(["import", "--change", "ENV PATH=/bin", "-", IMAGE]).stdin(Stdio::piped());
    let mut import = import.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // If the import fails, its error output is shown below.
    let written = import.stdin.take().unwrap().write_all(&super::engine::root_file_system());
    let ended = import.wait_with_output().unwrap();
    assert!(written.is_ok() && ended.status.success(), "podman import: {}", String::from_utf8_lossy(&ended.stderr));
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new("podman");
    command
        .env("CONTAINERS_STORAGE_CONF", dir.join("storage.conf"))
        .env("CONTAINERS_CONF", dir.join("containers.conf"))
        .env_remove("CONTAINER_HOST");
    command
}
