//! Tests that flowcon changes the limits of a container and nothing else: the engine's whole description of it is compared, and what the
//! kernel enforces.
//!
//! With Docker, and with the Podman of this machine: 5.1 and later keep updates, earlier ones have no such call.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec};
use crate::support::podman::Podman;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::Duration;

const GOVERNED: &str = "flowcon.enable=true";
const SOON: Duration = Duration::from_secs(60);
const SETTINGS: [&str; 4] =
    ["policy.name=flowcon", "policy.interval=2s", "policy.enforcement=quota", "policy.quota-floor=0.1"];
/// Fields of `HostConfig` that are limits of flowcon, and those that an engine derives from them.
const LIMITS: [&str; 3] = ["CpuShares", "CpuQuota", "NanoCpus"];
/// The CPU weight of `--cpu-shares 700`, on cgroup v1 and after the two conversions of v2.
const ORIGINAL: [u64; 3] = [68, 27, 75];

/// The containers, by name. Each has CPU shares of its own, because those that were never set cannot be unset again.
const CONTAINERS: [(&str, &[&str]); 9] = [
    ("always", &["--restart=always"]),
    ("on-failure", &["--restart=on-failure:5"]),
    ("unless-stopped", &["--restart=unless-stopped"]),
    ("rm", &["--rm"]),
    ("ulimit", &["--ulimit", "nofile=512:1024", "--ulimit", "nproc=4096:4096"]),
    ("cpus", &["--cpus=1.5"]),
    ("quota", &["--cpu-period=50000", "--cpu-quota=60000"]),
    ("pids", &["--pids-limit=77"]),
    ("memory", &["--memory=64m", "--memory-swap=96m", "--memory-reservation=32m"]),
];
/// Those that are restarted after their first process was killed.
const RESTARTED: [&str; 3] = ["always", "on-failure", "unless-stopped"];

type Run<'a> = &'a dyn Fn(&[&str]) -> String;

/// What the kernel enforces besides our limits, on cgroup v1 and v2.
const KERNEL_FILES: [&str; 11] = [
    "cpu.cfs_period_us",
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.soft_limit_in_bytes",
    "memory.max",
    "memory.swap.max",
    "pids.max",
    "cpuset.cpus",
    "cpuset.mems",
    "devices.list",
    "cgroup.freeze",
];

/// Descriptions of all containers, by name, with the files of their cgroups as `Kernel`.
fn described(run: Run) -> BTreeMap<&'static str, Value> {
    let describe = |name: &'static str| {
        let mut found: Value = serde_json::from_str(&run(&["inspect", name])).unwrap();
        found[0]["Kernel"] = enforced(&found[0]["State"]["Pid"]);
        (name, found[0].take())
    };
    CONTAINERS.iter().map(|(name, _)| describe(name)).collect()
}

fn enforced(pid: &Value) -> Value {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let mut found = serde_json::Map::new();
    for (controller, path) in cgroups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')) {
        for file in KERNEL_FILES {
            if let Ok(text) = fs::read_to_string(format!("/sys/fs/cgroup/{controller}{path}/{file}")) {
                found.insert(file.to_owned(), text.into());
            }
        }
    }
    assert!(found.contains_key("pids.max"), "{cgroups}");
    Value::Object(found)
}

/// The descriptions without the values of flowcon's limits.
fn without_limits(mut containers: BTreeMap<&'static str, Value>) -> BTreeMap<&'static str, Value> {
    let host = |container: &mut Value| container["HostConfig"].as_object_mut().unwrap().clone();
    for container in containers.values_mut() {
        let kept = host(container).into_iter().filter(|(field, _)| !LIMITS.contains(&field.as_str()));
        container["HostConfig"] = Value::Object(kept.collect());
    }
    containers
}

fn assert_same(what: &str, now: &BTreeMap<&'static str, Value>, before: &BTreeMap<&'static str, Value>) {
    let differences: Vec<String> =
        before.iter().flat_map(|(name, before)| differences(name, before, &now[name])).collect();
    assert!(differences.is_empty(), "{what}: {differences:#?}");
}

/// The fields with different values, with their paths.
fn differences(path: &str, before: &Value, now: &Value) -> Vec<String> {
    let (Value::Object(before), Value::Object(now)) = (before, now) else {
        let differs = before != now;
        return differs.then(|| format!("{path}: {before} became {now}")).into_iter().collect();
    };
    let fields: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let of = |object: &serde_json::Map<String, Value>, field: &str| object.get(field).cloned().unwrap_or_default();
    fields
        .into_iter()
        .flat_map(|field| differences(&format!("{path}.{field}"), &of(before, field), &of(now, field)))
        .collect()
}

/// Waits until all containers are limited, so that every engine that can has got an update of each.
fn wait_until_limited(daemon: &Daemon) {
    for (name, _) in CONTAINERS {
        daemon.wait_for_job(name, "is limited", SOON, |job| {
            job["hold"].is_null() && job["cpu_weight"].as_u64().is_some_and(|weight| !ORIGINAL.contains(&weight))
        });
    }
}

/// Governs, releases and restores containers that run, and ends the first process of some. `run` runs a command of the engine.
fn only_limits_change(address: &str, run: Run) {
    let before = described(run);
    let mut daemon = Daemon::start(address, &SETTINGS);
    wait_until_limited(&daemon);
    assert_same("governed", &without_limits(described(run)), &without_limits(before.clone()));
    daemon.carried_out(&["release", "--all"]);
    assert_same("released", &described(run), &before);

    daemon.carried_out(&["govern", "--all"]);
    wait_until_limited(&daemon);
    assert_same("governed again", &without_limits(described(run)), &without_limits(before.clone()));
    daemon.end("KILL");
    daemon.restore();
    assert_same("restored", &described(run), &before);

    for name in RESTARTED {
        let pid = run(&["inspect", "--format", "{{.State.Pid}}", name]);
        Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        eventually(&format!("{name} is restarted"), SOON, || {
            let state = run(&["inspect", "--format", "{{.State.Running}} {{.State.Pid}}", name]);
            (state.starts_with("true ") && !state.ends_with(&format!(" {pid}"))).then_some(())
        });
    }
}

/// The doctor's check of restart policies.
fn restarts(daemon: &Daemon) -> Value {
    let report: Value = serde_json::from_slice(&daemon.flowctl(&["doctor", "-o", "json"]).stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == "restarts").expect("Podman's containers are checked").clone()
}

#[test]
fn docker_keeps_everything_but_our_limits() {
    let engine = Engine::start();
    engine.run(RunSpec { name: "grows", labels: &[GOVERNED], script: GROWING, ..RunSpec::default() });
    for (name, options) in CONTAINERS {
        let options = [options, &["--cpu-shares=700"]].concat();
        engine.run(RunSpec { name, labels: &[GOVERNED], options: &options, script: CONVERGED });
    }
    only_limits_change(&engine.address(), &|arguments| engine.docker(arguments));
}

#[test]
fn podman_keeps_everything_but_our_limits() {
    let podman = Podman::start();
    podman.run("grows", GOVERNED, GROWING);
    for (name, options) in CONTAINERS {
        let options = [options, &["--cpu-shares=700"]].concat();
        podman.run_with(name, GOVERNED, &options, CONVERGED);
    }
    only_limits_change(&podman.address(), &|arguments| podman.podman(arguments));

    let daemon = Daemon::start(&podman.address(), &SETTINGS);
    assert_eq!(restarts(&daemon)["verdict"], "ok");
    if podman.podman(&["update", "--help"]).contains("--restart") {
        podman.podman(&["update", "--restart=no", "on-failure"]);
        let found = restarts(&daemon);
        assert_eq!(found["mend"], "`podman update --restart=on-failure:5 on-failure`", "{found}");
        podman.podman(&["update", "--restart=on-failure:5", "on-failure"]);
        assert_eq!(restarts(&daemon)["verdict"], "ok");
    }
}
