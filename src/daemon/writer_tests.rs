//! The engine's record of containers, writes that take long, an engine that refuses, and a bus that is closed.

use super::restore::restore_all;
use super::target::Target;
use super::testing::{FakeCgroup, FakeEngine, executor, id, info, low, original, weight};
use super::writer::{Connected, Writer};
use docker::Conversion;
use limits::WriteResult;
use model::{EngineLimits, Runtime, Setting};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use systemd::{Systemd, SystemdError};
use testing::bus;
use tokio::task::block_in_place;

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
async fn an_owners_protection_that_is_accepted_is_not_bounded_by_an_earlier_memory_limit() {
    let engine = engine(r#"{"Running":true,"Pid":1}"#, format!(r#""Memory":{}"#, 32_u64 << 30));
    let folder = folder();
    let target = folder.target(id(1), "job", Runtime::Docker);
    let original = EngineLimits { memory: 8 << 30, memory_reservation: 2 << 30, ..EngineLimits::default() };
    assert_eq!(engine.writer().write(&target, &original, &[low(16 << 10)], &[low(3 << 10)]).await, WriteResult::Done);
    let requests = engine.requests.lock().unwrap();
    let update = requests.iter().find(|line| line.starts_with("POST")).unwrap();
    assert!(update.contains(&format!(r#""MemoryReservation":{}"#, 16_u64 << 30)), "{update}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_io_weight_goes_through_the_engine_only_where_there_is_no_bfq() {
    for (has_bfq, updates, weight) in [(true, 0, "666"), (false, 1, "default 100")] {
        let engine = engine(r#"{"Running":true,"Pid":1}"#, String::new());
        let folder = folder();
        if has_bfq {
            folder.put("io.bfq.weight", "default 100\n");
        }
        let target = folder.target(id(1), "job", Runtime::Docker);
        let wrote = engine.writer().write(&target, &EngineLimits::default(), &[Setting::IoWeight(666)], &[]).await;
        assert_eq!(wrote, WriteResult::Done);
        assert_eq!((update_count(&engine), folder.text("io.weight").as_str()), (updates, weight));
    }
}

/// An engine that converts shares as runc does since 1.3.2, for containers with these cgroups, whose first updates it does at the same
/// time; it refuses updates of each after its first `updates_at_most` ones.
fn engine_with_new_runc(folders: [PathBuf; 2], updates_at_most: usize) -> FakeEngine {
    let (updates, both) = ([(); 2].map(|()| AtomicUsize::new(0)), Barrier::new(2));
    FakeEngine::start(move |line, body| {
        let number = (0..2).find(|number| line.contains(id(*number).as_str()))?;
        let earlier = updates[usize::from(number)].fetch_add(1, Ordering::Relaxed);
        if earlier >= updates_at_most {
            return Some((500, r#"{"message":"no"}"#.to_owned()));
        }
        if earlier == 0 {
            block_in_place(|| both.wait());
        }
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        let weight = Conversion::Quadratic.weight(body["CpuShares"].as_u64()?);
        fs::write(folders[usize::from(number)].join("cpu.weight"), format!("{weight}\n")).ok()?;
        Some((200, "{}".to_owned()))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_that_were_converted_wrongly_at_the_same_time_are_all_corrected() {
    for (updates_at_most, is_done) in [(2, true), (1, false)] {
        let folders = [folder(), folder()];
        let engine = engine_with_new_runc(folders.each_ref().map(|folder| folder.0.path().to_owned()), updates_at_most);
        let targets = [0, 1].map(|number| folders[usize::from(number)].target(id(number), "job", Runtime::Docker));
        let (writer, original, settings) = (engine.writer(), EngineLimits::default(), [weight(50)]);
        let write = |target| writer.write(target, &original, &settings, &[]);
        let wrote = tokio::join!(write(&targets[0]), write(&targets[1]));
        for (wrote, folder) in [(wrote.0, &folders[0]), (wrote.1, &folders[1])] {
            assert_eq!(
                (wrote == WriteResult::Done, folder.text("cpu.weight") == "50"),
                (is_done, is_done),
                "{wrote:?}"
            );
        }
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

#[tokio::test(flavor = "multi_thread")]
async fn memory_high_is_lifted_even_if_the_engine_refuses_the_weight_of_the_same_write() {
    let engine = FakeEngine::start(|_, _| Some((500, r#"{"message":"no"}"#.to_owned())));
    let folder = FakeCgroup::new();
    folder.put("memory.high", "20971520\n");
    let target = folder.target(id(1), "job", Runtime::Docker);
    let settings = [weight(100), Setting::MemoryHigh(None)];
    let wrote = engine.writer().write(&target, &EngineLimits::default(), &settings, &[]).await;
    assert!(matches!(wrote, WriteResult::Failed(_)), "{wrote:?}");
    assert_eq!(folder.text("memory.high"), "max");
}

async fn protect(writer: &Writer, target: &Target) -> WriteResult {
    writer.write(target, &EngineLimits::default(), &[low(16)], &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_bus_is_replaced_at_the_next_write_and_until_then_no_write_is_reported_as_done() {
    let folder = FakeCgroup::new();
    let mut target = folder.target(id(1), "job", Runtime::Scope);
    target.unit = Some("x.scope".to_owned());
    let mut writer = Writer::new(None, Connected::default());
    let lost = || Err(SystemdError::Unreachable(zbus::Error::InvalidReply));
    let is_unknown =
        |wrote: WriteResult| matches!(wrote, WriteResult::Failed(why) if why.contains("may have another value"));
    writer.bus_tried(lost());
    assert_eq!(protect(&writer, &target).await, WriteResult::Done, "a host without a bus");

    let (_closes, address) = bus::closing();
    writer.bus_tried(Ok(Systemd::at(&address).await.unwrap()));
    assert!(!writer.bus_is_due());
    assert!(is_unknown(protect(&writer, &target).await));
    assert_eq!(folder.text("memory.low"), "16777216");
    assert!(writer.bus_is_due(), "at once");
    writer.bus_tried(lost());
    assert!(!writer.bus_is_due(), "only after a while");
    assert!(is_unknown(protect(&writer, &target).await), "systemd still has what it was asked for");

    let (_answers, address) = bus::old_manager();
    writer.bus_tried(Ok(Systemd::at(&address).await.unwrap()));
    assert_eq!(protect(&writer, &target).await, WriteResult::Done);
    assert!(!writer.bus_is_due());
}
