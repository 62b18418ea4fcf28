//! Tests of the examples in `config/examples` with a real engine: `docker run`, and Docker Compose.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{Engine, IMAGE};
use flowcon::config::{self, EngineChoice};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples").join(name)
}

fn connected_daemon(engine: &Engine) -> Daemon {
    let daemon = Daemon::start(&engine.address(), &["policy.interval=2s"]);
    daemon.wait_until_connected("docker");
    daemon
}

/// Runs a program with this engine and this daemon, and the test's image.
fn run(engine: &Engine, daemon: &Daemon, words: &[&str]) -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_flowctl")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PATH", path).env("IMAGE", IMAGE).env("DOCKER_HOST", engine.address());
    command.env("DOCKER_CONFIG", engine.dir().join("client")).env("FLOWCON_SOCKET", daemon.socket());
    let output = command.output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {stdout}{}", String::from_utf8_lossy(&output.stderr));
    stdout
}

fn is_read(daemon: &Daemon, name: &str, metric: &str) -> Value {
    daemon.wait_for_job(name, "its log is parsed", SOON, |job| job["metric"]["name"] == metric && job["share"].is_f64())
}

#[test]
fn the_docker_run_examples_are_governed_according_to_their_labels() {
    let engine = Engine::start();
    let daemon = connected_daemon(&engine);
    let stdout = run(&engine, &daemon, &["sh", &example("docker-run.sh").display().to_string()]);
    assert!(stdout.contains("forgotten is adopted"), "{stdout}");
    for name in ["first", "urgent", "forgotten"] {
        let job = is_read(&daemon, name, "loss");
        assert!(job["notices"].as_array().unwrap().is_empty(), "{job:#?}");
    }
    let has_forecast = |job: &Value| job["work_left_cpu_s"]["likely"].as_f64().is_some_and(|left| left > 0.0);
    daemon.wait_for_job("first", "its remaining work is forecast", SOON, has_forecast);
    assert_eq!(daemon.job("urgent").unwrap()["min_share"], 0.25);
    assert_eq!(daemon.job("forgotten").unwrap()["adopted"]["labels"]["flowcon.weight"], "0.5");
}

#[test]
fn the_daemon_set_has_valid_settings_and_mounts_what_it_declares() {
    let text = std::fs::read_to_string(example("daemonset.yaml")).unwrap();
    let values = |key: &str| -> Vec<String> {
        let of_key = |line: &str| line.trim().strip_prefix(key)?.strip_prefix(": ").map(str::to_owned);
        text.lines().filter_map(of_key).collect()
    };
    assert!(text.contains(r#"args: ["--set", "engine.address=containerd"]"#));
    let settings = config::from_text("engine.address = \"containerd\"").unwrap();
    let EngineChoice::Pods(runtime) = settings.engine else { panic!("{:?}", settings.engine) };
    let mounted = values("mountPath");
    assert_eq!(mounted, values("path"), "each path is the same inside and outside");
    assert!(mounted.contains(&runtime.display().to_string()), "{mounted:?}");
    let defaults = config::Settings::default();
    for needed in [Path::new("/sys/fs/cgroup"), &defaults.state_dir, defaults.socket.parent().unwrap()] {
        assert!(mounted.contains(&needed.display().to_string()), "{needed:?} of {mounted:?}");
    }
}

#[test]
fn the_compose_example_is_governed_according_to_its_labels() {
    let engine = Engine::start();
    let daemon = connected_daemon(&engine);
    let file = example("compose.yaml").display().to_string();
    let compose = ["docker-compose", "--project-name", "example", "--file", &file];
    run(&engine, &daemon, &[compose.as_slice(), &["up", "--detach"]].concat());
    let quick = is_read(&daemon, "example_quick_1", "loss");
    let patient = is_read(&daemon, "example_patient_1", "accuracy");
    assert_eq!((quick["max_share"].as_f64(), patient["max_share"].as_f64()), (Some(1.0), Some(0.6)));
    assert_eq!(patient["progress"]["total"], 2000.0, "{patient:#?}");
    for job in [&quick, &patient] {
        assert!(job["notices"].as_array().unwrap().is_empty(), "{job:#?}");
    }
    run(&engine, &daemon, &[compose.as_slice(), &["down", "--timeout", "0"]].concat());
    eventually("both have ended", SOON, || daemon.jobs().is_empty().then_some(()));
}
