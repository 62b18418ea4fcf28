//! The watcher on engines whose sockets come and go, and calls to a slow one.

use super::{Wanted, watch};
use crate::{Conversion, Engine, EngineAddress, EngineError, EngineEvent, EngineName};
use model::{ContainerId, CpuWeight, EngineLimits, Setting};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

const ID: &str = "449e1d56655b86cfb98f8a89e3609ecfab2019fc1609fbc25ceea3c54f9cbd3c";
const OTHER_ID: &str = "addb68f853682d870631ee2eb0443118099f93c685592c6cad081bcddbe9f8ab";

/// What an engine answers.
#[derive(Clone)]
struct Answers {
    id: &'static str,
    /// Its list of adopted containers.
    existing: String,
    /// Its list of labelled containers.
    labelled: String,
    /// The description of any container; `ID` stands for the requested one.
    inspected: String,
    /// Time until each answer.
    delay: Duration,
    /// Whether [`ID`] cannot be inspected, because it hangs.
    hangs: Arc<AtomicBool>,
}

impl Answers {
    /// Without containers.
    fn of(id: &'static str) -> Answers {
        let (existing, labelled, inspected) = ("[]".to_owned(), "[]".to_owned(), "{}".to_owned());
        Answers { id, existing, labelled, inspected, delay: Duration::ZERO, hangs: Arc::default() }
    }
}

/// An entry of an engine's list.
fn row(id: &str, state: &str) -> String {
    format!(r#"{{"Id":"{id}","Names":["/job"],"State":"{state}"}}"#)
}

/// Describes every container as one in this state.
fn in_state(state: &str) -> Answers {
    Answers { inspected: format!(r#"{{"Id":"ID","Name":"/job","State":{state}}}"#), ..Answers::of("one") }
}

/// An engine, until it is dropped.
struct FakeEngine {
    socket: PathBuf,
    accepting: JoinHandle<()>,
}

impl FakeEngine {
    fn start(socket: &Path, answers: Answers) -> FakeEngine {
        let listener = UnixListener::bind(socket).unwrap();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answer(stream, answers.clone()));
            }
        });
        FakeEngine { socket: socket.to_owned(), accepting }
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = std::fs::remove_file(&self.socket); // its directory may be gone
    }
}

async fn answer(mut stream: UnixStream, answers: Answers) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    sleep(answers.delay).await;
    let body = match head.split_whitespace().nth(1).unwrap_or("") {
        path if path.ends_with("/version") => r#"{"Version":"28.0","ApiVersion":"1.48"}"#.to_owned(),
        path if path.ends_with("/info") => format!(r#"{{"ID":"{}"}}"#, answers.id),
        path if path.contains("/events?") => {
            let endless = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
            let _ = stream.write_all(endless.as_bytes()).await; // the watcher may be gone
            return std::future::pending().await;
        }
        path if path.contains("all=true") => answers.existing,
        path if path.contains("/containers/json") => answers.labelled,
        path => {
            let requested = path.split('/').find(|part| part.len() == ID.len()).unwrap_or("");
            while requested == ID && answers.hangs.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(20)).await;
            }
            answers.inspected.replace("ID", requested)
        }
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

/// A client whose first candidate is `first.sock` and whose second is `second.sock`, in a directory.
fn client(dir: &TempDir) -> (Engine, PathBuf, PathBuf) {
    let (first, second) = (dir.path().join("first.sock"), dir.path().join("second.sock"));
    (Engine::new(EngineAddress::of_sockets(vec![first.clone(), second.clone()])), first, second)
}

/// An engine with these answers, and a client that waits for each of them only so long.
fn impatient_client(dir: &TempDir, time_limit: Duration, answers: Answers) -> (Engine, FakeEngine) {
    let (mut engine, socket, _) = client(dir);
    engine.time_limit = time_limit;
    (engine, FakeEngine::start(&socket, answers))
}

fn slow_engine(dir: &TempDir) -> (Engine, FakeEngine) {
    let answers = Answers { delay: Duration::from_millis(500), ..Answers::of("slow") };
    impatient_client(dir, Duration::from_millis(200), answers)
}

/// The events of a watcher of labelled containers.
fn watched(engine: Engine) -> mpsc::Receiver<EngineEvent> {
    let (sender, events) = mpsc::channel(16);
    tokio::spawn(watch(engine, Wanted::labelled("flowcon.enable=true"), sender));
    events
}

async fn next(events: &mut mpsc::Receiver<EngineEvent>) -> EngineEvent {
    timeout(Duration::from_secs(60), events.recv()).await.expect("an event in time").expect("the watcher never ends")
}

async fn connected(events: &mut mpsc::Receiver<EngineEvent>) -> Option<String> {
    match next(events).await {
        EngineEvent::Connected(info) => info.mark.id,
        other => panic!("{other:?}"),
    }
}

async fn lost(events: &mut mpsc::Receiver<EngineEvent>) {
    let event = next(events).await;
    assert!(matches!(event, EngineEvent::Lost(_)), "{event:?}");
}

#[tokio::test]
async fn all_calls_go_to_the_engine_of_the_connection_even_if_the_socket_of_another_appears() {
    let dir = TempDir::new().unwrap();
    let (engine, first, second) = client(&dir);
    let two = FakeEngine::start(&second, Answers::of("two"));
    let mut events = watched(engine.clone());
    assert_eq!(connected(&mut events).await.as_deref(), Some("two"));
    assert_eq!(next(&mut events).await, EngineEvent::Listed(Vec::new()));

    let _one = FakeEngine::start(&first, Answers::of("one"));
    assert_eq!(engine.info().await.unwrap().mark.id.as_deref(), Some("two"));
    assert_eq!(engine.socket(), second);

    drop(two);
    lost(&mut events).await;
    assert_eq!(connected(&mut events).await.as_deref(), Some("one"));
    assert_eq!(engine.info().await.unwrap().mark.id.as_deref(), Some("one"));
}

#[tokio::test]
async fn an_adopted_container_of_an_engine_that_is_gone_is_not_reported_as_removed_by_another() {
    let dir = TempDir::new().unwrap();
    let (engine, first, second) = client(&dir);
    let existing = format!("[{}]", row(ID, "exited"));
    let one = FakeEngine::start(&first, Answers { existing, ..Answers::of("one") });
    let (sender, mut events) = mpsc::channel(16);
    let (_adoptions, adopted) = tokio::sync::watch::channel(BTreeSet::from([ContainerId::new(ID)]));
    tokio::spawn(watch(engine, Wanted { label: "flowcon.enable=true".to_owned(), adopted }, sender));
    assert_eq!(connected(&mut events).await.as_deref(), Some("one"));
    assert_eq!(next(&mut events).await, EngineEvent::Listed(Vec::new()));

    drop(one);
    let two = FakeEngine::start(&second, Answers::of("two"));
    lost(&mut events).await;
    assert_eq!(connected(&mut events).await.as_deref(), Some("two"));
    assert_eq!(next(&mut events).await, EngineEvent::Listed(Vec::new()), "not Removed");

    drop(two);
    let _one = FakeEngine::start(&first, Answers::of("one"));
    lost(&mut events).await;
    assert_eq!(connected(&mut events).await.as_deref(), Some("one"));
    assert_eq!(next(&mut events).await, EngineEvent::Removed(ContainerId::new(ID)), "its own engine does not have it");
}

/// An engine's answers while its container runs, and after this has ended with code 3.
fn before_and_after_an_end() -> (Answers, Answers) {
    let labelled = format!("[{}]", row(ID, "running"));
    let runs = Answers { labelled, ..in_state(r#"{"Running":true,"Pid":4194304}"#) };
    (runs, in_state(r#"{"Running":false,"Pid":0,"ExitCode":3}"#))
}

#[tokio::test]
async fn the_exit_code_of_a_container_that_ended_between_two_connections_is_asked_for() {
    let dir = TempDir::new().unwrap();
    let (engine, socket, _) = client(&dir);
    let (runs, has_ended) = before_and_after_an_end();
    let before = FakeEngine::start(&socket, runs);
    let mut events = watched(engine);
    connected(&mut events).await;
    assert!(matches!(next(&mut events).await, EngineEvent::Listed(found) if found.len() == 1));

    drop(before);
    let _after = FakeEngine::start(&socket, has_ended);
    lost(&mut events).await;
    connected(&mut events).await;
    assert_eq!(next(&mut events).await, EngineEvent::Ended(ContainerId::new(ID), Some(3)));
    assert_eq!(next(&mut events).await, EngineEvent::Listed(Vec::new()));
}

#[tokio::test]
async fn a_container_that_hangs_does_not_hide_the_others() {
    let dir = TempDir::new().unwrap();
    let hangs = Arc::new(AtomicBool::new(true));
    let labelled = format!("[{},{}]", row(ID, "running"), row(OTHER_ID, "running"));
    let (one_runs, _) = before_and_after_an_end();
    let answers = Answers { labelled, hangs: hangs.clone(), ..one_runs };
    let (engine, _engine) = impatient_client(&dir, Duration::from_secs(1), answers);
    let mut events = watched(engine);
    connected(&mut events).await;
    lost(&mut events).await;
    connected(&mut events).await;
    let hung = ContainerId::new(ID);
    assert!(matches!(next(&mut events).await, EngineEvent::Unreadable(id, why) if id == hung && why.contains("hangs")));
    let EngineEvent::Listed(found) = next(&mut events).await else { panic!("not listed") };
    assert_eq!(found.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), [OTHER_ID]);

    hangs.store(false, Ordering::Relaxed);
    assert_eq!(next(&mut events).await, EngineEvent::Readable(hung.clone()));
    assert!(matches!(next(&mut events).await, EngineEvent::Started(found) if found.id == hung));
    assert!(matches!(next(&mut events).await, EngineEvent::Listed(found) if found.len() == 2));
}

#[tokio::test]
async fn the_exit_code_of_a_container_that_hangs_is_reported_once_the_engine_answers() {
    let dir = TempDir::new().unwrap();
    let (runs, has_ended) = before_and_after_an_end();
    let (engine, before) = impatient_client(&dir, Duration::from_secs(1), runs);
    let (socket, hangs) = (engine.socket(), has_ended.hangs.clone());
    let mut events = watched(engine);
    connected(&mut events).await;
    assert!(matches!(next(&mut events).await, EngineEvent::Listed(found) if found.len() == 1));

    drop(before);
    hangs.store(true, Ordering::Relaxed);
    let _after = FakeEngine::start(&socket, has_ended);
    for _ in 0..2 {
        lost(&mut events).await;
        connected(&mut events).await;
    }
    let hung = ContainerId::new(ID);
    assert!(matches!(next(&mut events).await, EngineEvent::Unreadable(id, _) if id == hung));
    assert!(matches!(next(&mut events).await, EngineEvent::Listed(found) if found.len() == 1), "as last described");

    hangs.store(false, Ordering::Relaxed);
    assert_eq!(next(&mut events).await, EngineEvent::Ended(hung.clone(), Some(3)));
    assert_eq!(next(&mut events).await, EngineEvent::Readable(hung));
    assert_eq!(next(&mut events).await, EngineEvent::Listed(Vec::new()));
}

#[tokio::test]
async fn the_time_limit_grows_until_a_slow_engine_meets_it() {
    let dir = TempDir::new().unwrap();
    let (engine, _slow) = slow_engine(&dir);
    let mut events = watched(engine.clone());
    lost(&mut events).await;
    assert_eq!(connected(&mut events).await.as_deref(), Some("slow"));
    assert_eq!(next(&mut events).await, EngineEvent::Listed(Vec::new()));
    let of_others = engine.inspect(&ContainerId::new(ID), EngineName::Docker).await.unwrap_err();
    assert!(matches!(of_others, EngineError::Timeout { limit, .. } if limit == engine.time_limit), "{of_others}");
}

#[tokio::test]
async fn an_update_that_takes_longer_than_its_time_limit_succeeds_when_it_is_repeated() {
    let dir = TempDir::new().unwrap();
    let (engine, _slow) = slow_engine(&dir);
    // As the daemon's client, whose watcher has all the time it needs.
    let mut patient = engine.clone();
    patient.time_limit = Duration::from_secs(60);
    patient.info().await.unwrap();
    let (id, original) = (ContainerId::new(ID), EngineLimits::default());
    let weight = [Setting::CpuWeight(CpuWeight::DEFAULT)];
    let update = || engine.update(&id, EngineName::Docker, &original, Conversion::Shares, &weight);
    assert!(matches!(update().await.unwrap_err(), EngineError::Timeout { .. }));
    while let Err(error) = update().await {
        assert!(matches!(error, EngineError::Timeout { .. }), "{error}");
    }
}
