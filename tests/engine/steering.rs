//! Tests of the daemon's configuration and of bad input, with a real dockerd, real cgroups and a full disk.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec, is_limited, is_near};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

const GOVERNED: &str = "flowcon.enable=true";
const SOON: Duration = Duration::from_secs(30);
const FLOWCON: [&str; 2] = ["policy.name=flowcon", "policy.interval=2s"];

fn run(engine: &Engine, name: &str, script: &str) -> String {
    engine.run(RunSpec { name, labels: &[GOVERNED], script, ..RunSpec::default() })
}

fn run_labelled(engine: &Engine, name: &str, label: &str, script: &str) -> String {
    engine.run(RunSpec { name, labels: &[GOVERNED, label], script, ..RunSpec::default() })
}

/// The CPU quota of a container in the kernel, in cores, if any.
fn quota(engine: &Engine, id: &str) -> Option<f64> {
    let file = |file| engine.cgroup_file(id, "cpu", file);
    let (quota, period) = if Engine::is_cgroup_v1() {
        (file("cpu.cfs_quota_us"), file("cpu.cfs_period_us"))
    } else {
        let both = file("cpu.max");
        let (quota, period) = both.split_once(' ').unwrap();
        (quota.to_owned(), period.to_owned())
    };
    let quota: f64 = quota.parse().ok().filter(|quota| *quota > 0.0)?;
    Some(quota / period.parse::<f64>().unwrap())
}

/// The memory protection of a container in the kernel, or its soft limit of version 1, in bytes, if any.
fn protection(engine: &Engine, id: &str) -> Option<u64> {
    let file = if Engine::is_cgroup_v1() { "memory.soft_limit_in_bytes" } else { "memory.low" };
    let bytes = engine.cgroup_file(id, "memory", file).parse::<u64>().unwrap();
    (bytes != 0 && bytes < 1 << 62).then_some(bytes)
}

fn interval(daemon: &Daemon) -> Option<f64> {
    let policy: Value = serde_json::from_str(&daemon.stdout_of(&["policy", "-o", "json"])).unwrap();
    policy["interval_s"].as_f64()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_reload_applies_a_valid_configuration_and_keeps_the_old_one_if_it_is_invalid() {
    let daemon = Daemon::start_configured("off", &[], "[policy]\ninterval = \"7s\"\n");
    let interval_is = |seconds: f64| {
        eventually("the interval changes", SOON, || (interval(&daemon) == Some(seconds)).then_some(()));
    };
    interval_is(7.0);

    fs::write(daemon.config(), "[policy]\ninterval = \"soon\"\nflor = 0.1\n").unwrap();
    let failed = daemon.flowctl(&["reload"]);
    assert!(!failed.status.success());
    for part in ["flowcond.toml:2", "policy.interval", "flowcond.toml:3", "policy.flor"] {
        assert!(text(&failed).contains(part), "{part} in {}", text(&failed));
    }
    daemon.signal("HUP");
    eventually("the log names the error", SOON, || daemon.log().contains("flowcond.toml:2").then_some(()));
    assert_eq!(interval(&daemon), Some(7.0), "the old configuration is kept");

    fs::write(daemon.config(), "[policy]\ninterval = \"9s\"\n").unwrap();
    daemon.signal("HUP");
    interval_is(9.0);
    fs::write(daemon.config(), "[policy]\ninterval = \"11s\"\n").unwrap();
    daemon.stdout_of(&["reload"]);
    interval_is(11.0);
}

#[test]
fn with_on_exit_keep_limits_stay_after_the_daemon_ends_and_can_be_restored() {
    let engine = Engine::start();
    let settings = [FLOWCON[0], FLOWCON[1], "on-exit=keep"];
    let mut daemon = Daemon::start(&engine.address(), &settings);
    run(&engine, "grow", GROWING);
    let flat = run(&engine, "flat", CONVERGED);
    eventually("flat is limited", SOON, || is_limited(engine.cpu_weight(&flat), 100).then_some(()));
    daemon.end("TERM");
    assert!(is_limited(engine.cpu_weight(&flat), 100));
    daemon.restore();
    assert_eq!(engine.cpu_weight(&flat), 100);
}

#[test]
fn two_daemons_govern_their_own_containers_and_cannot_share_a_socket_or_a_state_directory() {
    let engine = Engine::start();
    let first = Daemon::start(&engine.address(), &[FLOWCON[0], FLOWCON[1], "engine.label=team=a"]);
    let second = Daemon::start(&engine.address(), &[FLOWCON[0], FLOWCON[1], "engine.label=team=b"]);
    for (name, team) in [("a1", "team=a"), ("b1", "team=b")] {
        engine.run(RunSpec { name, labels: &[team], script: GROWING, ..RunSpec::default() });
    }
    first.wait_for_job("a1", "is found", SOON, |_| true);
    second.wait_for_job("b1", "is found", SOON, |_| true);
    assert!(first.job("b1").is_none() && second.job("a1").is_none());

    let elsewhere = tempfile::tempdir().unwrap();
    let intruder = |socket: &Path, state: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        command.env("FLOWCON_SOCKET", socket).env("FLOWCON_STATE_DIR", state).args(["--set", "engine.address=off"]);
        command.output().unwrap()
    };
    let in_use = intruder(&first.socket(), &elsewhere.path().join("state"));
    assert_eq!(in_use.status.code(), Some(1), "{}", text(&in_use));
    assert!(text(&in_use).contains("another daemon answers there"), "{}", text(&in_use));
    let too_long = intruder(&elsewhere.path().join("s".repeat(120)), &elsewhere.path().join("state"));
    assert_eq!(too_long.status.code(), Some(1), "{}", text(&too_long));
    assert!(text(&too_long).contains("--socket"), "{}", text(&too_long));
    let shared_state = intruder(&elsewhere.path().join("s.sock"), &first.state_dir());
    assert_eq!(shared_state.status.code(), Some(1), "{}", text(&shared_state));
    assert!(text(&shared_state).contains("in use"), "{}", text(&shared_state));
    first.stdout_of(&["ps"]);
}

#[test]
fn a_configured_quota_is_never_below_its_floor_and_is_removed_at_the_end() {
    let engine = Engine::start();
    let settings = [FLOWCON[0], FLOWCON[1], "policy.enforcement=quota", "policy.quota-floor=0.5"];
    let mut daemon = Daemon::start(&engine.address(), &settings);
    run(&engine, "grow", GROWING);
    let flat = run(&engine, "flat", CONVERGED);
    let capped = eventually("flat has a quota", SOON, || quota(&engine, &flat));
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    let shown = daemon.wait_for_job("flat", "completes", SOON, |job| job["list"] == "completing");
    let fair = shown["share"].as_f64().unwrap() * cores;
    assert!(capped >= 0.5 && capped <= cores, "{capped} cores, share {fair}");
    eventually("the quota is the limit or the floor", SOON, || {
        (quota(&engine, &flat)? - (0.25 * cores).max(0.5)).abs().le(&0.02).then_some(())
    });
    daemon.end("TERM");
    assert_eq!(quota(&engine, &flat), None);
}

#[test]
fn owners_bounds_are_enforced_in_the_kernel() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &FLOWCON);
    let grow = run_labelled(&engine, "grow", "flowcon.max-share=60%", GROWING);
    let flat = run_labelled(&engine, "flat", "flowcon.min-share=0.4", CONVERGED);
    daemon.wait_for_job("flat", "completes", SOON, |job| job["list"] == "completing");
    eventually("120 : 80 instead of 150 : 50", SOON, || {
        (is_near(engine.cpu_weight(&grow), 120) && is_near(engine.cpu_weight(&flat), 80)).then_some(())
    });
}

#[test]
fn the_memory_of_a_growing_job_is_protected_until_the_daemon_ends() {
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &FLOWCON);
    let holds_memory = format!("x=$(head -c 32000000 /dev/zero | tr '\\0' x); {GROWING}");
    let id = run(&engine, "grow", &holds_memory);
    if Engine::is_cgroup_v1() {
        // A job above a soft limit is the first to be reclaimed, so none is set.
        let flat = run(&engine, "flat", CONVERGED);
        eventually("flat is limited", SOON, || is_limited(engine.cpu_weight(&flat), 100).then_some(()));
        assert_eq!(protection(&engine, &id), None);
        return;
    }
    let working_set = 16 << 20..1 << 30;
    eventually("the shell's working set is protected", SOON, || {
        protection(&engine, &id).filter(|bytes| working_set.contains(bytes))
    });
    daemon.end("TERM");
    assert_eq!(protection(&engine, &id), None);
}

#[test]
fn a_renamed_container_keeps_its_list() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &FLOWCON);
    run(&engine, "grow", GROWING);
    run(&engine, "flat", CONVERGED);
    daemon.wait_for_job("flat", "completes", SOON, |job| job["list"] == "completing");
    engine.docker(&["rename", "flat", "renamed"]);
    let job = daemon.wait_for_job("renamed", "is known under its new name", SOON, |_| true);
    assert_eq!(job["list"], "completing", "{job:#?}");
    assert!(daemon.job("flat").is_none());
}

/// A file system of a megabyte, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> SmallDisk {
        let disk = SmallDisk(tempfile::tempdir().unwrap());
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "small"]).arg(disk.0.path()).status();
        assert!(mounted.unwrap().success());
        disk
    }

    fn fill(&self) {
        let mut all = fs::File::create(self.0.path().join("filler")).unwrap();
        // Ends with the expected error that the disk is full.
        let _ = std::io::copy(&mut std::io::repeat(1), &mut all);
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn on_a_full_disk_jobs_keep_their_original_limits_until_there_is_space() {
    let engine = Engine::start();
    let disk = SmallDisk::mount();
    let state = format!("state-dir={}", disk.0.path().join("state").display());
    let mut daemon = Daemon::start(&engine.address(), &[FLOWCON[0], FLOWCON[1], &state]);
    disk.fill();
    run(&engine, "grow", GROWING);
    let flat = run(&engine, "flat", CONVERGED);
    daemon.wait_for_job("flat", "is watched", SOON, |job| job["metric"].is_object());
    let why = "no space left";
    eventually("the log contains the reason", SOON, || daemon.log().contains(why).then_some(()));
    sleep(Duration::from_secs(12));
    assert_eq!(engine.cpu_weight(&flat), 100, "no change without a journal entry: {}", daemon.log());
    // Log positions are saved, or not, every half minute.
    let log = daemon.log();
    let told = log.lines().filter(|line| line.contains(why) && !line.contains("log positions")).count();
    assert!(told <= 6, "logged once for each job, not at each tick:\n{log}");
    disk.free();
    eventually("flat is limited", SOON, || is_limited(engine.cpu_weight(&flat), 100).then_some(()));
    daemon.end("TERM");
    assert_eq!(engine.cpu_weight(&flat), 100);
}

#[test]
fn a_line_of_a_gibibyte_is_skipped_and_the_next_lines_are_read() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &FLOWCON);
    let script = format!("mkdir -p /tmp; truncate -s 1G /tmp/log; (echo; {GROWING}) >> /tmp/log");
    run_labelled(&engine, "grow", "flowcon.log=/tmp/log", &script);
    let job = daemon.wait_for_job("grow", "is read", Duration::from_secs(60), |job| job["metric"].is_object());
    assert!(job["metric"].to_string().contains("loss"), "{job:#?}");
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    let kib: u64 = peak.trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 64 * 1024, "{kib} KiB peak resident memory");
}
