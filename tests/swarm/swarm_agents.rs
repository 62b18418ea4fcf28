//! Test of agents as a service of the Swarm, with `config/examples/flowcoord-agents.yaml`.

use crate::support::daemon::eventually;
use crate::support::swarm::{TestSwarm, assert_one_writer, has_progress};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const AGENTS: &str = "localhost:1/agents:1";
/// Filter for the container started by the service's task.
const BESIDE: &str = "name=^flowcoord-agent$";
const SOON: Duration = Duration::from_secs(30);

/// Creates the files of an image with these programs, their libraries, and a shell.
fn filesystem(at: &Path, programs: &[&str]) {
    fs::create_dir_all(at.join("bin")).unwrap();
    fs::copy("/bin/busybox", at.join("bin/busybox")).expect("busybox-static");
    std::os::unix::fs::symlink("busybox", at.join("bin/sh")).unwrap();
    for program in programs {
        let name = Path::new(program).file_name().unwrap();
        fs::copy(program, at.join("bin").join(name)).unwrap();
        let libraries = Command::new("ldd").arg(program).output().unwrap();
        for library in
            String::from_utf8_lossy(&libraries.stdout).split_whitespace().filter(|word| word.starts_with('/'))
        {
            let copy = at.join(&library[1..]);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(library, copy).unwrap();
        }
    }
}

#[test]
fn the_stack_of_agents_works_and_leaves_nothing_behind() {
    let mut swarm = TestSwarm::without_agents(1);
    let docker = Command::new("sh").args(["-c", "command -v docker"]).output().unwrap();
    let docker = String::from_utf8(docker.stdout).unwrap();
    let files = swarm.dir.join("agents");
    filesystem(&files, &[env!("CARGO_BIN_EXE_flowcoord"), docker.trim()]);
    swarm.import(1, &files, AGENTS);

    let stack = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/examples/flowcoord-agents.yaml");
    let (folder, config) = (swarm.folder(1), swarm.dir.join("etc"));
    fs::create_dir_all(&config).unwrap();
    let deployed = Command::new("docker")
        .args(["--host", &swarm.engine(1), "stack", "deploy", "--resolve-image", "never", "--compose-file"])
        .args([stack.as_os_str(), "flowcon".as_ref()])
        .env("FLOWCOORD_IMAGE", AGENTS)
        .env("DOCKER_SOCKET", folder.join("docker.sock"))
        .env("DOCKER_DATA", folder.join("data"))
        .env("FLOWCON_RUN", &folder)
        .env("FLOWCON_CONFIG", &config)
        .output()
        .unwrap();
    assert!(deployed.status.success(), "{}", String::from_utf8_lossy(&deployed.stderr));

    let beats = swarm.submit("train", 100_000, &[]);
    swarm.coordinate();
    swarm.wait("train", "running, with progress", has_progress);
    let agent = || {
        let id = swarm.docker(1, &["ps", "--quiet", "--filter", BESIDE]);
        Some(id).filter(|id| !id.is_empty())
    };
    let first = eventually("an agent runs", SOON, agent);

    // A suspension needs the agent's attestation that no process of the job is left.
    swarm.stdout_of(&["suspend", "train"]);
    swarm.wait("train", "suspended", |job| job["state"] == "suspended");
    swarm.stdout_of(&["resume", "train"]);
    swarm.wait("train", "running again", |job| job["state"] == "running");
    assert!(assert_one_writer(&beats) > 0);

    // A killed task leaves its container; the next task starts a new one.
    let task = swarm.docker(1, &["ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=flowcon_agent"]);
    swarm.docker(1, &["kill", &task]);
    eventually("another agent runs", SOON, || agent().filter(|id| *id != first));
    swarm.stdout_of(&["suspend", "train"]);
    swarm.wait("train", "suspended", |job| job["state"] == "suspended");
    assert_one_writer(&beats);

    swarm.docker(1, &["stack", "rm", "flowcon"]);
    eventually("no agent is left", SOON, || {
        swarm.docker(1, &["ps", "--all", "--quiet", "--filter", BESIDE]).is_empty().then_some(())
    });
}
