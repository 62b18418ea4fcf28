//! Tests of what people are told about jobs that ended: real kills for memory, failures, stops, kills and restarts. Needs root.

use crate::support::daemon::{Daemon, eventually_or, unwrapped};
use crate::support::engine::{Engine, RunSpec};
use crate::support::notify::{Http, Notify, wait_for};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// Needs 256 MiB, which the limit does not allow.
const HOG: &str = "dd if=/dev/zero of=/dev/null bs=256M count=1";
const SMALL: [&str; 2] = ["--memory=32m", "--memory-swap=32m"];

/// Starts a governed container whose script waits for [`go`].
fn start(engine: &Engine, daemon: &Daemon, name: &str, options: &[&str], script: &str) {
    let script = format!("echo hello from {name}; until [ -e /go ]; do usleep 100000; done; {script}");
    engine.run(RunSpec { name, labels: &["flowcon.enable=true"], options, script: &script });
    daemon.wait_for_job(name, "is found", SOON, |_| true);
}

fn go(engine: &Engine, name: &str) {
    engine.try_docker(&["exec", name, "sh", "-c", ": > /go"]); // may be killed by the end of the container
}

fn status(daemon: &Daemon) -> Value {
    serde_json::from_str(&daemon.stdout_of(&["status", "-o", "json"])).unwrap()
}

/// Waits until a container is shown as ended, and returns its end.
fn end_of(daemon: &Daemon, name: &str) -> Value {
    let probe = || {
        let status = status(daemon);
        let job = status["ended"].as_array()?.iter().find(|job| job["name"] == name)?.clone();
        assert_eq!(job["state"], "ended");
        Some(job["ended"].clone())
    };
    eventually_or(&format!("{name} has ended"), SOON, probe, || daemon.stdout_of(&["status"]))
}

/// The text of the event of its end.
fn event_of(daemon: &Daemon, name: &str) -> String {
    let events = daemon.stdout_of(&["events", "-o", "jsonl", "--no-follow", "-n", "1000"]);
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut ends = events.filter(|event| event["kind"] == "ended" && event["name"] == name);
    let end = ends.next().unwrap_or_else(|| panic!("{name} has no event"));
    assert!(ends.next().is_none(), "{name} ended once");
    end["text"].as_str().unwrap().to_owned()
}

#[test]
fn each_end_is_told_from_the_others_and_its_log_stays_readable() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    start(&engine, &daemon, "hog", &SMALL, &format!("exec {HOG}"));
    start(&engine, &daemon, "child", &SMALL, &format!("{HOG}; exit 1"));
    start(&engine, &daemon, "survivor", &SMALL, &format!("{HOG}; exit 0"));
    start(&engine, &daemon, "hog-rm", &[&SMALL[..], &["--rm"]].concat(), &format!("exec {HOG}"));
    start(&engine, &daemon, "good", &[], "exit 0");
    start(&engine, &daemon, "bad", &[], "exit 1");
    start(&engine, &daemon, "bad-rm", &["--rm"], "exit 3");
    start(&engine, &daemon, "polite", &[], "trap 'exit 5' TERM; sleep 1000 & wait");
    start(&engine, &daemon, "stubborn", &[], "trap '' TERM; while :; do usleep 100000; done");
    start(&engine, &daemon, "shot", &[], "sleep 1000 & wait");
    start(&engine, &daemon, "hit", &[], "sleep 1000 & wait");
    for name in ["hog", "child", "survivor", "hog-rm", "good", "bad", "bad-rm", "polite", "stubborn"] {
        go(&engine, name);
    }
    engine.docker(&["stop", "polite"]);
    engine.docker(&["stop", "-t", "1", "stubborn"]);
    engine.docker(&["kill", "shot"]);
    let pid = engine.pid_of("hit").to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());

    const MEMORY: &str = "killed for memory (limit 32 MiB)";
    for (name, text, code, event) in [
        ("hog", "killed: memory", 137, MEMORY),
        ("child", "killed: memory", 1, "killed for memory (limit 32 MiB); exit code 1"),
        ("survivor", "done", 0, "exit code 0"),
        ("hog-rm", "killed: memory", 137, MEMORY),
        ("good", "done", 0, "exit code 0"),
        ("bad", "failed 1", 1, "failed with exit code 1"),
        ("bad-rm", "failed 3", 3, "failed with exit code 3"),
        ("polite", "stopped", 5, "stopped on request; exit code 5"),
        ("stubborn", "stopped", 137, "stopped on request"),
        ("shot", "killed: signal 9", 137, "killed by signal 9 (SIGKILL), sent through its engine"),
        ("hit", "killed: signal 9", 137, "killed by signal 9 (SIGKILL)"),
    ] {
        let end = end_of(&daemon, name);
        assert_eq!((end["text"].as_str(), end["exit_code"].as_i64()), (Some(text), Some(code)), "{name}: {end:#}");
        assert_eq!(event_of(&daemon, name), format!("{name} ended: {event}"));
        eventually_or(
            &format!("the history has the end of {name}"),
            SOON,
            || {
                let listed = daemon.stdout_of(&["history"]);
                let line = listed.lines().find(|line| line.split(' ').next() == Some(name))?;
                line.trim_end().ends_with(text).then_some(())
            },
            || daemon.stdout_of(&["history"]),
        );
    }

    let page = unwrapped(&daemon.stdout_of(&["explain", "hog"]));
    assert!(page.contains("limit of 32 MiB. Raise --memory, or lower the batch size"), "{page}");
    assert!(page.contains("`flowctl logs hog` shows its last lines"), "{page}");
    let page = daemon.stdout_of(&["status"]);
    let line = page.lines().find(|line| line.starts_with("child ")).unwrap_or_else(|| panic!("{page}"));
    assert!(line.contains("killed: memory") && line.contains(" ago"), "{line}");
    let top = daemon.stdout_of(&["top", "-b", "-n", "1"]);
    assert!(top.lines().any(|line| line.contains("bad ") && line.contains("failed 1, ")), "{top}");

    assert_eq!(daemon.stdout_of(&["logs", "hog"]), "hello from hog\n");
    let gone = daemon.flowctl(&["logs", "bad-rm"]);
    let words = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(gone.status.code() == Some(4) && words.contains("the log of bad-rm is gone"), "{words}");
    let refused = daemon.flowctl(&["pin", "bad"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("bad has ended: failed with exit code 1"), "{words}");

    let metrics = daemon.stdout_of(&["metrics"]);
    for (kind, count) in [("killed-for-memory", 3), ("failed", 2), ("done", 2), ("stopped", 2), ("signalled", 2)] {
        let line = format!("flowcon_jobs_ended_total{{end=\"{kind}\"}} {count}");
        assert!(metrics.lines().any(|found| found.trim_end_matches(".0") == line), "{line}: {metrics}");
    }
}

#[test]
fn the_log_of_an_ended_container_is_read_from_any_log_driver() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    start(&engine, &daemon, "local", &["--log-driver=local"], "exit 1");
    go(&engine, "local");
    assert_eq!(end_of(&daemon, "local")["text"], "failed 1");
    assert_eq!(daemon.stdout_of(&["logs", "local"]), "hello from local\n");
    engine.docker(&["rm", "local"]);
    let gone = daemon.flowctl(&["logs", "local"]);
    let words = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(gone.status.code() == Some(4) && words.contains("its container was removed"), "{words}");
}

#[test]
fn a_job_that_its_engine_restarts_again_and_again_says_so() {
    let engine = Engine::start();
    let server = Http::start();
    let config = format!("[notify.hook]\ntype = \"webhook\"\nurl = \"{}\"\n", server.url("/hook"));
    let daemon = Daemon::start_configured(&engine.address(), &["policy.interval=1s"], &config);
    let _notify = Notify::start(&daemon);
    Notify::wait_until_connected(&daemon, 1);
    let script = "echo again; usleep 1500000; exit 2";
    let options = &["--restart=on-failure:50"];
    engine.run(RunSpec { name: "loop", labels: &["flowcon.enable=true"], options, script });
    let often = |job: &Value| job["restarts"]["recent_ends"].as_u64() >= Some(3);
    let job = daemon.wait_for_job("loop", "is restarted three times", SOON, often);
    let restarts = &job["restarts"];
    assert_eq!((restarts["last"]["text"].as_str(), restarts["within_s"].as_f64()), (Some("failed 2"), Some(600.0)));
    assert!(restarts["count"].as_u64() >= Some(3), "{job:#}");
    let words = job["notices"][0]["text"].as_str().unwrap();
    assert!(words.starts_with("restarted by its engine ") && words.contains("failed with exit code 2"), "{words}");
    wait_for(&daemon, &server, "/hook", &["loop failed", "loop restarting"], SOON);
    engine.docker(&["rm", "-f", "loop"]);
    let end = end_of(&daemon, "loop");
    assert!(end["recent_ends"].as_u64() >= Some(3), "{end:#}");
}
