//! Tests of control periods with a real dockerd, real cgroups, `flowcond` and `flowctl`. Needs root.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec};
use crate::support::job::Job;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SOON: Duration = Duration::from_secs(60);
/// Timeout for six runs of control periods.
const MEASURED: Duration = Duration::from_secs(240);
/// One of each two blocks is plain, so there are at most two in a row.
const SETTINGS: [&str; 4] =
    ["policy.name=flowcon", "policy.interval=2s", "policy.holdback=0.5", "policy.holdback-block=20s"];

fn node(daemon: &Daemon) -> Value {
    let status: Value = serde_json::from_str(&daemon.stdout_of(&["status", "-o", "json"])).unwrap();
    status["node"].clone()
}

/// End of the current control period, Unix milliseconds.
fn plain_until(daemon: &Daemon) -> Option<u64> {
    node(daemon)["plain_until_unix_ms"].as_u64()
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Waits for a control period with enough time left for some commands on a busy machine, and for a condition in it.
fn in_control_period<T>(daemon: &Daemon, what: &str, mut probe: impl FnMut() -> Option<T>) -> (u64, T) {
    eventually(what, SOON, || {
        let until = plain_until(daemon).filter(|until| *until > now_ms() + 12_000)?;
        let found = probe()?;
        (until > now_ms() + 6_000).then_some((until, found))
    })
}

#[test]
fn original_limits_are_in_force_in_a_control_period_also_after_a_kill() {
    let engine = Engine::start();
    let run = |name: &str, script: &str| {
        let labels: &[&str] = &["flowcon.enable=true"];
        engine.run(RunSpec { name, labels, options: &["--cpu-shares", "2048"], script })
    };
    let (_grow, flat) = (run("grow", GROWING), run("flat", CONVERGED));
    let original = engine.cpu_weight(&flat);
    let is_ours = || (engine.cpu_weight(&flat) < original).then_some(());
    let is_original = || (engine.cpu_weight(&flat) == original).then_some(());
    let mut daemon = Daemon::start(&engine.address(), &SETTINGS);
    eventually("flat is limited in a governed block", SOON, is_ours);

    let shows_it = || {
        let (status, explained) = (daemon.stdout_of(&["status"]), daemon.stdout_of(&["explain", "flat"]));
        status.contains("CONTROL PERIOD until ")
            && status.contains("original limits, to measure the gain")
            && explained.contains("This is a control period: until ")
    };
    let (until, ()) = in_control_period(
        &daemon,
        "the original limit is in force in a control period, which is shown, and the policy still observes",
        || {
            let observes = daemon.job("flat").is_some_and(|flat| flat["list"] == "completing");
            is_original().filter(|()| observes && shows_it())
        },
    );

    // Killed within the block: the next daemon continues the same one, and nothing is lost.
    daemon.end("KILL");
    assert_eq!(engine.cpu_weight(&flat), original);
    daemon.boot();
    if now_ms() + 500 < until {
        let same = eventually("the block is known again", SOON, || plain_until(&daemon));
        assert!(same == until || same > until && now_ms() > until, "{same} is not {until}");
    }
    eventually("flat is limited again, between control periods", SOON, || {
        is_ours().filter(|_| plain_until(&daemon).is_none())
    });

    // An operator's command has priority: a pin is kept.
    daemon.stdout_of(&["pin", "flat", "--share", "20%"]);
    sleep(Duration::from_secs(1));
    let pinned = in_control_period(&daemon, "a pinned share is kept in a control period", || {
        let grow = daemon.job("grow").filter(|grow| grow["rule"] == "plain-block")?;
        let weight = f64::from(engine.cpu_weight(&flat));
        Some(weight / (weight + grow["cpu_weight"].as_f64()?)).filter(|share| (share - 0.2).abs() < 0.02)
    });
    assert!(pinned.1 > 0.0);

    // A release has priority, too, and original limits are in force after the daemon is stopped within a control period.
    daemon.carried_out(&["release", "--all"]);
    eventually("everything has its original", SOON, is_original);
    assert!(!daemon.stdout_of(&["status"]).contains("CONTROL PERIOD"), "a release has priority");
    daemon.carried_out(&["govern", "--all"]);
    daemon.end("TERM");
    assert_eq!(engine.cpu_weight(&flat), original);
    assert!(daemon.log().contains("control period until"), "{}", daemon.log());
}

#[test]
fn control_periods_are_recorded_replayed_reported_and_measured() {
    let daemon =
        Daemon::start("off", &["policy.interval=1s", "policy.holdback=0.5", "policy.holdback-block=4s", "api.group="]);
    let flowctl = env!("CARGO_BIN_EXE_flowctl");
    let words = [flowctl, "train", "mlp", "--epochs", "1000000", "--size", "512", "--threads", "1"];
    let train = |name: &str| Job::start(&daemon, name, &[], &words);
    // Both train until they are stopped, so that both are present in every comparison on any machine.
    let [mut ended, running] = ["held-ended", "held-long"].map(train);
    daemon.wait_for_job("held-long", "is ranked", SOON, |job| job["rule"] == "ranked");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ticks.jsonl");
    let mut recording = Command::new(flowctl);
    recording.arg("--socket").arg(daemon.socket()).arg("record").arg(&file).stderr(Stdio::null());
    let mut recording = Job::spawn(recording);
    let page = folder.path().join("report.html");
    let report = || {
        // Fails before the first rows are on disk.
        let made = daemon.flowctl(&["report", "-o", page.to_str().unwrap()]).status.success();
        if made { std::fs::read_to_string(&page).unwrap() } else { String::new() }
    };
    eventually("some control periods are in the report", SOON, || {
        report().contains("Not enough control periods yet to measure the gain: ").then_some(())
    });
    // Six runs of control periods, each between governed ones, take at most two minutes with blocks of four seconds. Then only the total
    // work of the jobs is missing: neither has ended or progressed far enough.
    eventually("there are enough control periods", MEASURED, || {
        report().contains("have a job whose total work is known").then_some(())
    });
    ended.end("TERM");
    let page =
        eventually("the gain is measured", SOON, || Some(report()).filter(|page| page.contains("Work while governed")));
    for part in [
        "control periods, chosen at random",
        "Measured against control periods",
        "held-long",
        "How the estimate is made",
    ] {
        assert!(page.contains(part), "{part}");
    }

    recording.end("INT");
    drop(running);
    let ticks = std::fs::read_to_string(&file).unwrap();
    assert!(ticks.contains("\"plain\":true") && ticks.contains("\"plain\":false"), "both kinds were recorded");
    assert!(ticks.contains("\"rule\":\"plain-block\""));
    let replayed = Command::new(env!("CARGO_BIN_EXE_flowsim")).arg("replay").arg(&file).output().unwrap();
    let output = String::from_utf8_lossy(&replayed.stdout).into_owned() + &String::from_utf8_lossy(&replayed.stderr);
    assert!(output.contains("all decided the same, bit for bit"), "{output}");

    let events = daemon.stdout_of(&["history", "--events", "-o", "jsonl"]);
    let events_read: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_blocks: Vec<&str> = events_read
        .iter()
        .filter(|event| event["kind"] == "holdback")
        .filter_map(|event| event["text"].as_str())
        .collect();
    assert!(of_blocks.len() > 4, "{of_blocks:?}");
    assert!(
        of_blocks[0].starts_with("control period until 2") && of_blocks[1] == "the control period is over",
        "{of_blocks:?}"
    );
    let past = daemon.stdout_of(&["history", "held-long", "-o", "jsonl"]);
    assert!(past.contains("\"plain-block\""), "the rule is in the history");
}
