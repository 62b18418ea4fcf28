//! Tests of adopting containers without the label, with a real dockerd, `flowcond`, `flowctl` and the kernel's files.

use crate::support::daemon::{Daemon, eventually, unwrapped};
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec, is_limited};
use std::fs;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);
const FLOWCON: [&str; 2] = ["policy.name=flowcon", "policy.interval=2s"];

fn run(engine: &Engine, name: &str, labels: &[&str], script: &str) -> String {
    engine.run(RunSpec { name, labels, script, ..RunSpec::default() })
}

fn wait_until_limited(engine: &Engine, id: &str) {
    eventually("its weight follows its growth", SOON, || is_limited(engine.cpu_weight(id), 100).then_some(()));
}

/// The configuration of [`FLOWCON`] with another interval.
fn configuration(interval: &str) -> String {
    format!("[policy]\nname = \"flowcon\"\ninterval = \"{interval}\"\n")
}

fn adopted_count(daemon: &Daemon) -> u32 {
    let journal = rusqlite::Connection::open(daemon.state_dir().join("flowcon.db")).unwrap();
    journal.query_row("SELECT count(*) FROM adopted", [], |row| row.get(0)).unwrap()
}

#[test]
fn an_adopted_container_stays_governed_after_restarts_until_it_is_disowned() {
    let engine = Engine::start();
    let mut daemon = Daemon::start_configured(&engine.address(), &[], &configuration("2s"));
    run(&engine, "grow", &["flowcon.enable=true"], GROWING);
    let flat = run(&engine, "flat", &[], CONVERGED);
    let stranger = run(&engine, "stranger", &[], GROWING);
    daemon.wait_for_job("grow", "is found", SOON, |_| true);

    let text = daemon.carried_out(&["adopt", "flat", "--label", "flowcon.metric=loss"]);
    if text.is_empty() {
        daemon.wait_for_job("flat", "is governed", SOON, |_| true); // too late for a reply
    } else {
        assert!(text.contains("flat is adopted") && text.contains("flowctl disown flat"), "{text}");
    }
    let job = daemon.job("flat").expect("it is governed when the command returns");
    assert_eq!(job["adopted"]["labels"]["flowcon.metric"], "loss", "{job:#?}");
    assert!(daemon.stdout_of(&["status"]).contains("adopted without the label: flat"));
    let page = unwrapped(&daemon.stdout_of(&["explain", "flat"]));
    assert!(page.contains("with flowcon.metric=loss; undo: `flowctl disown"), "{page}");
    wait_until_limited(&engine, &flat);

    daemon.end("KILL");
    let limited = engine.cpu_weight(&flat);
    assert!(is_limited(limited, 100), "a crash changes nothing by itself: {limited}");
    let weight_file = engine.weight_file(&flat);
    let weight = || fs::read_to_string(&weight_file).unwrap(); // docker would take longer
    let weight_before = weight();
    fs::write(daemon.config(), configuration("40s")).unwrap(); // long enough to see the limit before it changes
    daemon.boot();
    assert_eq!(weight(), weight_before, "the limit is unchanged");
    let job = daemon.wait_for_job("flat", "is adopted by the next daemon", SOON, |_| true);
    assert_eq!(job["adopted"]["labels"]["flowcon.metric"], "loss", "{job:#?}");
    fs::write(daemon.config(), configuration("2s")).unwrap();
    daemon.signal("HUP");

    let run_before = engine.pid_of(&flat);
    let restarting = Instant::now();
    engine.docker(&["restart", "--time", "0", "flat"]);
    assert_ne!(engine.pid_of(&flat), run_before);
    daemon.wait_for_job("flat", "is found again", SOON, |job| {
        job["uptime_s"].as_f64().unwrap() < restarting.elapsed().as_secs_f64() + 1.0
    });
    wait_until_limited(&engine, &flat);
    engine.pause("flat");
    daemon.wait_for_job("flat", "is seen to be paused", SOON, |job| job["state"] == "paused");
    engine.docker(&["unpause", "flat"]);
    engine.docker(&["rename", "flat", "even"]);
    daemon.wait_for_job("even", "has its new name", SOON, |job| job["state"] == "running");
    let is_stored = || (daemon.count_in_journal("adopted", "name = 'even'") == Some(1)).then_some(());
    eventually("its adoption has its new name", SOON, is_stored);

    let text = daemon.carried_out(&["disown", "even"]);
    assert!(text.is_empty() || text.contains("original limits"), "{text}");
    assert_eq!(engine.cpu_weight(&flat), 100, "they are restored when the command returns");
    assert!(daemon.job("even").is_none());
    daemon.end("TERM");
    assert_eq!(adopted_count(&daemon), 0);
    daemon.boot();
    daemon.wait_for_job("grow", "is found", SOON, |_| true);
    assert!(daemon.job("even").is_none() && daemon.job("stranger").is_none());
    assert_eq!(engine.cpu_weight(&stranger), 100, "this one was not adopted");
}

#[test]
fn a_removed_container_is_forgotten_and_a_stopped_one_is_not() {
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &FLOWCON);
    daemon.wait_until_connected("docker");
    for name in ["one", "two", "three"] {
        run(&engine, name, &[], GROWING);
    }
    for name in ["one", "two", "three"] {
        daemon.carried_out(&["adopt", name, "--label", "flowcon.max-share=30%"]);
    }
    daemon.wait_for_job("two", "is governed with the label", SOON, |job| job["max_share"] == 0.3);
    engine.docker(&["rm", "--force", "one"]);
    eventually("one has ended", SOON, || daemon.job("one").is_none().then_some(()));
    let is_removed = || (daemon.count_in_journal("adopted", "1") == Some(2)).then_some(());
    eventually("its adoption is removed", SOON, is_removed);
    daemon.end("TERM");
    assert_eq!(adopted_count(&daemon), 2, "one was removed");

    engine.docker(&["rm", "--force", "two"]);
    engine.docker(&["stop", "--time", "0", "three"]);
    daemon.boot();
    daemon.wait_until_connected("docker");
    engine.docker(&["start", "three"]);
    daemon.wait_for_job("three", "is governed when it starts again", SOON, |job| job["max_share"] == 0.3);
    engine.docker(&["stop", "--time", "0", "three"]);
    eventually("three has ended", SOON, || daemon.job("three").is_none().then_some(()));
    let text = daemon.carried_out(&["disown", "three"]);
    assert!(text.is_empty() || text.contains("three is disowned"), "a stopped container can be disowned: {text}");
    daemon.end("TERM");
    assert_eq!(adopted_count(&daemon), 0, "two was removed while no daemon ran");
}

#[test]
fn an_invalid_adoption_is_rejected_with_the_next_step() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &FLOWCON);
    run(&engine, "labelled", &["flowcon.enable=true"], GROWING);
    run(&engine, "free", &[], GROWING);
    run(&engine, "ended", &[], "true");
    engine.docker(&["wait", "ended"]);
    daemon.wait_for_job("labelled", "is found", SOON, |_| true);
    let assert_rejected = |arguments: &[&str], code: i32, words: &str| {
        let output = daemon.flowctl(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    };
    assert_rejected(&["adopt", "nobody"], 4, "docker ps");
    assert_rejected(&["adopt", "../info"], 4, "docker ps");
    assert_rejected(&["adopt", "ended"], 6, "does not run");
    assert_rejected(&["adopt", "labelled"], 6, "has the label flowcon.enable=true");
    assert_rejected(&["adopt", "free", "--label", "flowcon.weight=much"], 6, "a number from 0.01 to 100");
    assert_rejected(&["adopt", "free", "--label", "weight=2"], 6, "begins with flowcon.");
    assert_rejected(&["adopt", "free", "--label", "flowcon.wieght=2"], 6, "flowctl help labels");
    assert_rejected(&["disown", "labelled"], 6, "flowctl release labelled");
    assert_rejected(&["disown", "free"], 4, "flowctl ps");
    assert!(daemon.job("free").is_none(), "a rejected command adopts nothing");
    daemon.carried_out(&["adopt", "free"]);
    assert_rejected(&["adopt", "free"], 6, "flowctl disown free");
}
