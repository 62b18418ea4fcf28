//! The container image of the daemon: started with the command of the README, it governs its neighbours.

use crate::support::daemon::{eventually, eventually_or, unwrapped};
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec, is_limited};
use crate::support::package::Packages;
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

const GOVERNED: &str = "flowcon.enable=true";
const SOON: Duration = Duration::from_secs(30);
/// The option of the README's command that a container with `--rm` cannot have.
const RESTART: &str = "--restart unless-stopped";

/// The options of the README's command that starts the image: what may follow `docker run`, for this engine. Its socket and a folder of the
/// test stand for those of the machine.
fn options(engine: &Engine) -> String {
    let readme = include_str!("../../README.md").replace("\\\n", " ");
    let start = readme.lines().find_map(|line| line.strip_prefix("docker run --detach --name flowcond"));
    let start = start.expect("the README starts the image").strip_suffix(" flowcond").expect("it ends in the image");
    let (socket, run) = ("/var/run/docker.sock:", "/run/flowcon:/run/flowcon");
    assert!(start.contains(socket) && start.contains(run), "{start}");
    let here = format!("{}:/run/flowcon", engine.dir().join("run").display());
    start.replace(socket, &format!("{}:", engine.socket().display())).replace(run, &here)
}

/// Runs the engine's `docker` with these words of a shell.
fn docker(engine: &Engine, words: &str) -> String {
    engine.docker(&words.split_whitespace().collect::<Vec<_>>())
}

/// The job, as `flowctl` on the machine sees it through the shared folder.
fn job(engine: &Engine, name: &str) -> Option<Value> {
    let mut flowctl = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    flowctl.arg("--socket").arg(engine.dir().join("run/flowcond.sock")).args(["ps", "-o", "json"]);
    let listed: Value = serde_json::from_slice(&flowctl.output().unwrap().stdout).ok()?;
    let jobs = listed.get("containers").unwrap_or(&listed).as_array()?.clone();
    jobs.into_iter().find(|job| job["name"] == name)
}

fn wait_for_metric(engine: &Engine, name: &str) {
    let logs = || engine.try_docker(&["logs", "flowcond"]).stderr;
    let is_read = || job(engine, name).filter(|job| job["metric"]["name"] == "loss");
    eventually_or(&format!("{name} is read"), SOON, is_read, || String::from_utf8_lossy(&logs()).into_owned());
}

fn wait_for_weight(engine: &Engine, what: &str, id: &str, fits: impl Fn(u32) -> bool) {
    eventually(what, SOON, || fits(engine.cpu_weight(id)).then_some(()));
}

#[test]
fn the_image_governs_its_neighbours_and_their_originals_are_restored_when_it_stops_or_after_it_was_killed() {
    let engine = Engine::start();
    let packages = Packages::of_built(&["image"]);
    let image = packages.file("flowcond-image-", ".tar");
    let loaded = engine.docker(&["load", "--input", &image.display().to_string()]);
    assert!(loaded.contains("flowcond:latest"), "{loaded}");
    fs::create_dir(engine.dir().join("run")).unwrap();
    let options = options(&engine);
    let policy = "--set policy.name=flowcon --set policy.interval=2s";

    let run = |name, labels: &[&str], script| engine.run(RunSpec { name, labels, script, ..RunSpec::default() });
    run("grow", &[GOVERNED], GROWING);
    let flat = run("flat", &[GOVERNED], CONVERGED);
    let neighbour = run("neighbour", &[], CONVERGED);
    docker(&engine, &format!("run --detach --name flowcond {options} flowcond {policy}"));
    wait_for_metric(&engine, "grow");
    wait_for_weight(&engine, "flat is limited", &flat, |weight| is_limited(weight, 100));
    assert_eq!(engine.cpu_weight(&neighbour), 100);
    assert!(docker(&engine, "exec flowcond flowctl status").contains("docker: connected"));

    docker(&engine, "kill flowcond");
    assert!(is_limited(engine.cpu_weight(&flat), 100), "a killed daemon restores nothing");
    let restored = docker(&engine, &format!("run --rm {} flowcond restore", options.replace(RESTART, "")));
    assert!(restored.contains("flat: original limits restored"), "{restored}");
    assert_eq!(engine.cpu_weight(&flat), 100);
    docker(&engine, "rm flowcond");

    // The log is a file in the container.
    run("filed", &[GOVERNED, "flowcon.log=/log"], "i=0; while :; do i=$((i+1)); echo loss: $i >>/log; sleep 1; done");
    docker(&engine, &format!("run --detach --name flowcond {options} --cap-add SYS_PTRACE flowcond {policy}"));
    wait_for_metric(&engine, "filed");
    wait_for_weight(&engine, "flat is limited again", &flat, |weight| weight < 100);
    docker(&engine, "stop flowcond");
    assert_eq!(engine.cpu_weight(&flat), 100);

    // Without the processes of the machine it sees no job, and says why.
    docker(&engine, "rm flowcond");
    let blind = options.replace("--pid host ", "");
    assert_ne!(blind, options);
    docker(&engine, &format!("run --detach --name flowcond {blind} flowcond {policy}"));
    let status = || {
        let shown = engine.try_docker(&["exec", "flowcond", "flowctl", "status"]);
        String::from_utf8_lossy(&[shown.stdout, shown.stderr].concat()).into_owned()
    };
    eventually_or(
        "it names the missing option",
        SOON,
        || unwrapped(&status()).contains("--pid host").then_some(()),
        status,
    );
    docker(&engine, "stop flowcond");
}
