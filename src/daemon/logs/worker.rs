//! A thread that reads log files and hands on what is new, until it is told to end or is retired.
//!
//! It tells which log it touches, and keeps where the bytes that it sent came from: whoever retires it goes on there.

use super::feed::GROWS_TOO_FAST;
use crate::daemon::event::{Event, LogChunk, Part};
use crate::daemon::journal::file_place;
use crate::host::tail::{Budget, JsonLog, Position, Source, Start, Tailer, Touch};
use crate::model::ContainerId;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often logs are asked how they are.
const HEALTH_EVERY: Duration = Duration::from_secs(2);
/// Bytes after which what was read goes to the loop: so it has something else to do in between.
const TOGETHER: usize = 64 << 10;

/// A log to follow. `serial`: of this following, for the same log may be followed anew.
pub(super) struct Follow {
    pub id: ContainerId,
    pub serial: u64,
    pub source: Source,
    pub json: bool,
    pub start: Start,
}

enum Order {
    Follow(Follow),
    Unfollow(ContainerId),
}

/// Of which following, and how far its bytes were sent; `None` = nothing was opened yet.
pub(super) type Places = BTreeMap<ContainerId, (u64, Option<Position>)>;

/// What thread and handle share.
#[derive(Default)]
struct Sent {
    /// The thread may not send anything any more.
    retired: bool,
    /// Of the logs that have answered.
    places: Places,
}

/// The handle on a thread. Dropping it ends the thread, as soon as it is not held.
pub(super) struct Worker {
    orders: std_mpsc::Sender<Order>,
    touch: Arc<Touch>,
    sent: Arc<Mutex<Sent>>,
    thread: JoinHandle<()>,
}

impl Worker {
    pub fn start(events: mpsc::Sender<Event>) -> io::Result<Worker> {
        let (orders, inbox) = std_mpsc::channel();
        let tailer = Tailer::new(Budget::default());
        let (touch, sent) = (tailer.touch(), Arc::default());
        let reading = Reading { tailer, logs: BTreeMap::new(), events, sent: Arc::clone(&sent), watch_problem: None };
        let thread = thread::Builder::new().name("logs".to_owned()).spawn(move || reading.run(&inbox))?;
        Ok(Worker { orders, touch, sent, thread })
    }

    pub fn follow(&self, follow: Follow) {
        self.order(Order::Follow(follow));
    }

    pub fn unfollow(&self, id: &ContainerId) {
        self.order(Order::Unfollow(id.clone()));
    }

    fn order(&self, order: Order) {
        if self.orders.send(order).is_err() {
            tracing::debug!("a thread that reads logs is gone");
        }
    }

    /// The log that has held the thread for longer than `patience`.
    pub fn held(&self, patience: Duration) -> Option<ContainerId> {
        self.touch.held(patience)
    }

    /// Whether the log has answered. Not while the thread is sending, which is soon over.
    pub fn has_answered(&self, id: &ContainerId) -> bool {
        self.sent.try_lock().is_ok_and(|sent| sent.places.contains_key(id))
    }

    /// Nothing that it reads from now on is sent: where others go on. `None` while it is sending, or if `still` does not hold.
    pub fn retire(&self, still: impl FnOnce(&Worker) -> bool) -> Option<Places> {
        let mut sent = match self.sent.try_lock() {
            Ok(sent) => sent,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if !still(self) {
            return None;
        }
        sent.retired = true;
        Some(std::mem::take(&mut sent.places))
    }

    /// Its thread, which ends as soon as it is not held.
    pub fn end(self) -> JoinHandle<()> {
        self.thread
    }
}

/// A followed log.
struct Log {
    serial: u64,
    /// Only for logs in the engine's JSON format.
    decoder: Option<JsonLog>,
    /// The problem that was last told.
    problem: Option<String>,
}

/// The thread's side.
struct Reading {
    tailer: Tailer,
    logs: BTreeMap<ContainerId, Log>,
    events: mpsc::Sender<Event>,
    sent: Arc<Mutex<Sent>>,
    /// The problem with watching that was last told.
    watch_problem: Option<String>,
}

impl Reading {
    fn run(mut self, orders: &std_mpsc::Receiver<Order>) {
        let mut health_due = Instant::now();
        while let Some(rest) = self.read() {
            if Instant::now() >= health_due {
                health_due = Instant::now() + HEALTH_EVERY;
                self.tell_health();
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
            Order::Follow(Follow { id, serial, source, json, start }) => {
                let log = Log { serial, decoder: json.then(JsonLog::default), problem: None };
                self.logs.insert(id.clone(), log);
                self.tailer.follow(id, source, start);
            }
            Order::Unfollow(id) => {
                self.tailer.unfollow(&id);
                self.logs.remove(&id);
                self.sent.lock().unwrap_or_else(PoisonError::into_inner).places.remove(&id);
            }
        }
    }

    /// Reads what is new and sends it; after how long to look again. `None` = retired, or the loop has ended.
    fn read(&mut self) -> Option<Duration> {
        let mut read: BTreeMap<ContainerId, Vec<u8>> = BTreeMap::new();
        let logs = &mut self.logs;
        let rest = self.tailer.poll(&mut |id, bytes| {
            let out = read.entry(id.clone()).or_default();
            match logs.get_mut(id).and_then(|log| log.decoder.as_mut()) {
                Some(decoder) => decoder.push(bytes, out),
                None => out.extend_from_slice(bytes),
            }
        });
        // Held while sending, so that what is sent and where to go on are never apart.
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.retired || self.events.is_closed() {
            return None;
        }
        let (mut chunks, mut size) = (Vec::new(), 0);
        for (id, bytes) in read {
            size += bytes.len();
            let place = self.tailer.position(&id).map(file_place);
            let serial = self.logs.get(&id).map_or(0, |log| log.serial);
            chunks.push(LogChunk { place, serial, id, bytes });
            if size >= TOGETHER {
                // Blocks while the loop is behind: reading waits, nothing is lost.
                self.events.blocking_send(Event::Logs(std::mem::take(&mut chunks))).ok()?;
                size = 0;
            }
        }
        if !chunks.is_empty() {
            self.events.blocking_send(Event::Logs(chunks)).ok()?;
        }
        for id in self.tailer.looked() {
            if let Some(log) = self.logs.get(id) {
                sent.places.insert(id.clone(), (log.serial, self.tailer.position(id)));
            }
        }
        Some(rest)
    }

    fn tell_health(&mut self) {
        for (id, log) in &mut self.logs {
            let health = self.tailer.health(id);
            let problem = health.and_then(|health| match (&health.problem, health.skipped) {
                (Some(problem), _) => Some(problem.to_string()),
                (None, 0) => None,
                (None, _) => Some(GROWS_TOO_FAST.to_owned()),
            });
            if log.problem != problem {
                log.problem.clone_from(&problem);
                let _ = self.events.blocking_send(Event::LogHealth(id.clone(), problem)); // closed: the next turn ends
            }
        }
        let problem = self.tailer.watch_problem();
        if self.watch_problem.as_deref() != problem {
            self.watch_problem = problem.map(str::to_owned);
            let _ = self.events.blocking_send(Event::Health(Part::Watch, self.watch_problem.clone()));
        }
    }
}
