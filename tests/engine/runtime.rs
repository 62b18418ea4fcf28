//! Tests of `flowcon-runtime` below a real engine: what it adds, what it leaves alone, and that no container fails because of it. Needs root.

use crate::support::engine::{Engine, IMAGE};
use std::fs;
use std::process::Command;

const PASSIVE: [&str; 2] = ["OMP_WAIT_POLICY=passive", "OPENBLAS_THREAD_TIMEOUT=4"];

/// An engine whose default runtime is flowcon-runtime, and which knows one whose next runtime is not installed.
fn engine() -> Engine {
    let mut engine = Engine::start();
    let path = env!("CARGO_BIN_EXE_flowcon-runtime");
    let config = serde_json::json!({
        "runtimes": {
            "flowcon": { "path": path },
            "flowcon-named": { "path": path, "runtimeArgs": ["--runtime", "runc"] },
            "flowcon-broken": { "path": path, "runtimeArgs": ["--runtime=no-such-runtime"] },
        },
        "default-runtime": "flowcon",
    });
    fs::write(engine.dir().join("daemon.json"), config.to_string()).unwrap();
    engine.restart();
    engine
}

/// The environment of a process, of which `docker run OPTIONS IMAGE` or `docker exec NAME` prints it.
fn environment(engine: &Engine, start: &[&str]) -> Vec<String> {
    engine.docker(&[start, &["busybox", "env"]].concat()).lines().map(str::to_owned).collect()
}

fn has(environment: &[String], variable: &str) -> bool {
    environment.iter().any(|entry| entry == variable)
}

#[test]
fn threads_wait_asleep_in_each_container_and_in_what_is_executed_there() {
    let engine = engine();
    for runtime in ["flowcon", "flowcon-named"] {
        let started = environment(&engine, &["run", "--rm", "--network=none", "--runtime", runtime, IMAGE]);
        assert!(PASSIVE.iter().all(|variable| has(&started, variable)), "{runtime}: {started:?}");
    }
    let waits = [IMAGE, "sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"];
    engine.docker(&[&["run", "-d", "--network=none", "--name=job"], &waits[..]].concat());
    let check = |when: &str| {
        let executed = environment(&engine, &["exec", "job"]);
        assert!(PASSIVE.iter().all(|variable| has(&executed, variable)), "{when}: {executed:?}");
        let pid = engine.pid_of("job");
        let first = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        assert_eq!(
            first.split('\0').filter(|entry| PASSIVE.contains(entry)).count(),
            2,
            "{when}, each once: {first:?}"
        );
    };
    check("started");
    engine.docker(&["restart", "job"]);
    check("restarted");
    // Only the document of the runtime has them: the engine's record is the user's.
    assert!(!engine.docker(&["inspect", "job"]).contains("OMP_WAIT_POLICY"));
}

#[test]
fn docker_takes_the_options_of_flowctl_env() {
    let engine = Engine::start();
    let printed = Command::new(env!("CARGO_BIN_EXE_flowctl")).args(["env", "--docker"]).output().unwrap();
    let options = String::from_utf8(printed.stdout).unwrap();
    let run: Vec<&str> = ["run", "--rm", "--network=none"].into_iter().chain(options.split_whitespace()).collect();
    let started = environment(&engine, &[&run[..], &[IMAGE]].concat());
    assert!(PASSIVE.iter().all(|variable| has(&started, variable)), "{started:?}");
}

#[test]
fn what_the_user_or_the_image_has_set_stays() {
    let engine = engine();
    let run = |option: &str| environment(&engine, &["run", "--rm", "--network=none", "-e", option, IMAGE]);
    let active = run("OMP_WAIT_POLICY=active");
    assert!(
        has(&active, "OMP_WAIT_POLICY=active") && !has(&active, PASSIVE[0]) && has(&active, PASSIVE[1]),
        "{active:?}"
    );
    let spinning = run("GOMP_SPINCOUNT=1000000");
    assert!(!spinning.iter().any(|entry| entry.starts_with("OMP_WAIT_POLICY")), "{spinning:?}");

    engine.docker(&["run", "--network=none", "--name=maker", IMAGE, "true"]);
    engine.docker(&["commit", "--change", "ENV OMP_WAIT_POLICY=active", "maker", "active:1"]);
    let of_image = environment(&engine, &["run", "--rm", "--network=none", "active:1"]);
    assert!(has(&of_image, "OMP_WAIT_POLICY=active") && !has(&of_image, PASSIVE[0]), "{of_image:?}");
}

#[test]
fn containers_of_every_kind_run_as_without_it() {
    let engine = engine();
    for options in [
        &["--read-only"][..],
        &["--user=1000:1000"],
        &["--init"],
        &["--env=EMPTY=", "--env=MANY=a=b=c", "--env=UMLAUT=ü"],
        &["--memory=64m", "--cpus=1.5", "--cpu-shares=77", "--ulimit=nofile=1024:2048"],
        &["--tmpfs=/scratch", "--cap-drop=ALL", "--security-opt=no-new-privileges"],
        &["--workdir=/", "--hostname=elsewhere", "--pid=host"],
    ] {
        let print = "b=busybox; $b id -u; $b hostname; ulimit -n; \
            $b cat /sys/fs/cgroup/cpu/cpu.shares /sys/fs/cgroup/cpu.weight 2>/dev/null; $b env | $b grep -v -e OMP_ -e OPENBLAS";
        let of = |runtime: &str| {
            let run = ["run", "--rm", "--network=none", "--hostname=host", "--runtime", runtime];
            engine.docker(&[&run[..], options, &[IMAGE, "sh", "-c", print]].concat())
        };
        assert_eq!(of("flowcon"), of("runc"), "{options:?}");
    }
    let code = engine.try_docker(&["run", "--rm", "--network=none", IMAGE, "sh", "-c", "exit 7"]).status.code();
    assert_eq!(code, Some(7));
}

#[test]
fn a_runtime_that_is_not_installed_is_named_with_the_next_step() {
    let engine = engine();
    let failed = engine.try_docker(&["run", "--rm", "--network=none", "--runtime=flowcon-broken", IMAGE, "true"]);
    let text = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success(), "there is no such runtime");
    assert!(text.contains("the runtime no-such-runtime is not installed; next: install it"), "{text}");
}
