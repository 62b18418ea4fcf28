//! Broken trainings on a real engine: each is named, gets the floor, and competes again once it recovers.

use crate::support::daemon::{Daemon, eventually, unwrapped};
use crate::support::engine::{Engine, RunSpec};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
/// A silence counts from a minute on.
const A_SILENCE: Duration = Duration::from_secs(120);

/// Prints an epoch after a third of a CPU-second or so, with a loss that falls; from epoch 11 on it prints what `$AFTER` computes.
fn training(after: &str) -> String {
    format!(
        "i=0; l=90000; while [ $i -lt 1000 ]; do n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done; i=$((i+1)); l=$((l*99/100)); \
         value=$((l/1000)).$((l%1000/100))$((l%100/10)); [ $i -le 10 ] || {{ {after}; }}; echo \"epoch $i/1000 loss: $value\"; done"
    )
}

fn health(daemon: &Daemon, name: &str) -> String {
    daemon.job(name).map_or(Value::Null, |job| job["health"]["condition"].clone()).as_str().unwrap_or("").to_owned()
}

fn is(daemon: &Daemon, name: &str, condition: &str, within: Duration) {
    daemon.wait_for_job(name, condition, within, |job| job["health"]["condition"] == condition);
}

fn share(daemon: &Daemon, name: &str) -> f64 {
    daemon.job(name).and_then(|job| job["share"].as_f64()).unwrap_or(1.0)
}

#[test]
fn broken_trainings_are_named_and_get_the_floor_until_they_recover() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.interval=2s", "policy.floor=0.1"]);
    let run = |name: &str, after: &str| {
        let script = &training(after);
        engine.run(RunSpec { name, script, labels: &["flowcon.enable=true"], ..RunSpec::default() })
    };
    run("healthy", ":");
    run("exploded", "value=nan");
    run("hung", "until [ -e /go ]; do sleep 1; done");
    let stopped = run("stopped", ":");
    let pid = engine.pid_of(&stopped);
    daemon.wait_for_job("stopped", "has reported five epochs", SOON, |job| {
        job["progress"]["current"].as_f64().is_some_and(|epochs| epochs >= 5.0)
    });
    let signal = |signal: &str| {
        assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    };
    signal("-STOP");

    is(&daemon, "exploded", "nan", SOON);
    // A tenth of an equal share of four, and a little of what the others cannot use.
    let at_the_floor = |name: &str| (share(&daemon, name) < 0.05).then_some(());
    eventually("the floor", Duration::from_secs(10), || at_the_floor("exploded"));
    let job = daemon.job("exploded").unwrap();
    assert_eq!((job["health"]["words"].as_str(), job["rule"].as_str()), (Some("NaN since epoch 11"), Some("broken")));

    is(&daemon, "hung", "stalled", A_SILENCE);
    is(&daemon, "stopped", "stalled", A_SILENCE);
    eventually("the floor", Duration::from_secs(10), || at_the_floor("hung").and(at_the_floor("stopped")));
    assert!(share(&daemon, "healthy") > 0.8, "{:?}", daemon.jobs());
    for (name, evidence) in [("hung", "are asleep"), ("stopped", "kill -CONT")] {
        let page = daemon.stdout_of(&["explain", name]);
        assert!(unwrapped(&page).contains(evidence), "{page}");
    }

    signal("-CONT");
    engine.docker(&["exec", "hung", "sh", "-c", ": > /go"]);
    is(&daemon, "hung", "learning", SOON);
    is(&daemon, "stopped", "learning", SOON);
    eventually("more than the floor", SOON, || (share(&daemon, "hung") > 0.1).then_some(()));
    assert_eq!(health(&daemon, "exploded"), "nan");

    let events = daemon.stdout_of(&["events", "--recent", "1000", "--no-follow", "-o", "jsonl"]);
    let of = |name: &str| -> Vec<String> {
        let lines = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let about = lines.filter(|event| event["kind"] == "health" && event["name"] == name);
        about.map(|event| event["text"].as_str().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(of("healthy"), Vec::<String>::new());
    assert_eq!(of("exploded"), ["exploded: NaN since epoch 11; next: flowctl explain exploded"]);
    let [began, ended] = &of("hung")[..] else { panic!("{:?}", of("hung")) };
    assert!(
        began.starts_with("hung: stalled for ") && ended == "hung: learning again, no longer stalled",
        "{began}, {ended}"
    );
}
