//! Tests of the main path with a real dockerd, containers with falling losses, `flowcond`, `flowctl`, and the kernel's files.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{CONVERGED, Engine, GROWING, Options, RunSpec, is_limited, is_near};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const GOVERNED: &str = "flowcon.enable=true";
const SOON: Duration = Duration::from_secs(30);

fn policy(interval: &str) -> [String; 2] {
    ["policy.name=flowcon".to_owned(), format!("policy.interval={interval}")]
}

fn daemon(engine: &Engine, interval: &str) -> Daemon {
    let settings = policy(interval);
    Daemon::start(&engine.address(), &settings.each_ref().map(String::as_str))
}

fn run(engine: &Engine, name: &str, script: &str) -> String {
    engine.run(RunSpec { name, labels: &[GOVERNED], script, ..RunSpec::default() })
}

fn list(job: &Value) -> &str {
    job["list"].as_str().unwrap_or("")
}

const THRESHOLD: f64 = 0.005;

/// Script of a job whose loss falls for at least 24 seconds, more than two intervals of [`ALGORITHM_1`], and then stays constant.
const CONVERGES_LATER: &str = "i=0; l=2500; while [ $i -lt 9000 ]; do i=$((i+1)); [ $l -gt 100 ] && l=$((l-10)); \
    echo \"step $i/9000 loss: $l.00\"; usleep 100000; done";
/// Interval of a test that must see every decision on a busy machine: some states last for only one interval.
const ALGORITHM_1: &str = "10s";

/// Algorithm 1 by hand for two containers, β = 2, with the growth G measured in each interval:
///
/// | interval of `flat`          | list       | L of `grow`   | L of `flat`                | weights                |
/// |-----------------------------|------------|---------------|----------------------------|------------------------|
/// | not measured                | New        | 1             | 1                          | 100 : 100              |
/// | first with G < α            | Watching   | G/ΣG          | unchanged                  | 200 · L, or the rest   |
/// | second with G < α           | Completing | G/ΣG ≈ 1      | max(G/ΣG, 1/(2·2)) = 0.25  | 150 : 50               |
/// | `grow` has ended            | Completing |               | all converged: 1           | 100                    |
#[test]
fn algorithm_1_on_real_containers_matches_the_calculation_by_hand() {
    let engine = Engine::start();
    let daemon = daemon(&engine, ALGORITHM_1);
    let grow = run(&engine, "grow", GROWING);
    let flat = run(&engine, "flat", CONVERGES_LATER);
    let fresh = daemon.wait_for_job("flat", "is found and competes freely", SOON, |job| list(job) == "new");
    assert_eq!(fresh["limit"], 1.0);

    let measured = |job: &Value| list(job) == "new" && job["rule"] == "growing";
    let growing = daemon.wait_for_job("flat", "grows at first", SOON, measured);
    assert!(growing["growth"].as_f64().unwrap() >= THRESHOLD, "{growing:#?}");
    let mut before = growing["limit"].as_f64().unwrap();
    let watching = daemon.wait_for_job("flat", "is watched after one interval below the threshold", SOON, |job| {
        if list(job) == "new" {
            before = job["limit"].as_f64().unwrap();
        }
        list(job) == "watching"
    });
    assert!(watching["growth"].as_f64().unwrap() < THRESHOLD, "{watching:#?}");
    assert_eq!(watching["limit"].as_f64(), Some(before), "the Watching list keeps its limit");

    daemon.wait_for_job("flat", "completes after two", SOON, |job| list(job) == "completing");
    // After an interval in which a job could print nothing, its growth is unknown.
    let (now, fast, slow) = eventually("the growth of both is measured", SOON, || {
        let now = daemon.jobs();
        let growth = |name: &str| now.iter().find(|job| job["name"] == name)?["growth"].as_f64();
        let (fast, slow) = (growth("grow")?, growth("flat")?.max(0.0));
        Some((now, fast, slow))
    });
    let limit = |name: &str| now.iter().find(|job| job["name"] == name).unwrap()["limit"].as_f64().unwrap();
    assert!((limit("grow") - fast / (fast + slow)).abs() < 1e-9, "{now:#?}");
    assert!((limit("flat") - (slow / (fast + slow)).max(0.25)).abs() < 1e-9, "{now:#?}");
    eventually("the kernel has 150 : 50", SOON, || {
        (is_near(engine.cpu_weight(&grow), 150) && is_near(engine.cpu_weight(&flat), 50)).then_some(())
    });

    engine.docker(&["rm", "--force", "grow"]);
    let alone = daemon.wait_for_job("flat", "competes freely when all have converged", SOON, |job| job["limit"] == 1.0);
    assert_eq!((list(&alone), alone["rule"].as_str()), ("completing", Some("all-converged")));
    eventually("its weight is the default again", SOON, || (engine.cpu_weight(&flat) == 100).then_some(()));
    let interval = || {
        let status: Value = serde_json::from_str(&daemon.stdout_of(&["status", "-o", "json"])).unwrap();
        status["node"]["interval_s"].as_f64()
    };
    eventually("the interval doubles twice", SOON, || interval().filter(|seconds| *seconds >= 40.0));
}

#[test]
fn original_limits_are_restored_from_the_journal_of_a_killed_daemon() {
    let engine = Engine::start();
    let mut daemon = daemon(&engine, "2s");
    run(&engine, "grow", GROWING);
    let own = ["--cpu-shares", "777"];
    let b = engine.run(RunSpec { name: "flat", labels: &[GOVERNED], options: &own, script: CONVERGED });
    let original = engine.cpu_weight(&b);
    let shares = |id: &str| engine.cgroup_file(id, "cpu", "cpu.shares");
    daemon.wait_for_job("flat", "completes", SOON, |job| list(job) == "completing");
    eventually("b is limited", SOON, || is_limited(engine.cpu_weight(&b), original).then_some(()));

    daemon.end("KILL");
    let limited = engine.cpu_weight(&b);
    assert!(is_limited(limited, original), "a crash changes nothing by itself: {limited}");
    // As if it had been killed between the journal entry of the next weight and the write of the weight.
    let journal = rusqlite::Connection::open(daemon.state_dir().join("flowcon.db")).unwrap();
    journal.execute("INSERT INTO written VALUES (?1, 'cpu-weight', 1234)", [&b]).unwrap();
    drop(journal);
    let stdout = daemon.restore();
    assert!(stdout.contains("flat: original limits restored"), "{stdout}");
    if Engine::is_cgroup_v1() {
        assert_eq!(shares(&b), "777");
    }
    assert!(daemon.restore().contains("0 restored"), "a second restore finds nothing to do");

    daemon.boot();
    let is_limited_again = |_: &Value| is_limited(engine.cpu_weight(&b), original);
    daemon.wait_for_job("flat", "is limited again by the next daemon", SOON, is_limited_again);
    daemon.end("TERM");
    if Engine::is_cgroup_v1() {
        assert_eq!(shares(&b), "777", "a clean shutdown restores, too");
    }
}

#[test]
fn a_restarted_daemon_keeps_limits_in_force_and_reads_each_line_once() {
    let engine = Engine::start();
    let settings = |interval: &str| format!("[policy]\nname = \"flowcon\"\ninterval = \"{interval}\"\n");
    let mut daemon = Daemon::start_configured(&engine.address(), &[], &settings("6s"));
    run(&engine, "grow", GROWING);
    let b = run(&engine, "flat", CONVERGED);
    daemon.wait_for_job("flat", "completes", SOON, |job| list(job) == "completing");
    eventually("b is limited", SOON, || is_limited(engine.cpu_weight(&b), 100).then_some(()));
    sleep(Duration::from_secs(31)); // log positions are saved every 30 seconds
    daemon.end("KILL");
    let limited = engine.cpu_weight(&b);
    assert!(is_limited(limited, 100), "a crash changes nothing by itself: {limited}");
    fs::write(daemon.config(), settings("40s")).unwrap(); // it observes for one interval, which must be seen
    daemon.boot();
    let settling = daemon.wait_for_job("flat", "is found", SOON, |_| true);
    assert_eq!(engine.cpu_weight(&b), limited, "the limit is unchanged");
    assert_eq!(settling["hold"]["kind"], "settling", "{settling:#?}");
    let known = daemon.wait_for_job("flat", "still knows its metric", SOON, |job| job["metric"].is_object());
    assert!(known["metric"].to_string().contains("loss"), "{known:#?}");
    daemon.wait_for_job("flat", "is governed after one interval", SOON, |job| job["hold"].is_null());
}

#[test]
fn a_foreign_limit_is_left_alone_until_the_job_is_governed_again() {
    let engine = Engine::start();
    let mut daemon = daemon(&engine, "2s");
    run(&engine, "grow", GROWING);
    let b = run(&engine, "flat", CONVERGED);
    eventually("b is limited", SOON, || is_limited(engine.cpu_weight(&b), 100).then_some(()));
    engine.docker(&["update", "--cpu-shares", "3000", "flat"]);
    let theirs = engine.cpu_weight(&b);
    let held = daemon.wait_for_job("flat", "is left alone", SOON, |job| job["hold"]["kind"] == "foreign");
    assert!(held["why"].as_str().unwrap().contains("left alone") || held["hold"]["why"].is_string(), "{held:#?}");
    sleep(Duration::from_secs(5));
    assert_eq!(engine.cpu_weight(&b), theirs, "two ticks later");
    daemon.carried_out(&["govern", "flat"]);
    daemon.wait_for_job("flat", "is governed on request", SOON, |job| job["hold"].is_null());
    eventually("b is limited again", SOON, || is_limited(engine.cpu_weight(&b), theirs).then_some(()));
    daemon.end("TERM");
    assert_eq!(engine.cpu_weight(&b), theirs, "the owner's value is restored");
}

#[test]
fn a_job_that_is_told_to_stop_gets_its_plain_share_so_that_it_can_save_its_state() {
    let engine = Engine::start();
    let _daemon = daemon(&engine, "2s");
    run(&engine, "grow", GROWING);
    let b = run(&engine, "flat", CONVERGED);
    eventually("b is limited", SOON, || is_limited(engine.cpu_weight(&b), 100).then_some(()));
    // As `docker stop` begins. It survives, because it is process 1 of its container and does not handle the signal.
    engine.docker(&["kill", "--signal", "TERM", "flat"]);
    eventually("it has its plain share", Duration::from_secs(5), || (engine.cpu_weight(&b) == 100).then_some(()));
    sleep(Duration::from_secs(5));
    assert_eq!(engine.cpu_weight(&b), 100, "also after the next decisions");
}

#[test]
fn a_reverted_limit_is_written_again_and_explain_shows_who_changed_it() {
    let engine = Engine::start();
    let daemon = daemon(&engine, "2s");
    run(&engine, "grow", GROWING);
    let b = run(&engine, "flat", CONVERGED);
    eventually("b is limited", SOON, || is_limited(engine.cpu_weight(&b), 100).then_some(()));
    // Reported once it was written and read back: before that, a reversion could not be told from a write that had no effect.
    let last_report = || {
        let events = daemon.stdout_of(&["events", "--no-follow", "-n", "100", "-o", "jsonl"]);
        let mut texts = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).filter(|event| {
            event["kind"] == "limit" && event["text"].as_str().is_some_and(|text| text.starts_with("flat: "))
        });
        texts.next_back().map_or(String::new(), |event| event["text"].to_string())
    };
    eventually("the weight is reported", SOON, || {
        last_report().contains(&format!("CPU weight {}", engine.cpu_weight(&b))).then_some(())
    });
    let (file, original) = if Engine::is_cgroup_v1() { ("cpu.shares", "1024") } else { ("cpu.weight", "100") };
    fs::write(engine.cgroup_of(&b, "cpu").join(file), original).unwrap();
    let drifts = |by: &str| {
        let detail: Value = serde_json::from_str(&daemon.stdout_of(&["explain", "flat", "-o", "json"])).unwrap();
        let drifts = detail["explanation"]["drifts"].as_array().unwrap();
        drifts.iter().filter(|drift| drift["by"] == by).count()
    };
    eventually("the reversion is reported", SOON, || (drifts("system") == 1).then_some(()));
    eventually("ours is written again", SOON, || is_limited(engine.cpu_weight(&b), 100).then_some(()));
    engine.docker(&["update", "--cpu-shares", "3000", "flat"]);
    eventually("the owner's change is reported", SOON, || (drifts("somebody") == 1).then_some(()));
    let page = daemon.stdout_of(&["explain", "flat"]);
    assert!(page.contains("by system") && page.contains("by somebody"), "{page}");
    assert_eq!(drifts("system"), 1, "reported once");
}

#[test]
fn release_restores_original_limits_and_unlabelled_containers_are_never_touched() {
    let engine = Engine::start();
    let daemon = daemon(&engine, "2s");
    let stranger = engine.run(RunSpec { name: "stranger", script: GROWING, ..RunSpec::default() });
    run(&engine, "grow", GROWING);
    let b = run(&engine, "flat", CONVERGED);
    eventually("b is limited", SOON, || is_limited(engine.cpu_weight(&b), 100).then_some(()));
    daemon.carried_out(&["release", "flat"]);
    eventually("b has its original", SOON, || (engine.cpu_weight(&b) == 100).then_some(()));
    daemon.carried_out(&["govern", "flat"]);
    eventually("b is limited again", SOON, || is_limited(engine.cpu_weight(&b), 100).then_some(()));
    daemon.stdout_of(&["policy", "fair"]);
    eventually("watching only restores", SOON, || (engine.cpu_weight(&b) == 100).then_some(()));
    assert!(daemon.job("stranger").is_none());
    assert_eq!(engine.cpu_weight(&stranger), 100);
}

#[test]
fn containers_stay_governed_after_a_restart_of_the_engine() {
    let mut engine = Engine::start_with(Options { live_restore: true });
    let daemon = daemon(&engine, "2s");
    run(&engine, "grow", GROWING);
    let b = run(&engine, "flat", CONVERGED);
    eventually("b is limited", SOON, || is_limited(engine.cpu_weight(&b), 100).then_some(()));
    engine.restart();
    let c = run(&engine, "late", GROWING);
    daemon.wait_for_job("late", "is found after the restart", SOON, |_| true);
    assert!(daemon.job("flat").is_some());
    let evaluations = |job: &Value| job["metric"].is_object();
    daemon.wait_for_job("late", "is read", SOON, evaluations);
    assert!(engine.cpu_weight(&c) >= 1);
}

#[test]
fn a_log_is_read_through_its_rotation() {
    let engine = Engine::start();
    let daemon = daemon(&engine, "2s");
    let options = ["--log-opt", "max-size=4k", "--log-opt", "max-file=2"];
    engine.run(RunSpec { name: "grow", labels: &[GOVERNED], options: &options, script: GROWING });
    let progress = |job: &Value| job["progress"]["current"].as_f64().unwrap_or(0.0);
    // A line is about 110 bytes in the engine's format, so 150 lines are four rotations.
    let job =
        daemon.wait_for_job("grow", "has passed four rotations", Duration::from_secs(60), |job| progress(job) >= 150.0);
    assert!(job["notices"].as_array().unwrap().is_empty(), "{job:#?}");
}

#[test]
fn a_hostile_log_path_is_not_read_and_does_no_harm() {
    let engine = Engine::start();
    let daemon = daemon(&engine, "2s");
    let outside = engine.dir().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "loss: 1.0\nloss: 0.5\nloss: 0.25\n").unwrap();
    let shared = engine.dir().join("shared");
    fs::create_dir(&shared).unwrap();
    symlink(outside.join("secret"), shared.join("absolute")).unwrap();
    symlink("../outside/secret", shared.join("relative")).unwrap();
    Command::new("mkfifo").arg(shared.join("fifo")).status().unwrap();
    let mount = format!("{}:/shared", shared.display());
    let start = |name: &str, path: &str| {
        let label = format!("flowcon.log={path}");
        let labels = [GOVERNED, label.as_str()];
        engine.run(RunSpec { name, labels: &labels, options: &["--volume", &mount], script: "" });
    };
    for name in ["absolute", "relative", "fifo"] {
        start(name, &format!("/shared/{name}"));
    }
    start("device", "/dev/zero");
    start("dots", "/shared/../../../../etc/shadow");
    for name in ["absolute", "relative", "fifo", "device", "dots"] {
        let job =
            daemon.wait_for_job(name, "has a warning", SOON, |job| !job["notices"].as_array().unwrap().is_empty());
        assert!(job["metric"].is_null(), "nothing was read: {job:#?}");
        assert_eq!(job["limit"].as_f64().unwrap_or(1.0), 1.0, "{name} keeps a fair share");
    }
    let everything = daemon.stdout_of(&["status", "-o", "json"]);
    assert!(!everything.contains("root:"), "no byte of the host leaks");
}

#[test]
fn a_named_log_inside_the_container_and_other_drivers_are_read() {
    let engine = Engine::start();
    let daemon = daemon(&engine, "2s");
    let to_file = format!("mkdir -p /tmp; ({GROWING}) > /tmp/train.log");
    let labels = [GOVERNED, "flowcon.log=/tmp/train.log"];
    engine.run(RunSpec { name: "file", labels: &labels, script: &to_file, ..RunSpec::default() });
    engine.run(RunSpec { name: "local", labels: &[GOVERNED], options: &["--log-driver", "local"], script: GROWING });
    for name in ["file", "local"] {
        let job = daemon.wait_for_job(name, "is read", SOON, |job| job["metric"].is_object());
        assert!(job["metric"].to_string().contains("loss"), "{job:#?}");
    }
}

#[test]
fn invalid_labels_are_reported_once_and_the_job_is_governed() {
    let engine = Engine::start();
    let daemon = daemon(&engine, "2s");
    let labels = [GOVERNED, "flowcon.pattern=(unclosed", "flowcon.weight=NaN", "flowcon.total=-1"];
    let id = engine.run(RunSpec { name: "grow", labels: &labels, script: GROWING, ..RunSpec::default() });
    let job = daemon.wait_for_job("grow", "is read anyway", SOON, |job| job["metric"].is_object());
    let notices = job["notices"].to_string();
    for label in ["flowcon.pattern", "flowcon.weight", "flowcon.total"] {
        assert!(notices.contains(label), "{notices}");
    }
    sleep(Duration::from_secs(5));
    assert_eq!(
        job["notices"].as_array().unwrap().len(),
        daemon.job("grow").unwrap()["notices"].as_array().unwrap().len()
    );
    assert_eq!(engine.cpu_weight(&id), 100);
}

#[test]
fn without_a_writable_state_directory_the_daemon_only_watches_and_reports_it() {
    let engine = Engine::start();
    let state = engine.dir().join("state");
    fs::write(&state, "a file where the directory should be").unwrap();
    let address = engine.address();
    let setting = format!("state-dir={}", state.display());
    let settings = ["policy.name=flowcon", "policy.interval=2s", &setting];
    let daemon = Daemon::start(&address, &settings);
    run(&engine, "grow", GROWING);
    let b = run(&engine, "flat", CONVERGED);
    daemon.wait_for_job("flat", "is watched", SOON, |job| job["metric"].is_object());
    sleep(Duration::from_secs(8));
    assert_eq!(engine.cpu_weight(&b), 100, "nothing is changed without a journal");
    assert!(daemon.stdout_of(&["status", "-o", "json"]).contains("watching only, nothing is changed"));
}
