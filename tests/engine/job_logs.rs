//! Tests of `flowctl check-log JOB` and `logs JOB`: the log of a governed job is read from any log driver, according to the job's labels.

use crate::served::{Served, idle_node, job};
use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{Engine, RunSpec};
use crate::support::job::Job;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

const GOVERNED: &str = "flowcon.enable=true";
const SOON: Duration = Duration::from_secs(30);
/// A script that prints twelve evaluations with a line of more than 16 KiB in between, then sleeps.
const TRAINING: &str = "i=0; while [ $i -lt 12 ]; do i=$((i+1)); echo \"epoch $i/12 loss: 0.$((90-i)) quality 0.$((10+i))\"; \
    [ $i = 6 ] && { head -c 40000 /dev/zero; echo; }; done; sleep 600";

fn report(daemon: &Daemon, arguments: &[&str]) -> Value {
    let arguments = [&["logs", "--json"], arguments].concat();
    serde_json::from_str(&daemon.stdout_of(&arguments)).unwrap()
}

fn summary(report: &Value) -> (&str, usize, f64, f64) {
    let values = report["observations"].as_array().unwrap();
    let value = |at: usize| values[at]["value"].as_f64().unwrap();
    (report["metric"].as_str().unwrap(), values.len(), value(0), value(values.len() - 1))
}

#[test]
fn the_log_of_a_container_is_read_by_name_with_any_log_driver() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &[]);
    let inside = format!("( {TRAINING} ) > /train.log & wait");
    for (name, labels, options, script) in [
        ("json", &[GOVERNED][..], &[][..], TRAINING),
        ("local", &[GOVERNED], &["--log-driver", "local"], TRAINING),
        ("terminal", &[GOVERNED], &["--log-driver", "local", "-t"], TRAINING),
        ("inside", &[GOVERNED, "flowcon.log=/train.log"], &[], &inside),
    ] {
        engine.run(RunSpec { name, labels, options, script });
        daemon.wait_for_job(name, "is read to its end", SOON, |job| job["progress"]["current"] == 12.0);
        let report = report(&daemon, &[name]);
        assert_eq!(summary(&report), ("loss", 12, 0.89, 0.78), "{name}: {report:#}");
        assert_eq!(report["progress"], serde_json::json!({"unit": "epoch", "current": 12, "total": 12}), "{name}");
        let page = daemon.stdout_of(&["check-log", name]);
        assert!(page.contains("loss (smaller is better") && page.contains("12, from 0.89 to 0.78"), "{page}");
    }
}

#[test]
fn the_labels_of_a_job_apply_unless_overridden_on_the_command_line() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &[]);
    let labels = [GOVERNED, "flowcon.metric=quality", "flowcon.direction=up"];
    engine.run(RunSpec { name: "labelled", labels: &labels, script: TRAINING, ..RunSpec::default() });
    daemon.wait_for_job("labelled", "is read", SOON, |job| job["progress"]["current"] == 12.0);
    let by_labels = report(&daemon, &["labelled"]);
    assert_eq!((summary(&by_labels), by_labels["direction"].as_str()), (("quality", 12, 0.11, 0.22), Some("up")));
    let by_hand = ["check-log", "labelled", "--metric", "loss", "--direction", "down", "--json"];
    let by_hand: Value = serde_json::from_str(&daemon.stdout_of(&by_hand)).unwrap();
    assert_eq!((summary(&by_hand), by_hand["direction"].as_str()), (("loss", 12, 0.89, 0.78), Some("down")));
}

#[test]
fn the_output_of_a_command_under_flowctl_run_is_read_by_name() {
    let daemon = Daemon::start("off", &[]);
    let name = format!("logs-{}", std::process::id());
    let script = TRAINING.replace("sleep 600", "exec sleep 600"); // ends on SIGTERM
    let mut running = Job::start(&daemon, &name, &[], &["sh", "-c", &script]);
    daemon.wait_for_job(&name, "is read to its end", SOON, |job| job["progress"]["current"] == 12.0);
    assert_eq!(summary(&report(&daemon, &[&name])), ("loss", 12, 0.89, 0.78));
    running.end("TERM");
    eventually("it is gone", SOON, || daemon.job(&name).is_none().then_some(()));
}

#[test]
fn a_log_is_followed_until_its_job_ends() {
    // Waits in the middle until the log is followed.
    const WAITS: &str = "i=0; while [ $i -lt 6 ]; do i=$((i+1)); echo \"epoch $i/6 loss: 0.$((90-i))\"; sleep 0.5; \
        if [ $i = 4 ]; then until [ -e /go ]; do sleep 0.1; done; fi; done; echo bye";
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &[]);
    let rotated = ["--log-opt", "max-size=100", "--log-opt", "max-file=9"];
    let inside = format!("( {WAITS} ) > /train.log; sleep 5");
    let with_pause = format!("{WAITS}; sleep 1");
    let jobs = [
        ("json", &[GOVERNED][..], &[][..], WAITS),
        ("rotated", &[GOVERNED], &rotated, WAITS),
        ("local", &[GOVERNED], &["--log-driver", "local"], &with_pause),
        ("inside", &[GOVERNED, "flowcon.log=/train.log"], &[], &inside),
    ];
    let mut followers = Vec::new();
    for (name, labels, options, script) in jobs {
        engine.run(RunSpec { name, labels, options, script });
        // Late enough that the log has been rotated.
        daemon.wait_for_job(name, "is read", SOON, |job| job["progress"]["current"].as_f64() >= Some(4.0));
        assert_eq!(daemon.stdout_of(&["logs", "--tail", "1", name]), "epoch 4/6 loss: 0.86\n", "{name}");
        let mut last = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        last.arg("--socket").arg(daemon.socket()).args(["logs", "-f", "-n", "2", name]).stdout(Stdio::piped());
        let mut last = last.spawn().unwrap();
        let mut last_reader = BufReader::new(last.stdout.take().unwrap());
        let mut last_text = String::new();
        last_reader.read_line(&mut last_text).unwrap();
        let mut follower = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        follower.arg("--socket").arg(daemon.socket()).args(["logs", "-f", name]).stdout(Stdio::piped());
        let mut follower = follower.spawn().unwrap();
        let mut reader = BufReader::new(follower.stdout.take().unwrap());
        let mut text = String::new();
        reader.read_line(&mut text).unwrap();
        engine.try_docker(&["exec", name, "sh", "-c", ": > /go"]); // may be killed by the end of the container
        followers.push((name, 1, follower, reader, text));
        followers.push((name, 3, last, last_reader, last_text));
    }
    for (name, first, mut follower, mut reader, mut text) in followers {
        reader.read_to_string(&mut text).unwrap();
        let status = follower.wait().unwrap();
        let wanted: String =
            (first..=6).map(|i| format!("epoch {i}/6 loss: 0.{}\n", 90 - i)).chain(["bye\n".to_owned()]).collect();
        assert_eq!((text.as_str(), status.code()), (wanted.as_str(), Some(0)), "{name} from {first}");
    }
}

#[test]
fn a_log_cannot_reorder_the_text_of_a_terminal() {
    let daemon = Daemon::start("off", &[]);
    let name = format!("reorders-{}", std::process::id());
    // U+202E and U+2066.
    let print = "printf 'epoch 1/2 loss: 0.5 \\342\\200\\256evil\\342\\201\\246 end\\n'; sleep 600";
    let _job = Job::start(&daemon, &name, &[], &["sh", "-c", print]);
    let command = format!("{} --socket {} logs {name}", env!("CARGO_BIN_EXE_flowctl"), daemon.socket().display());
    let on_terminal = || {
        let output = Command::new("script").args(["-qfc", &command, "/dev/null"]).output().unwrap();
        Some(String::from_utf8_lossy(&output.stdout).into_owned()).filter(|text| text.contains("end"))
    };
    let text = eventually("its output is read", SOON, on_terminal);
    assert!(text.contains("0.5 evil end"), "{text:?}");
}

#[test]
fn a_name_that_is_neither_a_file_nor_a_job_is_not_found() {
    let daemon = Daemon::start("off", &[]);
    let output = daemon.flowctl(&["logs", "nobody"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("there is no file nobody") && stderr.contains("next:"), "{stderr}");
}

#[test]
fn a_users_command_is_found_by_its_own_name_if_only_one_user_has_a_command_of_that_name() {
    let mut node = idle_node();
    node.jobs = vec![
        job("scope:train@1000", "train@alice"),
        job("scope:lstm@1000", "lstm@alice"),
        job("scope:lstm@1001", "lstm@bob"),
        job("scope:vae@1000", "vae@alice"),
        job("scope:vae", "vae"),
    ];
    let served = Served::new(node);
    let logs = |name: &str| {
        let mut flowctl = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        let output = flowctl.arg("--socket").arg(&served.socket).args(["logs", name]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // None of them has a stored log, and the message names the job that was found.
    for (name, found) in [("train", "train@alice"), ("vae", "vae"), ("vae@alice", "vae@alice")] {
        let (code, stderr) = logs(name);
        assert!(code == Some(4) && stderr.contains(&format!("{found} has no stored log")), "{stderr}");
    }
    let (code, stderr) = logs("lstm");
    assert!(code == Some(6) && stderr.contains("scope:lstm@1000, scope:lstm@1001"), "{stderr}");
    let (code, stderr) = logs("trai");
    assert!(code == Some(4) && stderr.contains("no governed container is called trai"), "{stderr}");
}
