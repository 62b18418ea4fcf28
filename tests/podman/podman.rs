//! Tests of Podman's compatible socket: the same watcher, logs and errors as with Docker.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{CONVERGED, GROWING, is_limited, which};
use crate::support::podman::Podman;
use flowcon::host::docker::{
    Engine, EngineAddress, EngineEvent, EngineName, LogPosition, LogSource, Wanted, logs, watch,
};
use flowcon::model::{ContainerId, CpuWeight, Setting};
use futures_util::StreamExt;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;

const LABEL: &str = "flowcon.enable=true";

async fn next(events: &mut mpsc::Receiver<EngineEvent>) -> EngineEvent {
    loop {
        let event = timeout(Duration::from_secs(60), events.recv()).await.expect("an event in time");
        // Some versions report the signals before an end.
        match event.expect("the watcher never ends") {
            EngineEvent::Sign(..) => {}
            event => return event,
        }
    }
}

/// Like [`next`], but skips the list of each half minute.
async fn next_change(events: &mut mpsc::Receiver<EngineEvent>) -> EngineEvent {
    loop {
        match next(events).await {
            EngineEvent::Listed(_) => {}
            event => return event,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_are_listed_and_followed_until_they_end() {
    let podman = Podman::start();
    let early = podman.run("early", LABEL, "sleep 1000");
    podman.run("stranger", "flowcon.enable=false", "sleep 1000");
    let engine = Engine::new(EngineAddress::parse(&podman.address()).unwrap());
    let (sender, mut events) = mpsc::channel(64);
    tokio::spawn(watch(engine.clone(), Wanted::labelled(LABEL), sender));

    let EngineEvent::Connected(info) = next(&mut events).await else { panic!("not connected first") };
    assert_eq!(info.name, EngineName::Podman);
    assert!(info.runtime.is_some_and(|runtime| runtime.starts_with("runc 1.")));
    let EngineEvent::Listed(listed) = next(&mut events).await else { panic!("not listed") };
    assert_eq!(listed.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(), [early]);
    assert!(matches!(listed[0].log, LogSource::Api { .. }), "its json-file is not used: {:?}", listed[0].log);

    let id = ContainerId::new(&podman.run("late", LABEL, "sleep 1000"));
    let started = loop {
        match next(&mut events).await {
            EngineEvent::Started(started) => break started,
            // A list between a start and its event replaces the event.
            EngineEvent::Listed(listed) => {
                if let Some(started) = listed.into_iter().find(|container| container.id == id) {
                    break started;
                }
            }
            other => panic!("not started: {other:?}"),
        }
    };
    assert_eq!((&started.id, started.name.as_str()), (&id, "late"));
    let cgroup = std::fs::read_to_string(format!("/proc/{}/cgroup", started.pid)).unwrap();
    assert!(cgroup.contains(id.as_str()), "{cgroup}");
    podman.pause("late");
    assert_eq!(next_change(&mut events).await, EngineEvent::Paused(id.clone(), true));
    podman.podman(&["unpause", "late"]);
    assert_eq!(next_change(&mut events).await, EngineEvent::Paused(id.clone(), false));
    podman.podman(&["rename", "late", "later"]);
    assert_eq!(next_change(&mut events).await, EngineEvent::Renamed(id.clone(), "later".into()));

    let weight = Setting::CpuWeight(CpuWeight::clamped(25.0));
    let not_by_engine =
        engine.update(&id, EngineName::Podman, &started.limits, info.conversion, &[weight]).await.unwrap();
    let by_engine = not_by_engine.is_empty();
    assert!(by_engine || not_by_engine == [weight], "a Podman without update returns all settings");
    podman.podman(&["rm", "--force", "--time", "0", "later"]);
    let mut ended = next_change(&mut events).await;
    if by_engine && ended == EngineEvent::Updated(id.clone()) {
        ended = next_change(&mut events).await;
    }
    assert_eq!(ended, EngineEvent::Ended(id.clone(), Some(137)));
    assert!(engine.inspect(&id, EngineName::Podman).await.unwrap_err().is_gone());
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_flushed_in_parts_arrive_complete_and_once() {
    let podman = Podman::start();
    let engine = Engine::new(EngineAddress::parse(&podman.address()).unwrap());
    let script = "for i in 1 2 3 4; do printf 'epoch '; sleep 0.2; echo $i; done; sleep 1000";
    let id = ContainerId::new(&podman.run("writes", LABEL, script));
    let format = engine.inspect(&id, EngineName::Podman).await.unwrap().log_format;
    let mut from = LogPosition::default();
    let mut lines = Vec::new();
    // Podman's timestamps are whole seconds: resuming after each line must neither repeat nor lose one.
    while lines.len() < 4 {
        let mut pieces = Box::pin(logs(&engine, &id, format, from));
        let piece = timeout(Duration::from_secs(60), pieces.next()).await.expect("in time").unwrap().unwrap();
        from = piece.position;
        lines.push(String::from_utf8(piece.bytes).unwrap());
    }
    assert_eq!(lines, ["epoch 1\n", "epoch 2\n", "epoch 3\n", "epoch 4\n"]);
}

/// Only a label asks for that: `flowcon.group-stop`.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_stopped_with_time_to_save_its_state() {
    let podman = Podman::start();
    let engine = Engine::new(EngineAddress::parse(&podman.address()).unwrap());
    let id = ContainerId::new(&podman.run(
        "saves",
        LABEL,
        "trap 'sleep 1; exit 7' TERM; echo ready; while :; do sleep 0.1; done",
    ));
    eventually("it is ready", Duration::from_secs(30), || {
        podman.podman(&["logs", "saves"]).contains("ready").then_some(())
    });
    engine.stop(&id).await.unwrap();
    let ended = podman.podman(&["inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", "saves"]);
    assert_eq!(ended.trim(), "false 7");
    engine.stop(&id).await.expect("it has ended before");
    podman.podman(&["rm", "saves"]);
    assert!(engine.stop(&id).await.unwrap_err().is_gone());
}

#[test]
fn labelled_and_adopted_containers_are_governed_in_the_same_way() {
    const SOON: Duration = Duration::from_secs(40);
    let podman = Podman::start();
    let mut daemon = Daemon::start(&podman.address(), &["policy.name=flowcon", "policy.interval=2s"]);
    let connected = || daemon.stdout_of(&["status"]).contains("podman: connected").then_some(());
    eventually("the engine is connected", SOON, connected);
    podman.run("grow", LABEL, GROWING);
    let flat = podman.run("flat", "team=a", CONVERGED);
    let limited =
        |job: &serde_json::Value| job["cpu_weight"].as_u64().is_some_and(|weight| is_limited(weight as u32, 100));
    daemon.carried_out(&["adopt", "flat"]);
    assert_eq!(daemon.job("flat").unwrap()["id"], flat.as_str());
    daemon.wait_for_job("grow", "its log is parsed", SOON, |job| job["metric"]["name"] == "loss");
    daemon.wait_for_job("flat", "follows its growth", SOON, limited);
    let began = Instant::now();
    podman.podman(&["restart", "--time", "0", "flat"]);
    let has_restarted = |job: &serde_json::Value| job["uptime_s"].as_f64().unwrap() < began.elapsed().as_secs_f64();
    daemon.wait_for_job("flat", "is found again", SOON, has_restarted);
    daemon.wait_for_job("flat", "follows its growth again", SOON, limited);
    let pid = podman.podman(&["inspect", "--format", "{{.State.Pid}}", "flat"]);
    daemon.carried_out(&["disown", "flat"]);
    let cgroup = flowcon::host::cgroup::Cgroup::of_process(pid.parse().unwrap(), None).unwrap();
    assert_eq!(cgroup.limits().cpu_weight, Some(CpuWeight::DEFAULT));
    assert!(daemon.job("flat").is_none());

    daemon.carried_out(&["adopt", "flat"]);
    podman.podman(&["rm", "--force", "--time", "0", "flat"]);
    eventually("flat has ended", SOON, || daemon.job("flat").is_none().then_some(()));
    eventually("its adoption is deleted", SOON, || daemon.log().contains("flat was removed").then_some(()));
    daemon.end("TERM");
    let journal = rusqlite::Connection::open(daemon.state_dir().join("flowcon.db")).unwrap();
    let left: u32 = journal.query_row("SELECT count(*) FROM adopted", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "the adoption of a removed container is deleted");
}

#[test]
fn flowcon_runtime_stands_before_the_runtime_of_podman() {
    let podman = Podman::start();
    let next = ["runc", "crun"].into_iter().find(|name| which(name).is_some()).unwrap();
    let next = format!("runtime={next}");
    let run = ["--runtime", env!("CARGO_BIN_EXE_flowcon-runtime"), "--runtime-flag", &next, "run"];
    let with = |options: &[&str], command: &[&str]| {
        podman.podman(&[&run[..], &["--network", "none"], options, &["flowcon-test:1"], command].concat())
    };
    let started = with(&["--rm", "--env", "GOMP_SPINCOUNT=7"], &["busybox", "env"]);
    let has = |variable: &str| started.lines().any(|line| line == variable);
    assert!(
        has("OPENBLAS_THREAD_TIMEOUT=4") && has("GOMP_SPINCOUNT=7") && !has("OMP_WAIT_POLICY=passive"),
        "{started}"
    );

    with(&["--detach", "--name", "job"], &["sleep", "1000"]);
    let executed = podman.podman(&[&run[..4], &["exec", "job", "busybox", "env"]].concat());
    assert!(executed.lines().any(|line| line == "OMP_WAIT_POLICY=passive"), "{executed}");
    podman.podman(&[&run[..4], &["rm", "--force", "--time", "0", "job"]].concat());
}
