//! Losers of a sweep that ask to be stopped, with a real engine and real trainings: linear regression at several learning rates. Needs root.

use crate::support::daemon::{Daemon, eventually, eventually_or, unwrapped};
use crate::support::engine::{Engine, RunSpec};
use serde_json::Value;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(100);

/// Original CPU shares of each trial.
const SHARES: &str = "--cpu-shares=700";

/// Prints a loss after each epoch. The larger the rate, the sooner it falls. After 40 epochs it waits for [`finish`].
const TRAIN: &str = r#"
BEGIN {
    srand(1)
    for (i = 0; i < 200; i++) { x[i] = 2 * rand() - 1; y[i] = 3 * x[i] + 1 + 0.1 * rand() }
    for (epoch = 1; epoch <= epochs; epoch++) {
        for (pass = 0; pass < 800; pass++) {
            loss = 0; slope = 0; shift = 0
            for (i = 0; i < 200; i++) {
                error = a * x[i] + b - y[i]
                loss += error * error / 200; slope += error * x[i] / 200; shift += error / 200
            }
            a -= rate / 800 * slope; b -= rate / 800 * shift
        }
        printf "epoch %d/%d loss %.6f\n", epoch, epochs, loss
        fflush()
        if (epoch == 40) system("until [ -e /finish ]; do usleep 100000; done")
    }
}
"#;

/// Starts a trial that waits for [`go`]; all are on one processor, so that they compete on any machine.
fn start(engine: &Engine, name: &str, rate: f64, label: &[&str]) {
    let script =
        format!("until [ -e /go ]; do usleep 100000; done; exec busybox awk -v epochs=54 -v rate={rate} '{TRAIN}'");
    let labels = [&["flowcon.enable=true"], label].concat();
    engine.run(RunSpec { name, labels: &labels, options: &["--cpuset-cpus=0", SHARES], script: &script });
}

fn go(engine: &Engine, name: &str) {
    engine.docker(&["exec", name, "sh", "-c", ": > /go"]);
}

fn finish(engine: &Engine, name: &str) {
    engine.docker(&["exec", name, "sh", "-c", ": > /finish"]);
}

fn inspect(engine: &Engine, name: &str, what: &str) -> String {
    engine.docker(&["inspect", "--format", what, name]).trim().to_owned()
}

fn events(daemon: &Daemon, kind: &str) -> Vec<Value> {
    let events = daemon.stdout_of(&["events", "-o", "jsonl", "--no-follow", "-n", "1000"]);
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["kind"] == kind).collect()
}

#[test]
fn losers_with_the_label_are_stopped_and_nobody_else() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.interval=1s", "policy.max-interval=2s"]);
    daemon.wait_until_connected("docker");
    let label = ["flowcon.group-stop=rung 1"];
    // The best third are 0.5 and 0.05.
    start(&engine, "rate-0", 0.005, &label);
    start(&engine, "rate-1", 0.5, &label);
    start(&engine, "rate-2", 0.02, &label);
    start(&engine, "rate-3", 0.002, &[]);
    start(&engine, "rate-4", 0.05, &label);
    start(&engine, "rate-5", 0.01, &label);
    eventually("all are known", WITHIN, || (daemon.jobs().len() == 6).then_some(()));
    eventually("it is explained that it may be stopped", WITHIN, || {
        let explained = daemon.stdout_of(&["explain", "rate-0"]).split_whitespace().collect::<Vec<_>>().join(" ");
        explained.contains("stopped at rung 1 if it is not among the best third there").then_some(())
    });
    // These two have their results at the rung before any other, so that none of the others is ever among the best third. They wait near their
    // end, because a loser that is the best of those that still run is left alone.
    for name in ["rate-1", "rate-4"] {
        go(&engine, name);
    }
    for name in ["rate-1", "rate-4"] {
        daemon
            .wait_for_job(name, "has passed the rung", WITHIN, |job| job["progress"]["current"].as_f64() >= Some(3.0));
    }
    for name in ["rate-0", "rate-2", "rate-3", "rate-5"] {
        finish(&engine, name);
        go(&engine, name);
    }
    let other = "i=0; while :; do i=$((i+1)); echo step $i loss: 9; usleep 200000; done";
    engine.run(RunSpec {
        name: "other",
        labels: &["flowcon.enable=true", label[0]],
        options: &["--cpuset-cpus=0"],
        script: other,
    });

    let losers = ["rate-0", "rate-2", "rate-5"];
    for loser in losers {
        let has_ended = || (inspect(&engine, loser, "{{.State.Running}}") == "false").then_some(());
        eventually_or(&format!("{loser} is stopped"), WITHIN, has_ended, || daemon.stdout_of(&["sweep", "-o", "wide"]));
        let is_restored = || (inspect(&engine, loser, "{{.HostConfig.CpuShares}}") == "700").then_some(());
        eventually("its limits are restored", WITHIN, is_restored);
    }
    let ended = || {
        let status: Value = serde_json::from_str(&daemon.stdout_of(&["status", "-o", "json"])).unwrap();
        let ended = status["ended"].as_array()?.iter().filter(|job| job["ended"]["kind"] == "group-stop").count();
        (ended == losers.len()).then_some(())
    };
    eventually_or("their ends are known", WITHIN, ended, || daemon.stdout_of(&["status"]));

    ["rate-1", "rate-4"].iter().for_each(|name| finish(&engine, name));

    let stops = events(&daemon, "group-stop");
    assert_eq!(stops.len(), losers.len(), "{stops:#?}");
    for loser in losers {
        let stop = stops.iter().find(|event| event["name"] == loser).expect("each has an event");
        let text = stop["text"].as_str().unwrap();
        let asked = format!("{loser} is stopped at rung 1: rank ");
        assert!(
            text.starts_with(&asked) && text.ends_with(", as its label flowcon.group-stop asks (docker stop)"),
            "{text}"
        );
        let page = unwrapped(&daemon.stdout_of(&["explain", loser]));
        assert!(page.contains("It was stopped at rung 1: rank "), "{page}");
        assert!(page.contains(&format!("`docker start {loser}` runs it again.")), "{page}");
        let in_history = || {
            let listed = daemon.stdout_of(&["history"]);
            let line = listed.lines().find(|line| line.split(' ').next() == Some(loser))?.trim_end().to_owned();
            line.ends_with("stopped: group-stop").then_some(())
        };
        eventually_or("the history has it", WITHIN, in_history, || daemon.stdout_of(&["history"]));
    }

    engine.docker(&["start", "rate-0"]); // somebody wants to know
    for name in ["rate-1", "rate-4", "rate-0"] {
        let is_complete = || (inspect(&engine, name, "{{.State.Running}}") == "false").then_some(());
        eventually_or(&format!("{name} is complete"), WITHIN, is_complete, || {
            daemon.stdout_of(&["sweep", "-o", "wide"])
        });
        assert_eq!(inspect(&engine, name, "{{.State.ExitCode}}"), "0", "{name}");
    }
    assert_eq!(inspect(&engine, "other", "{{.State.Running}}"), "true", "another job with the label");
    assert_eq!(events(&daemon, "group-stop").len(), losers.len(), "rate-3 has no label, and rate-0 is left alone");
    let end =
        || Some(inspect(&engine, "rate-3", "{{.State.Status}} {{.State.ExitCode}}")).filter(|end| end == "exited 0");
    eventually("the one without the label has run to its end", WITHIN, end);
}

#[test]
fn without_the_label_the_losers_of_a_sweep_go_on() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.interval=1s", "policy.max-interval=2s"]);
    daemon.wait_until_connected("docker");
    let rates = [0.005, 0.5, 0.02];
    let names = ["rate-0", "rate-1", "rate-2"];
    names.iter().zip(rates).for_each(|(name, rate)| start(&engine, name, rate, &[]));
    names.iter().for_each(|name| go(&engine, name));
    let behind = || {
        let page = daemon.stdout_of(&["sweep", "rate-0", "-o", "wide"]);
        (page.matches("trial behind").count() == 2).then_some(())
    };
    eventually_or("two are behind", WITHIN, behind, || daemon.stdout_of(&["sweep", "-o", "wide"]));
    names.iter().for_each(|name| finish(&engine, name));
    for name in names {
        let end =
            || Some(inspect(&engine, name, "{{.State.Status}} {{.State.ExitCode}}")).filter(|end| end == "exited 0");
        eventually_or(&format!("{name} runs to its end"), WITHIN, end, || daemon.stdout_of(&["sweep", "-o", "wide"]));
    }
    assert_eq!(events(&daemon, "group-stop"), Vec::<Value>::new());
}
