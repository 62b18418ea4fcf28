//! The engine's record of containers, and writes that take long, on an engine with scripted replies.

use super::restore::restore_all;
use super::testing::{FakeCgroup, FakeEngine, executor, id, info, original, weight};
use super::writer::{Connected, Writer};
use crate::limits::WriteResult;
use crate::model::{EngineLimits, Runtime, Setting};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Docker's number for an `io.weight` of 200.
const OURS: i64 = 30;

/// An engine whose record of a container has these fields; it accepts updates.
fn engine(state: &'static str, record: String) -> FakeEngine {
    FakeEngine::start(move |line, _| match line.starts_with("GET") {
        true => Some((200, format!(r#"{{"Id":"{}","State":{state},"HostConfig":{{{record}}}}}"#, id(1).as_str()))),
        false => Some((200, "{}".to_owned())),
    })
}

fn update_count(engine: &FakeEngine) -> usize {
    engine.requests.lock().unwrap().iter().filter(|line| line.starts_with("POST")).count()
}

/// A cgroup with the default I/O weight.
fn folder() -> FakeCgroup {
    let folder = FakeCgroup::new();
    folder.put("io.weight", "default 100\n");
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn an_io_weight_in_the_engines_record_is_restored_even_if_systemd_manages_the_cgroups() {
    for (recorded, updates) in [(OURS, 1), (0, 0)] {
        let engine = engine(r#"{"Running":false,"Pid":0}"#, format!(r#""BlkioWeight":{recorded}"#));
        let (_dir, mut executor) = executor(&engine);
        executor.writer.connected.lock().unwrap().as_mut().unwrap().cgroup_driver = "systemd".to_owned();
        let folder = folder();
        let target = folder.target(id(1), "job", Runtime::Docker);
        let row = original(&target);
        assert_eq!(row.limits.io_weight, Some(100));
        executor.journal.journal_changes(&[(row, vec![Setting::IoWeight(200)])]);
        let restored = restore_all(&mut executor, None).await;
        assert_eq!(restored.failed, Vec::<String>::new(), "{recorded}");
        assert_eq!(update_count(&engine), updates, "{recorded}");
        assert!(executor.journal.everything().unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_io_weight_that_systemd_restores_is_replaced_in_the_engines_record_only_where_it_is_ours() {
    let forgotten = [Setting::IoWeight(200)];
    for (recorded, forgotten, updates) in
        [(OURS, &forgotten[..], 1), (0, &forgotten[..], 0), (500, &forgotten[..], 0), (OURS, &forgotten[..0], 0)]
    {
        let engine = engine(r#"{"Running":true,"Pid":1}"#, format!(r#""BlkioWeight":{recorded}"#));
        let folder = folder();
        let target = folder.target(id(1), "job", Runtime::Docker);
        let restored = Setting::IoWeight(100);
        let writer = engine.writer();
        writer.correct_record(&target, &EngineLimits::default(), restored, forgotten).await.unwrap();
        assert_eq!(update_count(&engine), updates, "{recorded} {forgotten:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_waits_for_its_restart_is_restored_in_the_engines_record() {
    let Setting::CpuWeight(ours) = weight(40) else { panic!("a weight") };
    let shares = format!(r#""CpuShares":{}"#, info().conversion.shares(ours));
    let engine = engine(r#"{"Running":true,"Restarting":true,"Pid":0}"#, shares);
    let (_dir, mut executor) = executor(&engine);
    let folder = FakeCgroup::new();
    let target = folder.target(id(1), "job", Runtime::Docker);
    executor.journal.journal_changes(&[(original(&target), vec![weight(40)])]);
    let restored = restore_all(&mut executor, None).await;
    assert_eq!(restored.failed, Vec::<String>::new());
    assert_eq!(update_count(&engine), 1);
    assert!(executor.journal.everything().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cgroup_can_be_read_while_a_write_to_it_takes_long() {
    let folder = FakeCgroup::new();
    // Opening a pipe for writing waits for a reader.
    let pipe = folder.0.path().join("io.weight");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let target = folder.target(id(1), "job", Runtime::Scope);
    let of_actuator = target.clone();
    let writing = tokio::spawn(async move {
        let writer = Writer::new(None, Connected::default());
        writer.write(&of_actuator, &EngineLimits::default(), &[Setting::IoWeight(200)], &[]).await
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || sender.send(target.cgroup().populated()));
    let read = answer.recv_timeout(Duration::from_secs(5));
    // The write gets its reader, and its value is read back from a file.
    let moved = folder.0.path().join("moved");
    fs::rename(&pipe, &moved).unwrap();
    folder.put("io.weight", "default 200\n");
    let _reader = rustix::fs::open(&moved, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    assert_eq!(writing.await.unwrap(), WriteResult::Done);
    assert_eq!(read, Ok(true), "it is not locked");
}
