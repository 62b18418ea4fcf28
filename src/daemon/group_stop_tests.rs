//! Tests of group-stop: the call to the engine, and everything that keeps it from being made.

use super::super::testing::{FakeCgroup, FakeEngine, TestDaemon, id, info};
use super::*;
use docker::EndSign;
use model::{End, GroupStop, NodeStatus};
use std::sync::Arc;
use std::time::Duration;

const WHY: GroupStop = GroupStop { rung: 1, rank: 7, of: 9 };

/// An engine that stops containers with this status.
fn engine(status: u16) -> FakeEngine {
    FakeEngine::start(move |line, _| {
        let body = if line.starts_with("GET") { r#"{"State":{"Running":false,"Pid":0,"ExitCode":143}}"# } else { "" };
        Some((if line.ends_with("/stop") { status } else { 200 }, body.to_owned()))
    })
}

/// A daemon that knows its engine, with one job that carries the label.
fn with_job(engine: &FakeEngine, folder: &FakeCgroup, runtime: Runtime) -> TestDaemon {
    let mut daemon = TestDaemon::new(Some(engine));
    (daemon.governing.engine, daemon.governing.engine_reported) = (Some(info()), true);
    let mut target = folder.target(id(1), "rate-7", runtime);
    target.started_unix_ms = u64::MAX; // after the daemon
    let labels = [("flowcon.group-stop".to_owned(), "rung 1".to_owned())].into();
    daemon.governing.begin(Ok((Job::new(target, None, &labels), None)), &id(1));
    daemon.governing.publish();
    daemon
}

fn lose(daemon: &mut TestDaemon) {
    daemon.governing.stop_losers(vec![TrialStop { id: id(1), why: WHY }]);
}

/// The stops that the engine was asked for within this time.
async fn stops(engine: &FakeEngine) -> usize {
    tokio::time::sleep(Duration::from_millis(300)).await;
    let stop = format!("POST /containers/{}/stop ", id(1).as_str());
    engine.requests.lock().unwrap().iter().filter(|request| **request == stop).count()
}

fn texts(daemon: &TestDaemon, kind: EventKind) -> Vec<String> {
    let recent = daemon.governing.publisher.feed().recent;
    let recent = recent.lock().unwrap();
    recent.iter().filter(|event| event.kind == kind).map(|event| event.text.clone()).collect()
}

fn published(daemon: &mut TestDaemon) -> Arc<NodeStatus> {
    daemon.governing.publish();
    daemon.governing.publisher.feed().status.borrow().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loser_is_stopped_once_through_its_engine_and_its_end_says_why() {
    let (engine, folder) = (engine(204), FakeCgroup::new());
    let mut daemon = with_job(&engine, &folder, Runtime::Docker);
    lose(&mut daemon);
    lose(&mut daemon);
    assert_eq!(stops(&engine).await, 1);
    let asked = ["rate-7 is stopped at rung 1: rank 7 of 9, as its label flowcon.group-stop asks (docker stop)"];
    assert_eq!(texts(&daemon, EventKind::GroupStop), asked);
    assert!(daemon.governing.jobs[&id(1)].ending.may_be_near(node::now()), "it has its plain share and is not frozen");

    daemon.governing.sign_of_end(&id(1), EndSign::Signal(Some(15)));
    daemon.governing.end(&id(1), Some(143));
    let end = "rate-7 ended: stopped by group-stop at rung 1: rank 7 of 9; exit code 143";
    assert_eq!(texts(&daemon, EventKind::Ended), [end]);
    let status = published(&mut daemon);
    let ended = &status.ended[0].end;
    assert_eq!((ended.end, ended.group_stop, ended.end.is_failure()), (End::GroupStop, Some(WHY), false));
    assert_eq!((status.ends["group-stop"], status.ends["failed"]), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_ends_by_itself_before_the_signal_is_done() {
    let (engine, folder) = (engine(304), FakeCgroup::new());
    let mut daemon = with_job(&engine, &folder, Runtime::Docker);
    lose(&mut daemon);
    daemon.governing.end(&id(1), Some(0));
    assert_eq!(texts(&daemon, EventKind::Ended), ["rate-7 ended: exit code 0"]);
    assert_eq!(published(&mut daemon).ended[0].end.group_stop, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_is_stopped() {
    type Change = fn(&mut TestDaemon);
    let spares: [(&str, Runtime, Change); 5] = [
        ("a command", Runtime::Scope, |_| ()),
        ("a task of a service", Runtime::Docker, |daemon| job(daemon).service = Some("swarm".into())),
        ("without the label", Runtime::Docker, |daemon| job(daemon).directives = Arc::default()),
        ("the engine is not known yet", Runtime::Docker, |daemon| daemon.governing.engine_reported = false),
        ("the engine is gone", Runtime::Docker, |daemon| daemon.governing.lost = Some("gone".to_owned())),
    ];
    for (why, runtime, change) in spares {
        let (engine, folder) = (engine(204), FakeCgroup::new());
        let mut daemon = with_job(&engine, &folder, runtime);
        change(&mut daemon);
        lose(&mut daemon);
        assert_eq!((stops(&engine).await, texts(&daemon, EventKind::GroupStop).len()), (0, 0), "{why}");
    }
}

fn job(daemon: &mut TestDaemon) -> &mut Job {
    daemon.governing.jobs.get_mut(&id(1)).expect("it was added")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_its_engine_cannot_stop_goes_on_and_says_so() {
    let (engine, folder) = (engine(500), FakeCgroup::new());
    let mut daemon = with_job(&engine, &folder, Runtime::Docker);
    lose(&mut daemon);
    while !job(&mut daemon).notices.iter().any(|notice| notice.text.contains("and goes on: stop container")) {
        let event = daemon.inbox.recv().await.unwrap();
        daemon.governing.handle(event);
    }
    assert!(!job(&mut daemon).ending.may_be_near(node::now()));
    lose(&mut daemon);
    assert_eq!(stops(&engine).await, 1, "it is not stopped again");
    daemon.governing.end(&id(1), Some(1));
    daemon.governing.publish();
    assert!(!texts(&daemon, EventKind::Ended).iter().any(|text| text.contains("group-stop")), "it failed by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_learns_of_the_label_and_of_what_ran_before_the_daemon() {
    let (engine, folder) = (engine(204), FakeCgroup::new());
    let mut daemon = with_job(&engine, &folder, Runtime::Docker);
    let trial = job(&mut daemon).as_trial_of("sweep".into(), true);
    assert_eq!((trial.stop_at, trial.ran_before), (Some(1), false));
    let mut earlier = folder.target(id(2), "earlier", Runtime::Docker);
    earlier.started_unix_ms = 1;
    daemon.governing.begin(Ok((Job::new(earlier, None, &Default::default()), None)), &id(2));
    let trial = daemon.governing.jobs[&id(2)].as_trial_of("sweep".into(), true);
    assert_eq!((trial.stop_at, trial.ran_before), (None, true));
}
