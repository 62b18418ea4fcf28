//! What becomes of limits when writing them back fails, is slow, or meets an owner's change: the loop, the actuator and the journal
//! together, on an engine that answers as a test says.

use super::Control;
use super::event::Event;
use super::testing::{FakeEngine, Folder, House, id, info, low, nothing_asked, weight};
use crate::api::{Command, Refusal, Request};
use crate::host::node;
use crate::model::{Bytes, CpuWeight, Hold, Limits, Millis, Runtime};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

const OBEYS: u8 = 0;
const REFUSES: u8 = 1;
const HANGS: u8 = 2;

/// An engine that sets weights in folders, as long as it is told to.
struct Obedient {
    engine: FakeEngine,
    mood: Arc<AtomicU8>,
}

impl Obedient {
    fn of(folders: &[(u8, &Folder)]) -> Obedient {
        let paths: Vec<(String, PathBuf)> =
            folders.iter().map(|(n, folder)| (id(*n).as_str().to_owned(), folder.0.path().to_owned())).collect();
        let mood = Arc::new(AtomicU8::new(OBEYS));
        let now = mood.clone();
        let engine = FakeEngine::start(move |line, body| {
            match now.load(Ordering::Relaxed) {
                HANGS => return None,
                REFUSES => return Some((500, r#"{"message":"no"}"#.to_owned())),
                _ => {}
            }
            let path = paths.iter().find(|(id, _)| line.contains(id.as_str())).map(|(_, path)| path)?;
            let asked: serde_json::Value = serde_json::from_str(body).ok()?;
            if let Some(shares) = asked["CpuShares"].as_u64() {
                fs::write(path.join("cpu.weight"), info().conversion.weight(shares).to_string()).unwrap();
            }
            Some((200, "{}".to_owned()))
        });
        Obedient { engine, mood }
    }

    fn is_now(&self, mood: u8) {
        self.mood.store(mood, Ordering::Relaxed);
    }
}

fn refused(answer: Result<String, Refusal>) -> String {
    answer.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_fails_for_one_job_forgets_only_what_went_back_and_is_tried_again() {
    let (good, bad) = (Folder::new(), Folder::new());
    let engine = Obedient::of(&[(1, &good), (2, &bad)]);
    let mut house = House::new(Some(&engine.engine));
    house.add(&id(1), "good", &good, Runtime::Scope);
    house.add(&id(2), "bad", &bad, Runtime::Docker);
    house.write(&id(1), &[low(16)]).await;
    house.write(&id(2), &[weight(40)]).await;
    assert_eq!((good.text("memory.low"), bad.text("cpu.weight")), ("16777216".to_owned(), "40".to_owned()));

    engine.is_now(REFUSES);
    // The cgroup of a scope is found by its processes, and a folder has none: as if it had ended.
    let told = refused(house.ask(Command::Restore).await);
    assert!(told.contains("bad: ") && told.contains("tried again") && !told.contains("good"), "{told}");
    assert!(house.governing.limits.is_paused());
    assert!(!house.ledger(&id(1)).owes_anything());
    assert_eq!(house.ledger(&id(2)).known(), [weight(40)], "it still stands");

    engine.is_now(OBEYS);
    house.look(Millis(0));
    house.settle().await;
    assert_eq!(bad.text("cpu.weight"), "100", "put back without being asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_says_that_originals_are_back_when_they_are_and_tries_again_when_they_are_not() {
    let folder = Folder::new();
    let engine = Obedient::of(&[(1, &folder)]);
    let mut house = House::new(Some(&engine.engine));
    house.add(&id(1), "job", &folder, Runtime::Docker);
    house.write(&id(1), &[weight(40)]).await;
    engine.is_now(REFUSES);
    for name in [None, Some("job".to_owned())] {
        let told = refused(house.ask(Command::Pause(name)).await);
        assert!(told.contains("will be put back") && told.contains("job"), "{told}");
    }
    assert_eq!(folder.text("cpu.weight"), "40");
    engine.is_now(OBEYS);
    house.look(Millis(0));
    assert!(house.governing.limits.is_at_rest(), "not at once: it failed a moment ago");
    house.look(Millis::from_secs(400));
    house.settle().await;
    assert_eq!(folder.text("cpu.weight"), "100");
    let told = house.ask(Command::Pause(None)).await.unwrap();
    assert!(told.contains("has its original limits"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_beside_a_limit_of_ours_that_could_not_go_back_never_takes_it_for_the_original() {
    let folder = Folder::new();
    let engine = Obedient::of(&[(1, &folder)]);
    let mut house = House::new(Some(&engine.engine));
    house.add(&id(1), "job", &folder, Runtime::Docker);
    house.write(&id(1), &[weight(40), low(16)]).await;
    // The owner changes one limit while the engine refuses everything.
    engine.is_now(REFUSES);
    folder.put("memory.low", "33554432");
    house.look_for_drift();
    house.settle().await;
    assert!(house.ledger(&id(1)).holds().foreign.is_some());

    let told = refused(house.ask(Command::Resume(None)).await);
    assert!(told.contains("not governed yet") && told.contains("job"), "{told}");
    let weight_of = |house: &House| house.original(&id(1)).cpu_weight;
    assert_eq!(weight_of(&house), Some(CpuWeight::DEFAULT), "ours is no original");
    engine.is_now(OBEYS);
    house.ask(Command::Resume(Some("job".to_owned()))).await.unwrap();
    let wanted = Limits { memory_low: Some(Bytes(32 << 20)), ..house.original(&id(1)) };
    assert_eq!((weight_of(&house), house.original(&id(1))), (Some(CpuWeight::DEFAULT), wanted));
    assert!(house.ledger(&id(1)).holds().foreign.is_none());
    assert_eq!((folder.text("cpu.weight"), folder.text("memory.low")), ("100".to_owned(), "33554432".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_limits_success_does_not_shorten_the_wait_of_another_that_keeps_failing() {
    let folder = Folder::new();
    let engine = Obedient::of(&[(1, &folder)]);
    let mut house = House::new(Some(&engine.engine));
    house.add(&id(1), "job", &folder, Runtime::Docker);
    engine.is_now(REFUSES);
    let mut waits = Vec::new();
    for round in 0..3 {
        house.write(&id(1), &[weight(40), low(16 + round)]).await; // the memory's limit goes to the cgroup, not to the engine
        house.write(&id(1), &[weight(40)]).await;
        house.write(&id(1), &[low(32 + round)]).await;
        let holds = house.ledger(&id(1)).holds();
        let until = holds.unwritable.as_ref().map_or(Millis(0), |(_, until)| *until);
        waits.push(until.since(node::now()).0 / 1000);
    }
    assert!(waits.is_sorted_by(|a, b| a < b) && waits[0] >= 29, "{waits:?}");
    engine.is_now(OBEYS);
    house.write(&id(1), &[weight(40)]).await;
    assert!(house.ledger(&id(1)).holds().unwritable.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_owner_sets_while_the_engine_takes_its_time_is_theirs() {
    for (status, answer) in [(500, r#"{"message":"took too long"}"#), (200, "{}")] {
        let folder = Folder::new();
        let path = folder.0.path().join("cpu.weight");
        let engine = FakeEngine::start(move |_, _| {
            fs::write(&path, "300").unwrap(); // the owner was a moment later than the engine
            Some((status, answer.to_owned()))
        });
        let mut house = House::new(Some(&engine));
        house.add(&id(1), "job", &folder, Runtime::Docker);
        house.write(&id(1), &[weight(40)]).await;
        let ours = house.ledger(&id(1)).known();
        assert!(!ours.contains(&weight(300)), "{status}: {ours:?}");
        house.look_for_drift();
        house.settle().await;
        let hold = house.ledger(&id(1)).hold(node::now(), false);
        assert!(matches!(hold, Some(Hold::Foreign(_))), "{status}: {hold:?}");
        assert_eq!(folder.text("cpu.weight"), "300");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_wrong_with_a_log_is_no_longer_said_when_it_is_well() {
    let mut house = House::new(None);
    house.add(&id(1), "job", &Folder::new(), Runtime::Scope);
    let texts = |house: &House| -> Vec<String> {
        house.governing.jobs[&id(1)].notices.iter().map(|notice| notice.text.clone()).collect()
    };
    for (problem, said) in [(Some("does not exist yet"), 1), (Some("is a directory"), 1), (None, 0)] {
        house.governing.handle(Event::LogHealth(id(1), problem.map(str::to_owned)));
        assert_eq!(texts(&house).len(), said, "{problem:?}");
        assert!(texts(&house).first().map(String::as_str) == problem);
    }
}

async fn flood(events: &mpsc::Sender<Event>) {
    for _ in 0..3 * super::EVENTS_AT_MOST {
        events.send(Event::Written(Vec::new())).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loop_hears_everybody_while_it_restores_and_stops_on_an_engine_that_never_answers() {
    let folders = [Folder::new(), Folder::new()];
    let engine = Obedient::of(&[(1, &folders[0]), (2, &folders[1])]);
    let mut house = House::new(Some(&engine.engine));
    for (number, folder) in [(1, &folders[0]), (2, &folders[1])] {
        house.add(&id(number), &format!("job-{number}"), folder, Runtime::Docker);
        house.write(&id(number), &[weight(40)]).await;
    }
    engine.is_now(HANGS);
    let House { mut governing, mut inbox, events, .. } = house;
    let status = governing.publisher.feed().status;
    let (mut asked, requests) = nothing_asked();
    let (control, mut told) = mpsc::channel(1);
    let running = tokio::spawn(async move { governing.run(&mut inbox, &mut asked, &mut told, None).await });
    let (reply, answer) = oneshot::channel();
    requests.send(Request { command: Command::Restore, asked_by: "a test".to_owned(), reply }).await.ok().unwrap();
    timeout(Duration::from_secs(30), flood(&events)).await.expect("the loop hears what is told during a restore");
    let told = refused(timeout(Duration::from_secs(60), answer).await.expect("an answer in time").unwrap());
    assert!(told.contains("longer than 8 s"), "before the API gives up, after ten seconds: {told}");
    assert!(told.contains("job-1") && told.contains("job-2") && told.contains("released"), "{told}");

    control.send(Control::Stop).await.unwrap();
    timeout(Duration::from_secs(30), flood(&events)).await.expect("the loop hears what is told during the stop");
    assert!(status.borrow().paused);
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_ends_ends_the_daemon_with_an_error() {
    let House { mut governing, mut inbox, .. } = House::new(None);
    let (mut asked, _requests) = nothing_asked();
    let (_control, mut told) = mpsc::channel(1);
    governing.actuator.pulse.beat_at(Instant::now().checked_sub(Duration::from_secs(181)).unwrap());
    let ended = timeout(Duration::from_secs(5), governing.run(&mut inbox, &mut asked, &mut told, None)).await.unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("the actuator") && why.contains("has not answered for 181 s"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_before_the_next_look_is_in_a_snapshot_all_the_same() {
    let mut house = House::new(None);
    let status = house.governing.publisher.feed().status;
    let folder = Folder::new();
    house.add(&id(1), "short", &folder, Runtime::Scope);
    assert!(status.borrow().jobs.is_empty());
    house.governing.end(&id(1), Some(0));
    assert_eq!(status.borrow().jobs.iter().map(|job| job.observed.name.as_str()).collect::<Vec<_>>(), ["short"]);
}
