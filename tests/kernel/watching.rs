//! Only watching: the policy `fair` writes to no cgroup, and any user may run a daemon of their own. They need root.

use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use crate::support::program::{install, public_flowctl};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Runs its arguments where no cgroup can be written.
const READ_ONLY: &str = "for mount in $(findmnt -rn -o TARGET -t cgroup,cgroup2); do \
    mount --bind $mount $mount && mount -o remount,bind,ro $mount || exit 9; done; exec \"$@\"";

/// Lines of a training with this loss, and their end.
fn training(loss: &str, end: &str) -> String {
    format!("i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo \"epoch $i/20 loss {loss}\"; sleep 0.2; done; {end}")
}

#[test]
fn the_policy_fair_watches_without_writing_to_any_cgroup() {
    let mut daemon = Daemon::start("off", &["policy.name=fair", "policy.interval=1s"]);
    daemon.end("TERM");
    daemon.launch_under(&["unshare", "--mount", "sh", "-c", READ_ONLY, "sh"]);
    eventually("flowcond replies", SOON, || daemon.flowctl(&["ps"]).status.success().then_some(()));
    let wait = "while :; do sleep 0.1; done";
    let healthy = Job::start(&daemon, "healthy", &[], &["sh", "-c", &training("0.$((99-i))", wait)]);
    let broken = Job::start(&daemon, "broken", &[], &["sh", "-c", &training("nan", wait)]);
    let mut failing = Job::start(&daemon, "failing", &[], &["sh", "-c", &training("0.$((99-i))", "exit 3")]);
    daemon.wait_for_job("broken", "it is NaN", SOON, |job| job["health"]["condition"] == "nan");
    daemon.wait_for_job("healthy", "its log is read to the end", SOON, |job| job["health"]["condition"] == "done");
    assert_eq!(failing.wait().code(), Some(3));
    eventually("its end is told", SOON, || daemon.stdout_of(&["status"]).contains("failed 3").then_some(()));
    assert!(daemon.stdout_of(&["explain", "broken"]).contains("NaN"), "{}", daemon.stdout_of(&["explain", "broken"]));
    drop((healthy, broken));
    daemon.end("TERM");
    assert!(!daemon.log().contains(" WARN ") && !daemon.log().contains(" ERROR "), "{}", daemon.log());
}

#[test]
fn any_user_may_run_a_daemon_that_flowctl_finds() {
    const USER: u32 = 12_371;
    let dir = tempfile::tempdir().unwrap();
    public_flowctl(dir.path());
    install(env!("CARGO_BIN_EXE_flowcond"), &dir.path().join("flowcond"));
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(USER), Some(USER)).unwrap();
    let command = |program: &str, words: &[&str]| {
        let mut command = Command::new(dir.path().join(program));
        command.args(words).env("HOME", &home).env_remove("XDG_RUNTIME_DIR").env_remove("XDG_STATE_HOME");
        command.uid(USER).gid(USER).stdin(Stdio::null()).current_dir("/");
        command
    };
    let flowctl = |words: &[&str]| -> Output { command("flowctl", words).output().unwrap() };
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let words = ["--set", "policy.name=fair", "--set", "engine.address=off"];
    let mut daemon = command("flowcond", &words).stderr(log).spawn().unwrap();
    eventually("its own daemon replies", SOON, || flowctl(&["status"]).status.success().then_some(()));
    let state = home.join(".local/state/flowcon");
    assert!(state.join("flowcond.sock").exists() && state.join("flowcon.db").exists());
    let doctor = String::from_utf8(flowctl(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains("this user's own daemon: full control"), "{doctor}");
    assert!(flowctl(&["policy"]).status.success());
    let status = Command::new("kill").arg(daemon.id().to_string()).status().unwrap();
    assert!(status.success() && daemon.wait().unwrap().success());
    assert_eq!(flowctl(&["status"]).status.code(), Some(3), "it is gone");
}
