//! Notices and warnings are removed when their causes are gone: loop, actuator and journal together, on an engine with scripted replies.

use super::journal::Journal;
use super::testing::{FakeCgroup, FakeEngine, TestDaemon, id, info, weight};
use api::Command;
use cgroup::CgroupError;
use docker::EngineEvent;
use limits::machine::{self, Restored};
use model::{EventKind, Millis, Runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::Freezable;
use tempfile::TempDir;

/// An engine that sets the weight of a folder, unless it refuses everything.
fn engine(folder: &FakeCgroup) -> (FakeEngine, Arc<AtomicBool>) {
    let refuses = Arc::new(AtomicBool::new(false));
    let (now, path) = (refuses.clone(), folder.0.path().join("cpu.weight"));
    let engine = FakeEngine::start(move |_, body| {
        if now.load(Ordering::Relaxed) {
            return Some((500, r#"{"message":"no"}"#.to_owned()));
        }
        let update: serde_json::Value = serde_json::from_str(body).ok()?;
        fs::write(&path, info().conversion.weight(update["CpuShares"].as_u64()?).to_string()).unwrap();
        Some((200, "{}".to_owned()))
    });
    (engine, refuses)
}

/// The texts of the notices of job 1.
fn of_job(daemon: &TestDaemon) -> Vec<String> {
    daemon.governing.jobs[&id(1)].notices.iter().map(|notice| notice.text.clone()).collect()
}

/// The texts of the node's warnings.
fn of_node(daemon: &TestDaemon) -> Vec<String> {
    daemon.governing.publisher.notices().into_iter().map(|notice| notice.text).collect()
}

const NONE: [String; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_is_not_shown_after_a_successful_one_or_once_it_is_not_tried_again() {
    let folder = FakeCgroup::new();
    let (engine, refuses) = engine(&folder);
    let mut daemon = TestDaemon::new(Some(&engine));
    daemon.add(&id(1), "job", &folder, Runtime::Docker);
    for (is_tried_again, number) in [(true, 40), (false, 60)] {
        refuses.store(true, Ordering::Relaxed);
        daemon.write(&id(1), &[weight(number)]).await;
        assert_eq!(of_job(&daemon).len(), 1, "{:?}", of_job(&daemon));
        refuses.store(false, Ordering::Relaxed);
        if is_tried_again {
            daemon.write(&id(1), &[weight(number)]).await;
        } else {
            daemon.look(Millis::from_secs(0));
            assert_eq!(of_job(&daemon).len(), 1, "not at once");
            daemon.look(Millis::from_secs(3600));
        }
        assert_eq!(of_job(&daemon), NONE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_is_not_shown_after_a_release() {
    let folder = FakeCgroup::new();
    let (engine, refuses) = engine(&folder);
    let mut daemon = TestDaemon::new(Some(&engine));
    daemon.add(&id(1), "job", &folder, Runtime::Docker);
    refuses.store(true, Ordering::Relaxed);
    daemon.write(&id(1), &[weight(40)]).await;
    refuses.store(false, Ordering::Relaxed);
    daemon.ask(Command::Release(Some("job".to_owned()))).await.unwrap();
    assert_eq!(of_job(&daemon), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_somebody_else_are_not_shown_after_they_are_accepted() {
    let folder = FakeCgroup::new();
    let mut daemon = TestDaemon::new(None);
    daemon.add(&id(1), "job", &folder, Runtime::Scope);
    daemon.write(&id(1), &[weight(40)]).await;
    folder.put("cpu.weight", "300");
    daemon.look_for_drift();
    daemon.settle().await;
    assert!(of_job(&daemon)[0].contains("flowctl govern job"), "{:?}", of_job(&daemon));
    daemon.ask(Command::Govern(Some("job".to_owned()))).await.unwrap();
    assert_eq!((of_job(&daemon), folder.text("cpu.weight").as_str()), (NONE.to_vec(), "300"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_restore_is_not_shown_after_a_complete_one_or_once_everything_is_governed_again() {
    let failed = || Restored { failed: vec!["job: no answer".to_owned()], ..Restored::default() };
    let mut daemon = TestDaemon::new(None);
    for is_governed_again in [false, true] {
        daemon.governing.handle_limits(machine::Event::Restored(failed(), Vec::new()));
        assert!(of_node(&daemon)[0].starts_with("not everything is restored: job: "), "{:?}", of_node(&daemon));
        if is_governed_again {
            daemon.ask(Command::Govern(None)).await.unwrap();
        } else {
            daemon.governing.handle_limits(machine::Event::Restored(Restored::default(), Vec::new()));
        }
        assert_eq!(of_node(&daemon), NONE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_restore_is_not_shown_after_the_rest_was_restored() {
    let folder = FakeCgroup::new();
    let (engine, refuses) = engine(&folder);
    let mut daemon = TestDaemon::new(Some(&engine));
    daemon.add(&id(1), "job", &folder, Runtime::Docker);
    daemon.write(&id(1), &[weight(40)]).await;
    refuses.store(true, Ordering::Relaxed);
    daemon.ask(Command::Release(None)).await.unwrap_err();
    let failed = Restored { failed: vec!["job: no".to_owned()], ..Restored::default() };
    let readings = daemon.governing.readings();
    daemon.governing.handle_limits(machine::Event::Restored(failed, readings));
    assert_eq!(of_node(&daemon).len(), 1);
    refuses.store(false, Ordering::Relaxed);
    daemon.look(Millis::from_secs(400));
    daemon.settle().await;
    assert_eq!((of_node(&daemon), folder.text("cpu.weight").as_str()), (NONE.to_vec(), "100"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_without_a_cgroup_of_its_own_is_shown_until_it_ends() {
    let mut daemon = TestDaemon::new(None);
    daemon.governing.begin(Err(CgroupError::ProcessGone { pid: 1 }), &id(1));
    assert_eq!(of_node(&daemon), NONE, "it has ended");
    daemon.governing.begin(Err(CgroupError::Shared { container: id(2).to_string() }), &id(2));
    assert!(of_node(&daemon)[0].contains("is not governed: container"), "{:?}", of_node(&daemon));
    daemon.governing.end(&id(2), None);
    assert_eq!(of_node(&daemon), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_cannot_be_inspected_is_shown_until_it_can() {
    let mut daemon = TestDaemon::new(None);
    daemon.add(&id(1), "job", &FakeCgroup::new(), Runtime::Docker);
    for (number, said) in [(1, "job is governed as it was"), (2, "is not governed: no Id")] {
        daemon.governing.on_engine_event(EngineEvent::Unreadable(id(number), "no Id".to_owned()));
        assert!(of_node(&daemon)[0].contains(said), "{:?}", of_node(&daemon));
        daemon.governing.on_engine_event(EngineEvent::Readable(id(number)));
        assert_eq!(of_node(&daemon), NONE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_unreadable_containers_than_notices_are_reported_once() {
    let mut daemon = TestDaemon::new(None);
    for _ in 0..3 {
        for number in 0..40 {
            let unreadable = EngineEvent::Unreadable(id(number), "no Id".to_owned());
            daemon.governing.on_engine_event(unreadable);
        }
    }
    let recent = daemon.governing.publisher.feed().recent;
    let reported = recent.lock().unwrap().iter().filter(|event| event.kind == EventKind::Notice).count();
    assert_eq!(reported, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_containers_are_shown_until_all_of_a_list_are_governed() {
    let mut daemon = TestDaemon::new(None);
    daemon.governing.jobs_at_most = 1;
    let folder = FakeCgroup::new();
    daemon.add(&id(1), "one", &folder, Runtime::Docker);
    assert_eq!(of_node(&daemon), NONE);
    daemon.add(&id(2), "two", &folder, Runtime::Docker);
    assert_eq!(of_node(&daemon), ["more than 1 containers: the others are not governed"]);
    daemon.governing.on_engine_event(EngineEvent::Listed(Vec::new()));
    assert_eq!(of_node(&daemon), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_reload_is_not_shown_after_a_successful_one() {
    let mut daemon = TestDaemon::new(None);
    let works = std::mem::replace(&mut daemon.governing.reread, Box::new(|| Err(Vec::new())));
    daemon.governing.reload_and_report();
    assert_eq!(of_node(&daemon).len(), 1);
    daemon.governing.reread = works;
    daemon.governing.reload_and_report();
    assert_eq!(of_node(&daemon), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shown_about_freezing_after_it_is_turned_off() {
    let mut daemon = TestDaemon::new(None);
    daemon.add(&id(1), "job", &FakeCgroup::new(), Runtime::Docker);
    let governing = &mut daemon.governing;
    governing.duty.planned = BTreeSet::from([id(1)]);
    let problems = BTreeMap::from([(id(1), Some("it cannot be frozen: no".to_owned()))]);
    governing.update_notices(&BTreeMap::from([(id(1), 0.5)]), &BTreeSet::new(), &problems);
    assert_eq!(of_job(&daemon).len(), 2);
    daemon.governing.share_gpus(); // gpu.control is off
    assert_eq!(of_job(&daemon), NONE);
    assert!(daemon.governing.duty.is_idle());

    daemon.governing.update_notices(&BTreeMap::new(), &BTreeSet::from([id(1)]), &BTreeMap::new());
    assert!(of_job(&daemon)[0].contains("health check"));
    daemon.governing.share_gpus();
    assert_eq!(of_job(&daemon), NONE);
}

/// The journal's record of a job that its engine has paused.
fn paused(folder: &FakeCgroup) -> Freezable {
    Freezable {
        id: id(1),
        runtime: Runtime::Docker,
        name: "job".to_owned(),
        cgroup: folder.0.path().to_string_lossy().into_owned(),
        boot_id: String::new(),
        is_paused: true,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_thawed_is_shown_until_it_is() {
    let folder = FakeCgroup::new(); // without a freezer
    let mut daemon = TestDaemon::new(None);
    daemon.add(&id(1), "job", &folder, Runtime::Docker);
    daemon.governing.duty.paused.insert(id(1), paused(&folder));
    daemon.governing.paused_by_engine(&id(1), false);
    daemon.governing.share_gpus();
    assert!(of_job(&daemon)[0].contains("cannot be thawed"), "{:?}", of_job(&daemon));
    folder.put("cgroup.freeze", "1");
    daemon.governing.share_gpus();
    assert_eq!((of_job(&daemon), folder.text("cgroup.freeze").as_str()), (NONE.to_vec(), "0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_the_guard_leaves_to_its_engine_too_late_is_thawed() {
    let folder = FakeCgroup::new();
    folder.put("cgroup.freeze", "0");
    let mut daemon = TestDaemon::new(None);
    daemon.add(&id(1), "job", &folder, Runtime::Docker);
    daemon.governing.duty.guard.set_answered(false);
    daemon.governing.duty.paused.insert(id(1), paused(&folder));
    daemon.governing.paused_by_engine(&id(1), false);
    for is_answered in [false, true] {
        folder.put("cgroup.freeze", "1"); // the guard had not read the plan to leave it
        daemon.governing.duty.guard.set_answered(is_answered);
        daemon.governing.share_gpus();
        assert_eq!(folder.text("cgroup.freeze"), "0");
    }
    assert!(daemon.governing.duty.unthawed.is_empty());
}

#[test]
fn a_journal_that_could_not_be_opened_needs_a_restart() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let (journal, remembered) = Journal::open(&dir.path().join("file/state")).unwrap();
    let stored = journal.everything().unwrap_err();
    for text in [&remembered.notices[0], &stored] {
        assert!(text.ends_with("; then restart flowcond"), "{text}");
    }
}
