//! Tests of `flowctl record` with a real daemon that governs real trainings, and `flowsim replay` of the recording. Needs root.

use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// With an interval in which a busy machine passes on the lines of a recording: one that falls behind is ended.
fn daemon() -> Daemon {
    Daemon::start("off", &["policy.interval=3s", "policy.max-interval=3s"])
}

/// Starts a built-in training in a scope.
fn train(daemon: &Daemon, name: &str, kind: &str, epochs: &str) -> Job {
    let flowctl = env!("CARGO_BIN_EXE_flowctl");
    let words = [flowctl, "train", kind, "--epochs", epochs, "--size", "512", "--threads", "1"];
    Job::start(daemon, name, &[], &words)
}

fn end(mut child: Child, signal: &str) -> Output {
    Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
    eventually("it ends after the signal", SOON, || child.try_wait().unwrap());
    child.wait_with_output().unwrap()
}

fn record(daemon: &Daemon, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    command.arg("--socket").arg(daemon.socket()).arg("record").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ticks(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines); // the last may be in writing
    let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|mut line| line.get_mut("tick").map(Value::take)).collect()
}

fn names(tick: &Value) -> Vec<&str> {
    tick["observation"]["containers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect()
}

fn replay(path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flowsim")).arg("replay").arg(path).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_replay_of_starts_ends_and_a_policy_change_gives_the_same_decisions() {
    let daemon = daemon();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks.jsonl");
    let mut long = train(&daemon, "record-long", "mlp", "1000000");
    daemon.wait_for_job("record-long", "is ranked", SOON, |job| job["rule"] == "ranked");

    // The governor already has state, which the header must contain.
    let recording = record(&daemon, &[path.to_str().unwrap()]);
    eventually("the first ticks are recorded", SOON, || (ticks(&path).len() >= 2).then_some(()));
    let mut other = train(&daemon, "record-other", "softmax", "1000000");
    let both = || ticks(&path).iter().filter(|tick| names(tick).len() == 2).count();
    eventually("ticks with both jobs", SOON, || (both() >= 3).then_some(()));
    daemon.stdout_of(&["policy", "flowcon"]);
    let listed = |tick: &Value| tick["plan"]["containers"].as_array().unwrap().iter().all(|c| !c["list"].is_null());
    eventually("the other policy decides", SOON, || {
        (ticks(&path).iter().filter(|t| listed(t)).count() >= 3).then_some(())
    });
    other.end("TERM");
    let after = || ticks(&path).iter().rev().take_while(|tick| names(tick) == ["record-long"]).count();
    eventually("ticks after the end", SOON, || (after() >= 2).then_some(()));
    let ended = end(recording, "INT");
    long.end("TERM");

    let output = text(&ended.stderr);
    assert!(ended.status.success() && output.contains("ticks recorded"), "{output}");
    let lines = fs::read_to_string(&path).unwrap();
    let header: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(
        !header["header"]["governor"]["remembered"].as_object().unwrap().is_empty(),
        "the header contains earlier state"
    );
    assert!(lines.contains("{\"settings\":{\"policy\":\"flowcon\""), "the change of policy is in it");
    let count = ticks(&path).len();
    let replayed = replay(&path);
    let output = text(&replayed.stdout);
    assert!(
        output.contains(&format!("{count} ticks, all decided the same, bit for bit")),
        "{output}{}",
        text(&replayed.stderr)
    );

    // A share in the last tick that differs by one bit is detected and named.
    let (before, last) = lines.rsplit_once("\"share\":").unwrap();
    let end_of_number = last.find([',', '}']).unwrap();
    let share: f64 = last[..end_of_number].parse().unwrap();
    let changed = format!("{before}\"share\":{:?}{}", f64::from_bits(share.to_bits() - 1), &last[end_of_number..]);
    fs::write(&path, changed).unwrap();
    let differs = replay(&path);
    let output = text(&differs.stderr);
    assert!(
        !differs.status.success() && output.contains(&format!("ticks.jsonl:{}:1:", lines.lines().count())),
        "{output}"
    );
    assert!(output.contains("containers[0].share was"), "{output}");
}

#[test]
fn a_recording_that_ends_with_its_time_or_the_daemon_can_be_replayed() {
    let mut daemon = daemon();
    let folder = tempfile::tempdir().unwrap();
    let (short, cut) = (folder.path().join("short.jsonl"), folder.path().join("cut.jsonl"));
    eventually("two ticks in its time", SOON, || {
        let recorded = daemon.flowctl(&["record", short.to_str().unwrap(), "--for", "10s"]);
        (recorded.status.success() && ticks(&short).len() >= 2).then_some(())
    });
    let recording = record(&daemon, &[cut.to_str().unwrap()]);
    eventually("a tick", SOON, || (!ticks(&cut).is_empty()).then_some(()));
    daemon.end("TERM");
    let ended = recording.wait_with_output().unwrap();
    // A daemon closes connections that a busy machine does not let end in time.
    let is_told = |words: &str| text(&ended.stderr).contains(words);
    let is_cut = is_told("the daemon ended the recording") || is_told("the recording was interrupted");
    assert!(!ended.status.success() && is_cut, "{}", text(&ended.stderr));
    for path in [short, cut] {
        assert!(replay(&path).status.success(), "{}", text(&replay(&path).stderr));
    }
}

#[test]
fn a_fifth_recording_is_rejected_until_another_ends() {
    let daemon = daemon();
    let folder = tempfile::tempdir().unwrap();
    let path = |n: usize| folder.path().join(format!("{n}.jsonl"));
    let open: Vec<Child> = (0..4).map(|n| record(&daemon, &[path(n).to_str().unwrap()])).collect();
    eventually("four recordings run", SOON, || (0..4).all(|n| path(n).exists()).then_some(()));
    let refused = daemon.flowctl(&["record", path(4).to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(6), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("too many recordings") && !path(4).exists());
    for recording in open {
        end(recording, "INT");
    }
    let recorded = eventually("a tick in its time", SOON, || {
        let output = daemon.flowctl(&["record", "--for", "10s"]);
        let recorded = text(&output.stdout);
        (output.status.success() && recorded.lines().count() >= 2).then_some(recorded)
    });
    assert!(recorded.starts_with("{\"header\":"), "written to standard output without a file: {recorded}");
}

#[test]
fn without_a_daemon_no_file_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("none.sock"), folder.path().join("ticks.jsonl"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    let output = command.arg("--socket").arg(&socket).arg("record").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(!file.exists());
}
