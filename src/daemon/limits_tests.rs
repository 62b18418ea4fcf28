//! Limits when restoring them fails, is slow, or meets an owner's change: loop, actuator and journal together, on an engine with
//! scripted replies.

use super::Control;
use super::event::Event;
use super::job::Job;
use super::testing::{FakeCgroup, FakeEngine, TestDaemon, client_requests, id, info, low, weight};
use api::{Command, Refusal, Request};
use docker::EndSign;
use model::{Bytes, CpuWeight, Hold, Limits, Millis, RunState, Runtime};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

const ACCEPTS: u8 = 0;
const REFUSES: u8 = 1;
const HANGS: u8 = 2;

/// An engine that sets weights in folders, in a mode that the test chooses.
struct ScriptedEngine {
    engine: FakeEngine,
    mode: Arc<AtomicU8>,
}

impl ScriptedEngine {
    fn of(folders: &[(u8, &FakeCgroup)]) -> ScriptedEngine {
        let paths: Vec<(String, PathBuf)> =
            folders.iter().map(|(n, folder)| (id(*n).as_str().to_owned(), folder.0.path().to_owned())).collect();
        let mode = Arc::new(AtomicU8::new(ACCEPTS));
        let now = mode.clone();
        let engine = FakeEngine::start(move |line, body| {
            match now.load(Ordering::Relaxed) {
                HANGS => return None,
                REFUSES => return Some((500, r#"{"message":"no"}"#.to_owned())),
                _ => {}
            }
            let path = paths.iter().find(|(id, _)| line.contains(id.as_str())).map(|(_, path)| path)?;
            if line.starts_with("GET") {
                return Some((200, inspected(path)));
            }
            let update: serde_json::Value = serde_json::from_str(body).ok()?;
            if let Some(shares) = update["CpuShares"].as_u64() {
                fs::write(path.join("cpu.weight"), info().conversion.weight(shares).to_string()).unwrap();
            }
            Some((200, "{}".to_owned()))
        });
        ScriptedEngine { engine, mode }
    }

    fn set_mode(&self, mode: u8) {
        self.mode.store(mode, Ordering::Relaxed);
    }
}

/// Description of a running container, of which the engine's record has the weight in this folder.
fn inspected(folder: &Path) -> String {
    let weight: f64 = fs::read_to_string(folder.join("cpu.weight")).unwrap().trim().parse().unwrap();
    let shares = info().conversion.shares(CpuWeight::clamped(weight));
    format!(r#"{{"State":{{"Running":true}},"HostConfig":{{"CpuShares":{shares}}}}}"#)
}

fn refused(answer: Result<String, Refusal>) -> String {
    answer.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_fails_for_one_job_forgets_only_the_others_and_is_tried_again() {
    let (good, bad) = (FakeCgroup::new(), FakeCgroup::new());
    let engine = ScriptedEngine::of(&[(1, &good), (2, &bad)]);
    let mut daemon = TestDaemon::new(Some(&engine.engine));
    daemon.add(&id(1), "good", &good, Runtime::Scope);
    daemon.add(&id(2), "bad", &bad, Runtime::Docker);
    daemon.write(&id(1), &[low(16)]).await;
    daemon.write(&id(2), &[weight(40)]).await;
    assert_eq!((good.text("memory.low"), bad.text("cpu.weight")), ("16777216".to_owned(), "40".to_owned()));

    engine.set_mode(REFUSES);
    // The cgroup of a scope is found by its processes. A folder has none, as if the scope had ended.
    let reply = refused(daemon.ask(Command::Restore).await);
    assert!(reply.contains("bad: ") && reply.contains("tried again") && !reply.contains("good"), "{reply}");
    assert!(daemon.governing.limits.is_everything_released());
    assert!(!daemon.ledger(&id(1)).may_need_restore());
    assert_eq!(daemon.ledger(&id(2)).known(), [weight(40)], "it is still in force");

    engine.set_mode(ACCEPTS);
    daemon.look(Millis(0));
    daemon.settle().await;
    assert_eq!(bad.text("cpu.weight"), "100", "restored without another command");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_reports_restored_originals_only_when_they_are_and_tries_again_otherwise() {
    let folder = FakeCgroup::new();
    let engine = ScriptedEngine::of(&[(1, &folder)]);
    let mut daemon = TestDaemon::new(Some(&engine.engine));
    daemon.add(&id(1), "job", &folder, Runtime::Docker);
    daemon.write(&id(1), &[weight(40)]).await;
    engine.set_mode(REFUSES);
    for name in [None, Some("job".to_owned())] {
        let reply = refused(daemon.ask(Command::Release(name)).await);
        assert!(reply.contains("not restored yet") && reply.contains("job"), "{reply}");
    }
    assert_eq!(folder.text("cpu.weight"), "40");
    engine.set_mode(ACCEPTS);
    daemon.look(Millis(0));
    assert!(daemon.governing.limits.is_at_rest(), "not at once: it has just failed");
    daemon.look(Millis::from_secs(400));
    daemon.settle().await;
    assert_eq!(folder.text("cpu.weight"), "100");
    let reply = daemon.ask(Command::Release(None)).await.unwrap();
    assert!(reply.contains("has its original limits"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn governing_again_never_takes_a_limit_of_ours_that_was_not_restored_for_the_original() {
    let folder = FakeCgroup::new();
    let engine = ScriptedEngine::of(&[(1, &folder)]);
    let mut daemon = TestDaemon::new(Some(&engine.engine));
    daemon.add(&id(1), "job", &folder, Runtime::Docker);
    daemon.write(&id(1), &[weight(40), low(16)]).await;
    // The owner changes one limit while the engine refuses everything.
    engine.set_mode(REFUSES);
    folder.put("memory.low", "33554432");
    daemon.look_for_drift();
    daemon.settle().await;
    assert!(daemon.ledger(&id(1)).holds().foreign.is_some());

    let reply = refused(daemon.ask(Command::Govern(None)).await);
    assert!(reply.contains("not governed yet") && reply.contains("job"), "{reply}");
    let weight_of = |daemon: &TestDaemon| daemon.original(&id(1)).cpu_weight;
    assert_eq!(weight_of(&daemon), Some(CpuWeight::DEFAULT), "ours is no original");
    engine.set_mode(ACCEPTS);
    daemon.ask(Command::Govern(Some("job".to_owned()))).await.unwrap();
    let wanted = Limits { memory_low: Some(Bytes(32 << 20)), ..daemon.original(&id(1)) };
    assert_eq!((weight_of(&daemon), daemon.original(&id(1))), (Some(CpuWeight::DEFAULT), wanted));
    assert!(daemon.ledger(&id(1)).holds().foreign.is_none());
    assert_eq!((folder.text("cpu.weight"), folder.text("memory.low")), ("100".to_owned(), "33554432".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_success_of_one_limit_does_not_shorten_the_wait_of_a_failing_one() {
    let folder = FakeCgroup::new();
    let engine = ScriptedEngine::of(&[(1, &folder)]);
    let mut daemon = TestDaemon::new(Some(&engine.engine));
    daemon.add(&id(1), "job", &folder, Runtime::Docker);
    engine.set_mode(REFUSES);
    let mut waits = Vec::new();
    for round in 0..3 {
        daemon.write(&id(1), &[weight(40), low(16 + round)]).await; // the memory limit is written to the cgroup
        daemon.write(&id(1), &[weight(40)]).await;
        daemon.write(&id(1), &[low(32 + round)]).await;
        let holds = daemon.ledger(&id(1)).holds();
        let until = holds.unwritable.as_ref().map_or(Millis(0), |(_, until)| *until);
        waits.push(until.since(node::now()).0 / 1000);
    }
    assert!(waits.is_sorted_by(|a, b| a < b) && waits[0] >= 29, "{waits:?}");
    engine.set_mode(ACCEPTS);
    daemon.write(&id(1), &[weight(40)]).await;
    assert!(daemon.ledger(&id(1)).holds().unwritable.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_the_owner_sets_during_a_slow_write_is_foreign() {
    for (status, answer) in [(500, r#"{"message":"took too long"}"#), (200, "{}")] {
        let folder = FakeCgroup::new();
        let path = folder.0.path().join("cpu.weight");
        let engine = FakeEngine::start(move |_, _| {
            fs::write(&path, "300").unwrap(); // the owner writes just after the engine
            Some((status, answer.to_owned()))
        });
        let mut daemon = TestDaemon::new(Some(&engine));
        daemon.add(&id(1), "job", &folder, Runtime::Docker);
        daemon.write(&id(1), &[weight(40)]).await;
        let ours = daemon.ledger(&id(1)).known();
        assert!(!ours.contains(&weight(300)), "{status}: {ours:?}");
        daemon.look_for_drift();
        daemon.settle().await;
        let hold = daemon.ledger(&id(1)).hold(node::now(), false);
        assert!(matches!(hold, Some(Hold::Foreign(_))), "{status}: {hold:?}");
        assert_eq!(folder.text("cpu.weight"), "300");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_existed_when_the_journal_was_lost_is_left_alone_even_if_it_started_later() {
    let (lost_at, folder) = (1_000, FakeCgroup::new());
    for (created_unix_ms, is_held) in [(500, true), (1_500, false)] {
        let mut daemon = TestDaemon::new(None);
        daemon.governing.lost_at_unix_ms = Some(lost_at);
        let mut job = Job::new(folder.target(id(1), "job", Runtime::Docker), None, &BTreeMap::new());
        (job.created_unix_ms, job.target.started_unix_ms) = (created_unix_ms, u64::MAX);
        daemon.governing.begin(Ok((job, None)), &id(1));
        assert_eq!(matches!(daemon.ledger(&id(1)).hold(Millis(0), false), Some(Hold::Foreign(_))), is_held);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_about_a_log_is_removed_when_the_problem_is_gone() {
    let mut daemon = TestDaemon::new(None);
    daemon.add(&id(1), "job", &FakeCgroup::new(), Runtime::Scope);
    let texts = |daemon: &TestDaemon| -> Vec<String> {
        daemon.governing.jobs[&id(1)].notices.iter().map(|notice| notice.text.clone()).collect()
    };
    for (problem, said) in [(Some("does not exist yet"), 1), (Some("is a directory"), 1), (None, 0)] {
        daemon.governing.handle(Event::LogHealth(id(1), problem.map(str::to_owned)));
        assert_eq!(texts(&daemon).len(), said, "{problem:?}");
        assert!(texts(&daemon).first().map(String::as_str) == problem);
    }
}

async fn flood(events: &mpsc::Sender<Event>) {
    for _ in 0..3 * super::EVENTS_AT_MOST {
        events.send(Event::Written(Vec::new())).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loop_handles_events_while_it_restores_and_stops_on_a_hung_engine() {
    let folders = [FakeCgroup::new(), FakeCgroup::new()];
    let engine = ScriptedEngine::of(&[(1, &folders[0]), (2, &folders[1])]);
    let mut daemon = TestDaemon::new(Some(&engine.engine));
    for (number, folder) in [(1, &folders[0]), (2, &folders[1])] {
        daemon.add(&id(number), &format!("job-{number}"), folder, Runtime::Docker);
        daemon.write(&id(number), &[weight(40)]).await;
    }
    engine.set_mode(HANGS);
    let TestDaemon { mut governing, mut inbox, events, .. } = daemon;
    let mut status = governing.publisher.feed().status;
    let (mut requests, client) = client_requests();
    let (control, mut signals) = mpsc::channel(1);
    let running = tokio::spawn(async move { governing.run(&mut inbox, &mut requests, &mut signals, None).await });
    let (reply, answer) = oneshot::channel();
    client.send(Request { command: Command::Restore, requested_by: "a test".to_owned(), reply }).await.ok().unwrap();
    timeout(Duration::from_secs(30), flood(&events)).await.expect("the loop handles events during a restore");
    let reply = refused(timeout(Duration::from_secs(60), answer).await.expect("an answer in time").unwrap());
    assert!(reply.contains("longer than 8 s"), "before the API's limit of ten seconds: {reply}");
    assert!(reply.contains("job-1") && reply.contains("job-2") && reply.contains("released"), "{reply}");

    control.send(Control::Stop).await.unwrap();
    timeout(Duration::from_secs(30), flood(&events)).await.expect("the loop handles events during the stop");
    timeout(Duration::from_secs(30), status.wait_for(|status| status.released)).await.expect("a release").unwrap();
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_call_ends_the_daemon_with_an_error() {
    let TestDaemon { mut governing, mut inbox, .. } = TestDaemon::new(None);
    let (mut requests, _client) = client_requests();
    let (_control, mut signals) = mpsc::channel(1);
    governing.actuator.pulse.beat_at(Instant::now().checked_sub(Duration::from_secs(181)).unwrap());
    let ended =
        timeout(Duration::from_secs(5), governing.run(&mut inbox, &mut requests, &mut signals, None)).await.unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("the actuator") && why.contains("no reply from a disk or a control file for 18"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_before_the_next_look_is_still_in_a_snapshot() {
    let mut daemon = TestDaemon::new(None);
    let status = daemon.governing.publisher.feed().status;
    let folder = FakeCgroup::new();
    daemon.add(&id(1), "short", &folder, Runtime::Scope);
    assert!(status.borrow().jobs.is_empty());
    daemon.governing.end(&id(1), Some(0));
    assert_eq!(status.borrow().jobs.iter().map(|job| job.observed.name.as_str()).collect::<Vec<_>>(), ["short"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signalled_job_has_its_plain_share_of_those_that_run_for_an_hour() {
    let mut daemon = TestDaemon::new(None);
    let folders = [FakeCgroup::new(), FakeCgroup::new(), FakeCgroup::new()];
    for (number, folder) in (1..).zip(&folders) {
        daemon.add(&id(number), "job", folder, Runtime::Docker);
    }
    let governing = &mut daemon.governing;
    governing.jobs.get_mut(&id(3)).unwrap().state = RunState::Paused;
    governing.sign_of_end(&id(1), EndSign::Signal(Some(15)));
    governing.sign_of_end(&id(3), EndSign::Signal(Some(15)));
    let now = node::now();
    let mut bounds = |at: Millis| -> Vec<f64> {
        governing.observed(at, false).containers.iter().map(|job| job.bounds.min.fraction()).collect()
    };
    assert_eq!(bounds(now), [0.5, 0.0, 0.0], "a released job neither counts nor needs a share");
    assert_eq!(bounds(now.after(Millis::from_secs(3601))), [0.0; 3]);
    let ending = &mut daemon.governing.jobs.get_mut(&id(1)).unwrap().ending;
    ending.signalled = Some(Millis::from_secs(5));
    assert!(ending.may_be_near(Millis::from_secs(3604)) && !ending.may_be_near(Millis::from_secs(3605)));
    ending.signalled = None;
    assert!(!ending.may_be_near(Millis(0)));
}
