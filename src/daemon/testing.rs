//! Helpers of the daemon's tests: an engine with scripted replies, jobs whose cgroups are folders, and a loop around them.

use super::actuator::Actuator;
use super::claims::ClaimReader;
use super::event::Event;
use super::executor::Executor;
use super::governing::{EngineLink, Governing, Requests, moment};
use super::gpus::Gpus;
use super::history::History;
use super::job::Job;
use super::journal::Journal;
use super::logs::LogReader;
use super::publish::Publisher;
use super::pulse::Pulse;
use super::target::Target;
use super::writer::{Connected, Writer};
use api::{Command, Refusal, Request};
use cgroup::Cgroup;
use config::{EngineChoice, HistorySettings, Settings};
use docker::{ApiVersion, Conversion, Engine, EngineAddress, EngineInfo, EngineName};
use limits::machine::{self, At};
use limits::{Journalled, Ledger};
use model::{Bytes, ContainerId, CpuWeight, EngineMark, Limits, Millis, Runtime, Setting};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use store::Original;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot, watch};

pub(super) fn weight(number: u32) -> Setting {
    Setting::CpuWeight(CpuWeight::clamped(f64::from(number)))
}

pub(super) fn low(mib: u64) -> Setting {
    Setting::MemoryLow(Bytes(mib << 20))
}

/// An id of 64 hexadecimal digits, as engines have.
pub(super) fn id(number: u8) -> ContainerId {
    ContainerId::new(&format!("{number:02x}").repeat(32))
}

/// The only version that the engine speaks.
const API: ApiVersion = ApiVersion(1, 48);

/// Reply of the engine to `METHOD /path`, without the version, with a body; `None`: it never replies.
type EngineReply = dyn Fn(&str, &str) -> Option<(u16, String)> + Send + Sync;

/// An engine at its own socket.
pub(super) struct FakeEngine {
    dir: TempDir,
    pub requests: Arc<Mutex<Vec<String>>>,
}

impl FakeEngine {
    pub(crate) fn start(answer: impl Fn(&str, &str) -> Option<(u16, String)> + Send + Sync + 'static) -> FakeEngine {
        let dir = TempDir::new().unwrap();
        let listener = UnixListener::bind(dir.path().join("engine.sock")).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, received): (Arc<EngineReply>, _) = (Arc::new(answer), requests.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, received) = (answer.clone(), received.clone());
                tokio::spawn(async move {
                    let (line, body) = request(&mut stream).await;
                    let reply = match line.as_str() {
                        "GET /version" => Some((200, format!(r#"{{"Version":"28.0","ApiVersion":"{API}"}}"#))),
                        _ => {
                            let line = line.replacen(&format!("/v{API}/"), "/", 1);
                            received.lock().unwrap().push(format!("{line} {body}"));
                            answer(&line, &body)
                        }
                    };
                    let Some((status, text)) = reply else { return std::future::pending().await };
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close");
                    let whole = format!("{head}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
                    let _ = stream.write_all(whole.as_bytes()).await;
                });
            }
        });
        FakeEngine { dir, requests }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("engine.sock")
    }

    pub(crate) fn engine(&self) -> Engine {
        Engine::new(EngineAddress::parse(self.socket().to_str().unwrap()).unwrap())
    }

    /// Returns a writer that is connected to this engine.
    pub(crate) fn writer(&self) -> Writer {
        let connected = Connected::default();
        let mark = EngineMark { socket: self.socket().display().to_string(), ..info().mark };
        *connected.lock().unwrap() = Some(EngineInfo { mark, ..info() });
        Writer::new(Some(self.engine()), connected)
    }
}

async fn request(stream: &mut tokio::net::UnixStream) -> (String, String) {
    let (mut read, mut buffer) = (Vec::new(), vec![0; 4096]);
    loop {
        let length = stream.read(&mut buffer).await.unwrap_or(0);
        read.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if length == 0 {
                return Default::default();
            }
            continue;
        };
        let lower = head.to_lowercase();
        let wanted =
            lower.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        if body.len() >= wanted || length == 0 {
            let line = head.lines().next().unwrap_or("").trim_end_matches(" HTTP/1.1").to_owned();
            return (line, body.to_owned());
        }
    }
}

/// A cgroup v2 host with runc older than 1.3.2.
pub(super) fn info() -> EngineInfo {
    EngineInfo {
        name: EngineName::Docker,
        version: "28.0".to_owned(),
        api: API,
        cgroup_driver: "cgroupfs".to_owned(),
        cgroup_version: 2,
        runtime: None,
        log_driver: "json-file".to_owned(),
        live_restore: false,
        rootless: false,
        mark: EngineMark { id: Some("this".to_owned()), socket: "/this.sock".to_owned() },
        conversion: Conversion::Linear,
    }
}

/// A cgroup v2 made of files.
pub(super) struct FakeCgroup(pub TempDir);

impl FakeCgroup {
    /// Creates one with weight 100 and 8 MiB of protected memory.
    pub(crate) fn new() -> FakeCgroup {
        FakeCgroup::of(TempDir::new().unwrap())
    }

    /// Creates such a one below a user's systemd.
    pub(crate) fn of_a_user() -> FakeCgroup {
        FakeCgroup::of(tempfile::Builder::new().prefix("user@").tempdir().unwrap())
    }

    fn of(folder: TempDir) -> FakeCgroup {
        let folder = FakeCgroup(folder);
        for (file, text) in [("cpu.weight", "100\n"), ("memory.low", "8388608\n"), ("cgroup.events", "populated 1\n")] {
            folder.put(file, text);
        }
        folder
    }

    pub(crate) fn put(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(file), text).unwrap();
    }

    pub(crate) fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.path().join(file)).unwrap().trim().to_owned()
    }

    pub(crate) fn target(&self, id: ContainerId, name: &str, runtime: Runtime) -> Target {
        Target::new(id, name.to_owned(), runtime, Cgroup::of_folder(self.0.path()))
    }
}

/// Returns an executor with a new journal and a writer that is connected to this engine.
pub(super) fn executor(engine: &FakeEngine) -> (TempDir, Executor) {
    let dir = TempDir::new().unwrap();
    let (journal, _) = Journal::open(dir.path()).unwrap();
    (dir, Executor { journal, writer: engine.writer(), pulse: Pulse::default() })
}

/// Returns the journal's row for a target whose limits have not been changed yet.
pub(super) fn original(target: &Target) -> Original {
    let original = target.cgroup().limits();
    super::journal::original_of(target, &Journalled { original, engine: None })
}

/// The loop, optionally with an engine, and its inbox.
pub(super) struct TestDaemon {
    pub governing: Governing,
    pub inbox: mpsc::Receiver<Event>,
    pub events: mpsc::Sender<Event>,
    pub state: TempDir,
}

impl TestDaemon {
    pub(crate) fn new(engine: Option<&FakeEngine>) -> TestDaemon {
        TestDaemon::start(engine, false)
    }

    /// Without an engine.
    pub(crate) fn with_history() -> TestDaemon {
        TestDaemon::start(None, true)
    }

    fn start(engine: Option<&FakeEngine>, keeps_history: bool) -> TestDaemon {
        let state = TempDir::new().unwrap();
        let settings = Settings {
            state_dir: state.path().to_owned(),
            engine: EngineChoice::Off,
            scopes: false,
            history: HistorySettings { enabled: keeps_history, ..HistorySettings::default() },
            ..Settings::default()
        };
        let (journal, remembered) = Journal::open(state.path()).unwrap();
        let (events, inbox) = mpsc::channel(super::EVENTS_AT_MOST);
        let (commands, _) = mpsc::channel(1);
        let (recordings, _) = mpsc::channel(1);
        let (history_queries, history_requests) = mpsc::channel(1);
        let engine = engine.map(FakeEngine::engine);
        let (watched, _) = watch::channel(BTreeSet::new());
        let engine_link = EngineLink { engine: engine.clone(), events: events.clone(), watched };
        let (actuator, _) = Actuator::start(journal, engine.clone(), events.clone());
        if engine.is_some() {
            actuator.connected(info());
        }
        let logs = LogReader::start(engine);
        let history = History::start(&settings, events.clone(), history_requests);
        let publisher = Publisher::new(commands, recordings, history_queries, history);
        let reader = ClaimReader::new(events.clone());
        let same = settings.clone();
        let reread = Box::new(move || Ok(same.clone()));
        let gpus = Gpus::start(None, engine_link.events.clone());
        let governing =
            Governing::new(settings, reread, remembered, actuator, (logs, reader, gpus), engine_link, publisher);
        TestDaemon { governing, inbox, events, state }
    }

    /// Begins to govern a job whose cgroup is this folder.
    pub(crate) fn add(&mut self, id: &ContainerId, name: &str, folder: &FakeCgroup, runtime: Runtime) {
        let mut target = folder.target(id.clone(), name, runtime);
        target.started_unix_ms = u64::MAX; // after the daemon
        let job = Job::new(target, None, &BTreeMap::new());
        self.governing.begin(Ok((job, None)), id);
    }

    /// Writes these settings as if they had been decided.
    pub(crate) async fn write(&mut self, id: &ContainerId, settings: &[Setting]) {
        let changes = settings.iter().map(|to| {
            let from = self.ledger(id).current().get(to.kind()).unwrap();
            model::LimitChange { id: id.clone(), from, to: *to }
        });
        let changes = changes.collect();
        self.governing.handle_limits(machine::Event::Decided(changes));
        self.settle().await;
    }

    /// Handles events until nothing is in flight.
    pub(crate) async fn settle(&mut self) {
        while !self.governing.limits.is_at_rest() {
            let event = self.inbox.recv().await.unwrap();
            self.governing.handle(event);
        }
    }

    /// Sends a command and handles events until there is a reply.
    pub(crate) async fn ask(&mut self, command: Command) -> Result<String, Refusal> {
        let (reply, mut answer) = oneshot::channel();
        self.governing.handle_request(Request { command, requested_by: "a test".to_owned(), reply });
        loop {
            tokio::select! {
                answer = &mut answer => return answer.unwrap(),
                Some(event) = self.inbox.recv() => self.governing.handle(event),
            }
        }
    }

    pub(crate) fn ledger(&self, id: &ContainerId) -> &Ledger {
        self.governing.limits.ledger(id).unwrap()
    }

    pub(crate) fn original(&self, id: &ContainerId) -> Limits {
        *self.ledger(id).original()
    }

    /// Lets the machine of limits look, at this time from now.
    pub(crate) fn look(&mut self, later: Millis) {
        let at = moment();
        self.governing.handle_limits_at(machine::Event::TimePassed, At { now: at.now.after(later), ..at });
    }

    /// Reads the current limits and checks them for drift, as a tick does.
    pub(crate) fn look_for_drift(&mut self) {
        self.governing.look_for_drift();
    }
}

/// Returns client requests without senders other than the one returned.
pub(super) fn client_requests() -> (Requests, mpsc::Sender<Request<Command>>) {
    let (sender, requests) = mpsc::channel(4);
    let (_, recorders) = mpsc::channel(1);
    (Requests { requests, recorders }, sender)
}
