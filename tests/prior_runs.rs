//! Runs of one training learn from each other: a real engine, real logs, a daemon that is restarted in between.

mod support;

use serde_json::Value;
use std::time::Duration;
use support::daemon::{Daemon, eventually};
use support::engine::{Engine, RunSpec};

const SOON: Duration = Duration::from_secs(30);

/// A loss that falls by a tenth each epoch, ten epochs a second, to the last of 40, once there is a file `go`: until then it stays at the 20th.
/// What stands before it are its arguments.
const TRAINING: &str = "i=0; l=90000; while [ $i -lt 40 ]; do i=$((i+1)); l=$((l*9/10)); \
    echo \"epoch $i/40 loss: $((l/100)).$((l%100/10))$((l%10))\"; usleep 100000; \
    [ $i -ne 20 ] || until [ -e /go ]; do usleep 100000; done; done";

fn run(engine: &Engine, name: &str, script: &str) {
    engine.run(RunSpec { name, script, labels: &["flowcon.enable=true"], ..RunSpec::default() });
}

fn earlier_runs(daemon: &Daemon, name: &str) -> Option<Value> {
    let told = daemon.flowctl(&["explain", name, "-o", "json"]);
    let detail: Value = serde_json::from_slice(&told.stdout).ok()?;
    let reading = &detail["explanation"]["reading"];
    (reading["evaluations"].as_u64()? >= 3).then(|| reading["earlier_runs"].clone())
}

/// Starts a run and tells how many earlier ones its forecast leans on.
fn leans_on(engine: &Engine, daemon: &Daemon, name: &str, script: &str) -> Value {
    run(engine, name, script);
    eventually(&format!("{name} is read"), SOON, || earlier_runs(daemon, name))
}

/// Lets it go on to its end, and waits until its last lines are read and what it taught is written down.
fn ends(engine: &Engine, daemon: &Daemon, name: &str) {
    engine.try_docker(&["exec", name, "sh", "-c", ": > /go"]); // one of them was killed
    eventually(&format!("{name} ends"), SOON, || daemon.job(name).is_none().then_some(()));
    std::thread::sleep(Duration::from_secs(6));
}

#[test]
fn a_training_that_is_run_again_leans_on_its_earlier_runs_and_on_no_other() {
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    let with = |arguments: &str| format!(": train.sh {arguments}; {TRAINING}");

    assert_eq!(leans_on(&engine, &daemon, "first", &with("--seed 7 --lr=1e-3")), 0);
    ends(&engine, &daemon, "first");

    // Another seed and learning rate: the same training. Another word: another one.
    assert_eq!(leans_on(&engine, &daemon, "again", &with("--seed 8 --lr=0.01")), 1);
    let page = daemon.stdout_of(&["explain", "again"]);
    assert!(page.contains("leans on") && page.contains("1 earlier run of the same training"), "{page}");
    assert_eq!(leans_on(&engine, &daemon, "other", &with("--seed 7 --lr=1e-3 --resume")), 0);

    // Stopped in the middle: no prior run.
    engine.docker(&["kill", "again"]);
    ends(&engine, &daemon, "again");
    ends(&engine, &daemon, "other");
    assert_eq!(leans_on(&engine, &daemon, "third", &with("--seed 9 --lr=1e-3")), 1);
    ends(&engine, &daemon, "third");

    // What was learnt outlives the daemon, also one that is killed.
    daemon.end("KILL");
    daemon.boot();
    assert_eq!(leans_on(&engine, &daemon, "fourth", &with("--seed 10 --lr=1e-3")), 2);
}
