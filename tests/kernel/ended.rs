//! Tests of what people are told about commands of `flowctl run` that ended. Needs root.

use crate::support::cgroups::cgroups_named;
use crate::support::daemon::{Daemon, eventually, eventually_or};
use crate::support::job::Job;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// Waits until a command is shown as ended, and returns it.
pub fn ended(daemon: &Daemon, name: &str) -> Value {
    let probe = || {
        let status: Value = serde_json::from_str(&daemon.stdout_of(&["status", "-o", "json"])).unwrap();
        status["ended"].as_array()?.iter().find(|job| job["name"] == name).cloned()
    };
    eventually_or(&format!("{name} has ended"), SOON, probe, || daemon.stdout_of(&["status"]))
}

/// Runs commands until the exit code of one is known, and returns its end. It is unknown if its cgroup is seen empty before `flowctl`
/// reports its end, as on a busy machine.
fn end(daemon: &Daemon, test: &str, run: impl Fn(&str)) -> Value {
    let mut ends = (1..=5).map(|number| {
        let name = format!("ended-{}-{test}-{number}", std::process::id());
        run(&name);
        ended(daemon, &name)
    });
    ends.find(|job| job["ended"]["kind"] != "unknown").expect("an exit code is reported")
}

/// A command that goes on with `script` once it is governed and the file `go` exists: one that ends at once may never be governed.
fn start(daemon: &Daemon, name: &str, go: &Path, script: &str) -> Job {
    let script = format!("until [ -e {} ]; do sleep 0.05; done; {script}", go.display());
    let job = Job::start(daemon, name, &[], &["sh", "-c", &script]);
    daemon.wait_for_job(name, "is governed", SOON, |_| true);
    job
}

/// Sets the limit of the memory of a command.
pub fn limit_memory(name: &str, bytes: u64) {
    let file = |cgroup: PathBuf| {
        ["memory.limit_in_bytes", "memory.max"].map(|file| cgroup.join(file)).into_iter().find(|file| file.exists())
    };
    let cgroups = cgroups_named(&format!("flowcon-{name}"));
    let file = cgroups.into_iter().find_map(file).expect("it has a memory cgroup");
    fs::write(file, bytes.to_string()).unwrap();
}

#[test]
fn the_end_of_a_command_is_shown_with_its_exit_code_or_signal() {
    let daemon = Daemon::start("off", &["policy.interval=1s"]);
    let dir = tempfile::tempdir().unwrap();
    for (test, script, text, code) in [
        ("good", "exit 0", "done", 0),
        ("three", "exit 3", "failed 3", 3),
        ("segv", "kill -SEGV $$", "killed: signal 11", 139),
        ("kill", "kill -KILL $$", "killed: signal 9", 137),
        ("term", "kill -TERM $$", "stopped", 143),
    ] {
        let job = end(&daemon, test, |name| {
            let go = dir.path().join(name);
            let mut job = start(&daemon, name, &go, script);
            fs::write(go, "").unwrap();
            job.wait();
        });
        let end = &job["ended"];
        assert_eq!((end["text"].as_str(), end["exit_code"].as_i64()), (Some(text), Some(code)), "{job:#}");
        let name = job["name"].as_str().unwrap();
        let page = daemon.stdout_of(&["explain", name]);
        assert!(page.contains(&format!("{text}, ran for ")), "{page}");
        let gone = daemon.flowctl(&["logs", name]);
        let words = String::from_utf8_lossy(&gone.stderr).into_owned();
        assert!(gone.status.code() == Some(4) && words.contains("tee FILE"), "{words}");
    }
}

#[test]
fn a_command_that_is_killed_for_memory_says_so() {
    let daemon = Daemon::start("off", &["policy.interval=1s"]);
    let dir = tempfile::tempdir().unwrap();
    let job = end(&daemon, "hog", |name| {
        let go = dir.path().join(name);
        let mut job = start(&daemon, name, &go, "exec dd if=/dev/zero of=/dev/null bs=256M count=1");
        limit_memory(name, 32 << 20);
        // systemd removes the cgroup with its last process: then the limit is known if the daemon has looked since.
        let decisions = || {
            let status = daemon.flowctl(&["status", "-o", "json"]).stdout;
            serde_json::from_slice::<Value>(&status).ok()?["node"]["decisions"].as_u64()
        };
        let before = eventually("it answers", SOON, decisions);
        eventually("it has looked", SOON, || (decisions()? >= before + 3).then_some(()));
        fs::write(go, "").unwrap();
        assert_eq!(job.wait().code(), Some(137));
    });
    let end = &job["ended"];
    assert_eq!((end["text"].as_str(), end["memory_limit_bytes"].as_u64()), (Some("killed: memory"), Some(32 << 20)));
    let story = end["story"].as_str().unwrap();
    assert!(story.contains("limit of 32 MiB. Raise the limit of its cgroup"), "{story}");
}
