//! How an end becomes known: from the engine's event, its answer, late reports, and silence; and for how long it is shown.

use super::event::Event;
use super::testing::{FakeCgroup, FakeEngine, TestDaemon, id};
use docker::EndSign;
use model::{End, EventKind, Millis, NodeStatus, Runtime};
use std::time::Duration;

/// An engine that describes every container like this, or never answers.
fn engine(state: Option<&'static str>) -> FakeEngine {
    FakeEngine::start(move |line, _| {
        let state = state.filter(|_| line.starts_with("GET"))?;
        Some((200, format!(r#"{{"State":{state}}}"#)))
    })
}

/// A daemon with a job that was published.
fn with_job(engine: &FakeEngine, folder: &FakeCgroup) -> TestDaemon {
    let mut daemon = TestDaemon::new(Some(engine));
    daemon.add(&id(1), "lroom", folder, Runtime::Docker);
    daemon.governing.publish();
    daemon
}

/// Handles events until the engine has answered about an end.
async fn answered(daemon: &mut TestDaemon) {
    loop {
        let event = daemon.inbox.recv().await.unwrap();
        let is_answer = matches!(event, Event::EndDescribed { .. });
        daemon.governing.handle(event);
        if is_answer {
            return;
        }
    }
}

fn published(daemon: &mut TestDaemon) -> std::sync::Arc<NodeStatus> {
    daemon.governing.publish();
    daemon.governing.publisher.feed().status.borrow().clone()
}

fn texts(daemon: &TestDaemon) -> Vec<String> {
    let recent = daemon.governing.publisher.feed().recent;
    let recent = recent.lock().unwrap();
    recent.iter().filter(|event| event.kind == EventKind::Ended).map(|event| event.text.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_knows_that_a_child_was_killed_for_memory() {
    let engine = engine(Some(r#"{"Running":false,"Pid":0,"ExitCode":1,"OOMKilled":true}"#));
    let folder = FakeCgroup::new();
    folder.put("memory.max", "536870912\n");
    let mut daemon = with_job(&engine, &folder);
    daemon.governing.end(&id(1), Some(1));
    assert_eq!(texts(&daemon), Vec::<String>::new(), "not before the engine has answered");
    assert!(daemon.governing.jobs.is_empty(), "but it is governed no more");
    answered(&mut daemon).await;
    assert_eq!(texts(&daemon), ["lroom ended: killed for memory (limit 512 MiB); exit code 1"]);
    let status = published(&mut daemon);
    assert_eq!(status.ended.iter().map(|ended| ended.end.end).collect::<Vec<_>>(), [End::KilledForMemory]);
    assert_eq!((status.ends["killed-for-memory"], status.ends["failed"]), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_was_removed_has_the_exit_code_of_its_event() {
    let engine = FakeEngine::start(|_, _| Some((404, r#"{"message":"No such container: x"}"#.to_owned())));
    let folder = FakeCgroup::new();
    let mut daemon = with_job(&engine, &folder);
    daemon.governing.end(&id(1), Some(3));
    answered(&mut daemon).await;
    assert_eq!(texts(&daemon), ["lroom ended: failed with exit code 3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_that_an_event_lacks_is_the_engines() {
    let engine = engine(Some(r#"{"Running":false,"Pid":0,"ExitCode":7}"#));
    let folder = FakeCgroup::new();
    let mut daemon = with_job(&engine, &folder);
    daemon.governing.end(&id(1), None);
    answered(&mut daemon).await;
    assert_eq!(texts(&daemon), ["lroom ended: failed with exit code 7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_before_and_after_an_end_explain_it() {
    let engine = engine(Some(r#"{"Running":false,"Pid":0,"ExitCode":137}"#));
    for (before, after, expected) in [
        (&[EndSign::OutOfMemory][..], None, "killed for memory"),
        (&[EndSign::Signal(Some(9))], None, "killed by signal 9 (SIGKILL), sent through its engine"),
        (&[EndSign::Signal(Some(15)), EndSign::Signal(Some(9))], None, "stopped on request"),
        (&[], Some(EndSign::OutOfMemory), "killed for memory"),
        (&[], Some(EndSign::Stopped), "stopped on request"),
    ] {
        let folder = FakeCgroup::new();
        let mut daemon = with_job(&engine, &folder);
        before.iter().for_each(|sign| daemon.governing.sign_of_end(&id(1), *sign));
        daemon.governing.end(&id(1), Some(137));
        if let Some(sign) = after {
            answered(&mut daemon).await;
            assert_eq!(texts(&daemon), Vec::<String>::new(), "{expected}: another report may follow");
            daemon.governing.sign_of_end(&id(1), sign);
        } else if texts(&daemon).is_empty() {
            answered(&mut daemon).await;
        }
        assert_eq!(texts(&daemon), [format!("lroom ended: {expected}")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_does_not_answer_delays_an_end_by_two_seconds() {
    let engine = engine(None);
    let folder = FakeCgroup::new();
    let mut daemon = with_job(&engine, &folder);
    daemon.governing.end(&id(1), Some(137));
    let now = node::now();
    daemon.governing.learn_and_save(now.after(Millis(1_500)));
    assert_eq!(texts(&daemon), Vec::<String>::new());
    daemon.governing.learn_and_save(now.after(Millis(2_500)));
    assert_eq!(texts(&daemon), ["lroom ended: killed by signal 9 (SIGKILL)"]);
    tokio::time::timeout(Duration::from_secs(20), answered(&mut daemon)).await.expect("the task gives up");
    assert_eq!(texts(&daemon).len(), 1, "published once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_long_ago_is_not_the_reason_of_an_end() {
    let engine = engine(None);
    let folder = FakeCgroup::new();
    let mut daemon = with_job(&engine, &folder);
    daemon.governing.sign_of_end(&id(1), EndSign::Signal(Some(15)));
    daemon.governing.jobs.get_mut(&id(1)).unwrap().ending.signalled = node::now().0.checked_sub(3_600_000).map(Millis);
    daemon.governing.end(&id(1), Some(0));
    assert_eq!(texts(&daemon), ["lroom ended: exit code 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_job_is_shown_for_ten_minutes_or_until_it_runs_again() {
    let engine = engine(None);
    let folders = [FakeCgroup::new(), FakeCgroup::new()];
    let mut daemon = with_job(&engine, &folders[0]);
    daemon.add(&id(2), "other", &folders[1], Runtime::Docker);
    daemon.governing.publish();
    daemon.governing.end(&id(1), Some(0));
    daemon.governing.end(&id(2), Some(0));
    let names = |status: &NodeStatus| -> Vec<String> {
        let names = status.ended.iter().map(|ended| ended.job.observed.name.clone());
        names.collect()
    };
    assert_eq!(published(&mut daemon).ended.len(), 2);
    daemon.add(&id(2), "other", &folders[1], Runtime::Docker);
    let status = published(&mut daemon);
    assert_eq!((names(&status), status.jobs.len()), (vec!["lroom".to_owned()], 1));
    daemon.governing.learn_and_save(node::now().after(Millis::from_secs(601)));
    assert_eq!(published(&mut daemon).ended, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_64_ended_jobs_are_kept() {
    let engine = engine(None);
    let folder = FakeCgroup::new();
    let mut daemon = TestDaemon::new(Some(&engine));
    for number in 0..80 {
        daemon.add(&id(number), &format!("job-{number}"), &folder, Runtime::Docker);
    }
    daemon.governing.publish();
    for number in 0..80 {
        daemon.governing.end(&id(number), Some(0));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let status = published(&mut daemon);
    assert_eq!((status.ended.len(), status.ends["done"]), (64, 80));
    assert_eq!(status.ended[0].job.observed.name, "job-79", "the latest first");
}
