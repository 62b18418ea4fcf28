//! Containers without the label that an operator adopts, on real parts: a dockerd, `flowcond`, `flowctl`, the kernel's own files.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod support;

use std::time::Duration;
use support::daemon::{Daemon, eventually};
use support::engine::{CONVERGED, Engine, GROWING, RunSpec};

const SOON: Duration = Duration::from_secs(30);
const FLOWCON: [&str; 2] = ["policy.name=flowcon", "policy.interval=2s"];

fn run(engine: &Engine, name: &str, labels: &[&str], script: &str) -> String {
    engine.run(RunSpec { name, labels, script, ..RunSpec::default() })
}

fn limited(engine: &Engine, id: &str) {
    eventually("its weight follows its growth", SOON, || (engine.cpu_weight(id) == 40).then_some(()));
}

fn remembered(daemon: &Daemon) -> u32 {
    let journal = rusqlite::Connection::open(daemon.state_dir().join("flowcon.db")).unwrap();
    journal.query_row("SELECT count(*) FROM adopted", [], |row| row.get(0)).unwrap()
}

#[test]
fn an_adopted_container_is_governed_over_every_restart_until_it_is_disowned() {
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &FLOWCON);
    run(&engine, "grow", &["flowcon.enable=true"], GROWING);
    let flat = run(&engine, "flat", &[], CONVERGED);
    let stranger = run(&engine, "stranger", &[], GROWING);
    daemon.job_that("grow", "is found", SOON, |_| true);

    let told = daemon.told(&["adopt", "flat", "--label", "flowcon.metric=loss"]);
    assert!(told.contains("flat is adopted") && told.contains("flowctl disown flat"), "{told}");
    let job = daemon.job("flat").expect("it is governed as soon as that is told");
    assert_eq!(job["adopted"]["labels"]["flowcon.metric"], "loss", "{job:#?}");
    assert!(daemon.told(&["status"]).contains("adopted, without the label: flat"));
    let page = daemon.told(&["explain", "flat"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("with flowcon.metric=loss; ends: `flowctl disown"), "{page}");
    limited(&engine, &flat);

    daemon.end("KILL");
    daemon.boot();
    assert_eq!(engine.cpu_weight(&flat), 40, "what stood stands");
    let job = daemon.job_that("flat", "is known to the next daemon", SOON, |_| true);
    assert_eq!(job["adopted"]["labels"]["flowcon.metric"], "loss", "{job:#?}");

    let run_before = engine.pid_of(&flat);
    engine.docker(&["restart", "--time", "0", "flat"]);
    assert_ne!(engine.pid_of(&flat), run_before);
    daemon.job_that("flat", "is found again", SOON, |job| job["uptime_s"].as_f64().unwrap() < 20.0);
    limited(&engine, &flat);
    engine.docker(&["pause", "flat"]);
    daemon.job_that("flat", "is seen to be paused", SOON, |job| job["state"] == "paused");
    engine.docker(&["unpause", "flat"]);
    engine.docker(&["rename", "flat", "even"]);
    daemon.job_that("even", "has its new name", SOON, |job| job["state"] == "running");

    let told = daemon.told(&["disown", "even"]);
    assert!(told.contains("original limits"), "{told}");
    assert_eq!(engine.cpu_weight(&flat), 100, "they are back when that is told");
    assert!(daemon.job("even").is_none());
    daemon.end("TERM");
    assert_eq!(remembered(&daemon), 0);
    daemon.boot();
    daemon.job_that("grow", "is found", SOON, |_| true);
    assert!(daemon.job("even").is_none() && daemon.job("stranger").is_none());
    assert_eq!(engine.cpu_weight(&stranger), 100, "nobody asked for this one");
}

#[test]
fn a_removed_container_is_forgotten_and_a_stopped_one_is_not() {
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &FLOWCON);
    eventually("the engine is connected", SOON, || {
        daemon.told(&["status"]).contains("docker: connected").then_some(())
    });
    for name in ["one", "two", "three"] {
        run(&engine, name, &[], GROWING);
    }
    daemon.told(&["adopt", "one", "two", "three", "--label", "flowcon.max-share=30%"]);
    assert_eq!(daemon.job("two").unwrap()["max_share"], 0.3);
    engine.docker(&["rm", "--force", "one"]);
    eventually("one has ended", SOON, || daemon.job("one").is_none().then_some(()));
    daemon.end("TERM");
    assert_eq!(remembered(&daemon), 2, "one is gone for good");

    engine.docker(&["rm", "--force", "two"]);
    engine.docker(&["stop", "--time", "0", "three"]);
    daemon.boot();
    eventually("the engine is connected", SOON, || {
        daemon.told(&["status"]).contains("docker: connected").then_some(())
    });
    engine.docker(&["start", "three"]);
    daemon.job_that("three", "is governed when it starts again", SOON, |job| job["max_share"] == 0.3);
    engine.docker(&["stop", "--time", "0", "three"]);
    eventually("three has ended", SOON, || daemon.job("three").is_none().then_some(()));
    assert!(daemon.told(&["disown", "three"]).contains("three is disowned"), "one that does not run can be disowned");
    daemon.end("TERM");
    assert_eq!(remembered(&daemon), 0, "two was removed while no daemon ran");
}

#[test]
fn what_cannot_be_adopted_is_refused_with_the_next_step() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &FLOWCON);
    run(&engine, "labelled", &["flowcon.enable=true"], GROWING);
    run(&engine, "free", &[], GROWING);
    run(&engine, "ended", &[], "true");
    daemon.job_that("labelled", "is found", SOON, |_| true);
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = daemon.flowctl(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(words), "{arguments:?}: {told}");
    };
    refused(&["adopt", "nobody"], 4, "docker ps");
    refused(&["adopt", "../info"], 4, "docker ps");
    refused(&["adopt", "ended"], 6, "does not run");
    refused(&["adopt", "labelled"], 6, "has the label flowcon.enable=true");
    refused(&["adopt", "free", "--label", "flowcon.weight=much"], 6, "a number from 0.01 to 100");
    refused(&["adopt", "free", "--label", "weight=2"], 6, "begins with flowcon.");
    refused(&["adopt", "free", "--label", "flowcon.wieght=2"], 6, "flowctl help labels");
    refused(&["disown", "labelled"], 6, "flowctl release labelled");
    refused(&["disown", "free"], 4, "flowctl ps");
    assert!(daemon.job("free").is_none(), "a refusal adopts nothing");
    daemon.told(&["adopt", "free"]);
    refused(&["adopt", "free"], 6, "flowctl disown free");
}
