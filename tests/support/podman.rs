//! A real Podman service of a test's own: storage, socket and cgroups apart, gone when dropped.

#![allow(dead_code)] // each test binary uses a part of it
#![allow(clippy::unwrap_used)] // a test fails by panicking, in its support too

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
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
    /// Starts the service and gives it an image with a shell.
    pub fn start() -> Podman {
        assert!(Command::new("podman").arg("--version").output().is_ok(), "podman is missing; as root: {INSTALL}");
        let dir = tempfile::Builder::new().prefix("flowcon-podman-").tempdir().unwrap();
        let at = dir.path().display();
        let storage = format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{at}/graph\"\nrunroot = \"{at}/run\"\n");
        let containers = format!(
            "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\ntmp_dir = \"{at}/tmp\"\n\
             [containers]\ndefault_ulimits = []\n"
        );
        fs::write(dir.path().join("storage.conf"), storage).unwrap();
        fs::write(dir.path().join("containers.conf"), containers).unwrap();
        let unique = dir.path().file_name().unwrap().to_string_lossy().replace("flowcon-podman-", "");
        let address = format!("unix://{at}/podman.sock");
        // First: two podmans that find an empty store at once disturb each other.
        import_image(dir.path());
        let mut service = command(dir.path());
        service.args(["system", "service", "--time", "0", &address]).stdout(Stdio::null()).stderr(Stdio::null());
        let service = service.spawn().unwrap();
        let podman = Podman { cgroup_parent: format!("/flowcon-podman-{unique}"), service, dir };
        let began = Instant::now();
        while !podman.dir.path().join("podman.sock").exists() {
            assert!(began.elapsed() < Duration::from_secs(180), "podman system service makes no socket");
            std::thread::sleep(Duration::from_millis(50));
        }
        podman
    }

    /// The socket as `DOCKER_HOST` names it.
    pub fn address(&self) -> String {
        format!("unix://{}/podman.sock", self.dir.path().display())
    }

    /// Starts a labelled container and gives its full id.
    pub fn run(&self, name: &str, label: &str, script: &str) -> String {
        let run = ["run", "--detach", "--network", "none", "--ulimit", "host", "--cgroup-parent", &self.cgroup_parent];
        let what = ["--name", name, "--label", label, IMAGE, "sh", "-c", script];
        self.podman(&[run.as_slice(), what.as_slice()].concat())
    }

    /// Runs a podman command that must succeed, and gives its trimmed output.
    pub fn podman(&self, args: &[&str]) -> String {
        let output = command(self.dir.path()).args(args).output().unwrap();
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
    // Whoever refuses the image says why.
    let given = import.stdin.take().unwrap().write_all(&super::engine::root_file_system());
    let ended = import.wait_with_output().unwrap();
    assert!(given.is_ok() && ended.status.success(), "podman import: {}", String::from_utf8_lossy(&ended.stderr));
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new("podman");
    command
        .env("CONTAINERS_STORAGE_CONF", dir.join("storage.conf"))
        .env("CONTAINERS_CONF", dir.join("containers.conf"))
        .env_remove("CONTAINER_HOST");
    command
}
