//! Reading logs beside the loop: files on one thread, the logs API in a task per container.
//!
//! What arrives at the loop are the job's own bytes with the place to go on from, so that place and tracker are saved together.

use super::event::{Event, Part};
use super::governing::Governing;
use super::journal::file_place;
use crate::host::docker::{Engine, LogFormat, LogMark, LogPosition, logs as engine_logs};
use crate::host::node;
use crate::host::store::{ApiMark, LogPlace};
use crate::host::tail::{Budget, JsonLog, Source, Start, Tailer};
use crate::model::{ContainerId, LogOrigin};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// How often logs are asked how they are.
const HEALTH_EVERY: Duration = Duration::from_secs(2);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(30);

/// Bytes that a job wrote.
#[derive(Debug)]
pub(super) struct LogChunk {
    pub id: ContainerId,
    pub bytes: Vec<u8>,
    /// Where to go on after these bytes.
    pub place: Option<LogPlace>,
}

impl Governing {
    /// Takes what jobs wrote.
    pub(super) fn logs_told(&mut self, chunks: Vec<LogChunk>) {
        let now = node::now();
        for chunk in chunks {
            let Some(job) = self.job_that_wrote(&chunk.id) else { continue };
            job.tracker.push(&chunk.bytes, now);
            job.place = chunk.place.or(job.place);
            job.unsaved_since.get_or_insert(now);
        }
    }
}

/// What to read for a container.
#[derive(Debug)]
pub(super) enum LogFeed {
    /// The engine's json-file.
    JsonFile(std::path::PathBuf),
    /// Plain bytes: a command's output, or the file that `flowcon.log` names.
    Plain(Source),
    /// The engine's logs API.
    Api(LogFormat),
}

enum Order {
    Follow { id: ContainerId, source: Source, json: bool, start: Start },
    Unfollow(ContainerId),
}

/// The loop's handle on everything that reads logs.
pub(super) struct LogReader {
    files: std_mpsc::Sender<Order>,
    engine: Option<Engine>,
    streams: BTreeMap<ContainerId, AbortHandle>,
    events: mpsc::Sender<Event>,
}

impl LogReader {
    pub fn start(engine: Option<Engine>, events: mpsc::Sender<Event>) -> LogReader {
        let (files, orders) = std_mpsc::channel();
        let told = events.clone();
        let tailing = move || {
            Tailing {
                tailer: Tailer::new(Budget::default()),
                decoders: BTreeMap::new(),
                events: told,
                said: BTreeMap::new(),
                said_of_watch: None,
            }
            .run(&orders);
        };
        if let Err(error) = thread::Builder::new().name("logs".to_owned()).spawn(tailing) {
            tracing::error!(%error, "no thread for the logs: no log file is read until the daemon is restarted");
        }
        LogReader { files, engine, streams: BTreeMap::new(), events }
    }

    /// Reads a container's log from `place` on, or from its beginning.
    pub fn follow(&mut self, id: &ContainerId, feed: LogFeed, place: Option<LogPlace>) {
        self.unfollow(id);
        let start = match place {
            Some(LogPlace::File { device, inode, offset }) => {
                Start::At(crate::host::tail::Position { device, inode, offset })
            }
            _ => Start::Beginning,
        };
        match feed {
            LogFeed::JsonFile(path) => {
                self.order(Order::Follow { id: id.clone(), source: Source::Host(path), json: true, start })
            }
            LogFeed::Plain(source) => self.order(Order::Follow { id: id.clone(), source, json: false, start }),
            LogFeed::Api(format) => self.stream(id, format, place),
        }
    }

    /// Where whoever may can read the same log again; of an output that was handed over its owner says it. `pid`: a process of the container.
    pub fn origin(&self, feed: &LogFeed, pid: u32) -> Option<LogOrigin> {
        match feed {
            LogFeed::JsonFile(path) | LogFeed::Plain(Source::Host(path)) => Some(LogOrigin::File(path.clone())),
            LogFeed::Plain(Source::Inside(file)) => Some(LogOrigin::Inside { pid, path: file.path().to_owned() }),
            LogFeed::Plain(Source::Handed(_)) => None,
            LogFeed::Api(_) => {
                self.engine.as_ref().map(|engine| LogOrigin::Engine(engine.address().socket().to_owned()))
            }
        }
    }

    pub fn unfollow(&mut self, id: &ContainerId) {
        if let Some(stream) = self.streams.remove(id) {
            stream.abort();
        }
        self.order(Order::Unfollow(id.clone()));
    }

    fn order(&self, order: Order) {
        if self.files.send(order).is_err() {
            tracing::debug!("the thread that reads logs is gone");
        }
    }

    fn stream(&mut self, id: &ContainerId, format: LogFormat, place: Option<LogPlace>) {
        let Some(engine) = self.engine.clone() else { return };
        let from = match place {
            Some(LogPlace::Api { output, error }) => LogPosition { output: mark(output), error: mark(error) },
            _ => LogPosition::default(),
        };
        let following = follow_api(engine, id.clone(), format, from, self.events.clone());
        self.streams.insert(id.clone(), tokio::spawn(following).abort_handle());
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.streams.values().for_each(AbortHandle::abort);
    }
}

fn mark(stored: ApiMark) -> LogMark {
    LogMark { unix_ns: stored.unix_ns, messages: stored.messages }
}

fn stored(mark: LogMark) -> ApiMark {
    ApiMark { unix_ns: mark.unix_ns, messages: mark.messages }
}

/// Follows one container's output until it ends; goes on after a broken connection.
async fn follow_api(
    engine: Engine,
    id: ContainerId,
    format: LogFormat,
    mut from: LogPosition,
    events: mpsc::Sender<Event>,
) {
    let mut wait = RETRY_FIRST;
    loop {
        let mut pieces = Box::pin(engine_logs(&engine, &id, format, from));
        let error = loop {
            match pieces.next().await {
                None => return,
                Some(Err(error)) => break error,
                Some(Ok(piece)) => {
                    from = piece.position;
                    wait = RETRY_FIRST;
                    let place = Some(LogPlace::Api { output: stored(from.output), error: stored(from.error) });
                    let chunk = LogChunk { id: id.clone(), bytes: piece.bytes, place };
                    if events.send(Event::Logs(vec![chunk])).await.is_err() {
                        return;
                    }
                }
            }
        };
        if error.is_gone() {
            return;
        }
        if wait == RETRY_FIRST {
            tracing::debug!(%id, %error, "the log stream broke; following again");
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MOST);
    }
}

/// The thread's side.
struct Tailing {
    tailer: Tailer,
    /// Only for logs in the engine's JSON format.
    decoders: BTreeMap<ContainerId, Option<JsonLog>>,
    events: mpsc::Sender<Event>,
    /// The problem that was last told for a container.
    said: BTreeMap<ContainerId, String>,
    /// The problem with watching that was last told.
    said_of_watch: Option<String>,
}

impl Tailing {
    fn run(mut self, orders: &std_mpsc::Receiver<Order>) {
        let mut health_due = Instant::now();
        loop {
            let rest = self.read();
            if Instant::now() >= health_due {
                health_due = Instant::now() + HEALTH_EVERY;
                self.tell_health();
            }
            if self.events.is_closed() {
                return;
            }
            match orders.recv_timeout(rest) {
                Ok(order) => self.obey(order),
                Err(std_mpsc::RecvTimeoutError::Timeout) => {}
                Err(std_mpsc::RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(order) = orders.try_recv() {
                self.obey(order);
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Follow { id, source, json, start } => {
                self.decoders.insert(id.clone(), json.then(JsonLog::default));
                self.tailer.follow(id, source, start);
            }
            Order::Unfollow(id) => {
                self.tailer.unfollow(&id);
                self.decoders.remove(&id);
                self.said.remove(&id);
            }
        }
    }

    fn read(&mut self) -> Duration {
        let mut read: BTreeMap<ContainerId, Vec<u8>> = BTreeMap::new();
        let decoders = &mut self.decoders;
        let rest = self.tailer.poll(&mut |id, bytes| {
            let out = read.entry(id.clone()).or_default();
            match decoders.get_mut(id) {
                Some(Some(decoder)) => decoder.push(bytes, out),
                _ => out.extend_from_slice(bytes),
            }
        });
        if !read.is_empty() {
            let place = |id: &ContainerId| self.tailer.position(id).map(file_place);
            let chunks = read.into_iter().map(|(id, bytes)| LogChunk { place: place(&id), id, bytes }).collect();
            // Blocks while the loop is behind: reading waits, nothing is lost. Closed: the next turn ends.
            let _ = self.events.blocking_send(Event::Logs(chunks));
        }
        rest
    }

    fn tell_health(&mut self) {
        for id in self.decoders.keys() {
            let health = self.tailer.health(id);
            let problem = health.and_then(|health| match (&health.problem, health.skipped) {
                (Some(problem), _) => Some(problem.to_string()),
                (None, 0) => None,
                (None, _) => Some("its log grows faster than it is worth reading: parts of it were skipped".to_owned()),
            });
            if self.said.get(id) != problem.as_ref() {
                match &problem {
                    Some(text) => self.said.insert(id.clone(), text.clone()),
                    None => self.said.remove(id),
                };
                let _ = self.events.blocking_send(Event::LogHealth(id.clone(), problem));
            }
        }
        let problem = self.tailer.watch_problem();
        if self.said_of_watch.as_deref() != problem {
            self.said_of_watch = problem.map(str::to_owned);
            let _ = self.events.blocking_send(Event::Health(Part::Watch, self.said_of_watch.clone()));
        }
    }
}
