//! Tests that forecasts use prior runs of the same training, with a real engine, real logs, and restarts of the daemon.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{Engine, RunSpec};
use serde_json::Value;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// A script of 40 epochs, ten per second, with a loss that falls by a tenth each; it waits after the 20th until the file `go` exists, and
/// at its end until the file `end` exists. Its arguments are prepended.
const TRAINING: &str = "i=0; l=90000; while [ $i -lt 40 ]; do i=$((i+1)); l=$((l*9/10)); \
    echo \"epoch $i/40 loss: $((l/100)).$((l%100/10))$((l%10))\"; usleep 100000; \
    [ $i -ne 20 ] || until [ -e /go ]; do usleep 100000; done; done; until [ -e /end ]; do usleep 100000; done";

fn run(engine: &Engine, name: &str, script: &str) {
    engine.run(RunSpec { name, script, labels: &["flowcon.enable=true"], ..RunSpec::default() });
}

fn prior_runs(daemon: &Daemon, name: &str) -> Option<Value> {
    let output = daemon.flowctl(&["explain", name, "-o", "json"]);
    let detail: Value = serde_json::from_slice(&output.stdout).ok()?;
    let reading = &detail["explanation"]["reading"];
    (reading["evaluations"].as_u64()? >= 3).then(|| reading["prior_runs"].clone())
}

/// Starts a run and returns the number of prior runs used in its forecast.
fn prior_runs_used(engine: &Engine, daemon: &Daemon, name: &str, script: &str) -> Value {
    run(engine, name, script);
    eventually(&format!("{name} is read"), SOON, || prior_runs(daemon, name))
}

/// Lets a run finish, waits until its last line is read, and lets it end.
fn finish(engine: &Engine, daemon: &Daemon, name: &str, stored: u32) {
    engine.docker(&["exec", name, "sh", "-c", ": > /go"]);
    daemon.wait_for_job(name, "is read to its end", SOON, |job| job["progress"]["current"] == 40.0);
    engine.try_docker(&["exec", name, "sh", "-c", ": > /end"]); // may be killed by the end of the container
    assert_stored(daemon, name, stored);
}

/// Waits until a run has ended and so many prior runs are stored.
fn assert_stored(daemon: &Daemon, name: &str, stored: u32) {
    eventually(&format!("{name} ends"), SOON, || daemon.job(name).is_none().then_some(()));
    let is_stored = || (daemon.count_in_journal("precedent", "true")? == stored).then_some(());
    eventually(&format!("{stored} runs are stored"), SOON, is_stored);
}

#[test]
fn a_repeated_training_uses_only_its_own_prior_runs() {
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    let with = |arguments: &str| format!(": train.sh {arguments}; {TRAINING}");

    assert_eq!(prior_runs_used(&engine, &daemon, "first", &with("--seed 7 --lr=1e-3")), 0);
    finish(&engine, &daemon, "first", 1);

    // Another seed or learning rate is the same training; another option is not.
    assert_eq!(prior_runs_used(&engine, &daemon, "again", &with("--seed 8 --lr=0.01")), 1);
    let page = daemon.stdout_of(&["explain", "again"]);
    assert!(page.contains("prior runs") && page.contains("1 run of the same training"), "{page}");
    assert_eq!(prior_runs_used(&engine, &daemon, "other", &with("--seed 7 --lr=1e-3 --resume")), 0);

    // A stopped run is not used, and would be stored before the next.
    engine.docker(&["kill", "again"]);
    assert_stored(&daemon, "again", 1);
    finish(&engine, &daemon, "other", 2);
    assert_eq!(prior_runs_used(&engine, &daemon, "third", &with("--seed 9 --lr=1e-3")), 1);
    finish(&engine, &daemon, "third", 3);

    // Prior runs survive a restart of the daemon, also after a kill.
    daemon.end("KILL");
    daemon.boot();
    assert_eq!(prior_runs_used(&engine, &daemon, "fourth", &with("--seed 10 --lr=1e-3")), 2);
}
