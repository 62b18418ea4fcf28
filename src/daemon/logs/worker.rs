//! A thread that reads log files and sends new bytes, until it is told to end or is retired.
//!
//! It publishes which log it touches, and the positions up to which bytes were sent: after it is retired, others continue there.

use super::feed::{GROWS_TOO_FAST, SKIPS_SHOWN_FOR};
use crate::event::{Component, Event, LogChunk};
use crate::journal::file_place;
use model::ContainerId;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tail::{Budget, Health, Position, Source, Start, Tailer, Touch};
use tokio::sync::mpsc;
use traininglog::LogFile;

/// How often the health of logs is checked.
const HEALTH_EVERY: Duration = Duration::from_secs(2);
/// Bytes after which data is sent to the loop, so that the loop can handle other events in between.
const SEND_AFTER: usize = 64 << 10;

/// A log to follow. `serial` identifies the request, because the same log may be followed again.
pub(super) struct Follow {
    pub id: ContainerId,
    pub serial: u64,
    pub source: Source,
    /// Decoder at `start`, for logs that an engine or runtime wraps.
    pub decoder: Option<LogFile>,
    pub start: Start,
}

enum Request {
    Follow(Follow),
    Unfollow(ContainerId),
}

/// Where others continue a log.
pub(super) struct ResumePoint {
    pub serial: u64,
    /// Position up to which bytes were sent; `None` = nothing was opened yet.
    pub position: Option<Position>,
    /// Decoder at that position.
    pub decoder: Option<LogFile>,
}

pub(super) type Places = BTreeMap<ContainerId, ResumePoint>;

/// State shared by thread and handle.
#[derive(Default)]
struct Sent {
    /// The thread must not send anything any more.
    retired: bool,
    /// Positions of the logs that have answered.
    places: Places,
}

/// The handle on a thread. Dropping it ends the thread as soon as it is not blocked.
pub(super) struct Worker {
    requests: std_mpsc::Sender<Request>,
    touch: Arc<Touch>,
    sent: Arc<Mutex<Sent>>,
    thread: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(events: mpsc::Sender<Event>) -> io::Result<Worker> {
        let (requests, inbox) = std_mpsc::channel();
        let tailer = Tailer::new(Budget::default());
        let (touch, sent) = (tailer.touch(), Arc::default());
        let worker = LogThread { tailer, logs: BTreeMap::new(), events, sent: Arc::clone(&sent), watch_problem: None };
        let thread = thread::Builder::new().name("logs".to_owned()).spawn(move || worker.run(&inbox))?;
        Ok(Worker { requests, touch, sent, thread })
    }

    pub(super) fn follow(&self, follow: Follow) {
        self.request(Request::Follow(follow));
    }

    pub(super) fn unfollow(&self, id: &ContainerId) {
        self.request(Request::Unfollow(id.clone()));
    }

    fn request(&self, request: Request) {
        if self.requests.send(request).is_err() {
            tracing::debug!("a thread that reads logs has ended");
        }
    }

    /// Returns the log that has blocked the thread for longer than `patience`.
    pub(super) fn held(&self, patience: Duration) -> Option<ContainerId> {
        self.touch.held(patience)
    }

    /// Whether the log has answered; `false` while the thread is sending, which takes a short time.
    pub(super) fn has_answered(&self, id: &ContainerId) -> bool {
        self.sent.try_lock().is_ok_and(|sent| sent.places.contains_key(id))
    }

    /// Stops the thread from sending, and returns where others continue. `None` while it is sending, or if `still` does not hold.
    pub(super) fn retire(&self, still: impl FnOnce(&Worker) -> bool) -> Option<Places> {
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

    /// Returns its thread, which ends as soon as it is not blocked.
    pub(super) fn end(self) -> JoinHandle<()> {
        self.thread
    }
}

/// A followed log.
struct Log {
    serial: u64,
    /// Decoder, for logs that an engine or runtime wraps.
    decoder: Option<LogFile>,
    /// Problem as last reported.
    problem: Option<String>,
}

/// State of the thread.
struct LogThread {
    tailer: Tailer,
    logs: BTreeMap<ContainerId, Log>,
    events: mpsc::Sender<Event>,
    sent: Arc<Mutex<Sent>>,
    /// Problem with watching as last reported.
    watch_problem: Option<String>,
}

impl LogThread {
    fn run(mut self, requests: &std_mpsc::Receiver<Request>) {
        let mut health_due = Instant::now();
        while let Some(rest) = self.read() {
            if Instant::now() >= health_due {
                health_due = Instant::now() + HEALTH_EVERY;
                self.report_health();
            }
            match requests.recv_timeout(rest) {
                Ok(request) => self.handle(request),
                Err(std_mpsc::RecvTimeoutError::Timeout) => {}
                Err(std_mpsc::RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(request) = requests.try_recv() {
                self.handle(request);
            }
        }
    }

    fn handle(&mut self, request: Request) {
        match request {
            Request::Follow(Follow { id, serial, source, decoder, start }) => {
                let log = Log { serial, decoder, problem: None };
                self.logs.insert(id.clone(), log);
                self.tailer.follow(id, source, start);
            }
            Request::Unfollow(id) => {
                self.tailer.unfollow(&id);
                self.logs.remove(&id);
                self.sent.lock().unwrap_or_else(PoisonError::into_inner).places.remove(&id);
            }
        }
    }

    /// Reads and sends new bytes. Returns the time until the next look; `None` = retired, or the loop has ended.
    fn read(&mut self) -> Option<Duration> {
        let mut read: BTreeMap<ContainerId, Vec<u8>> = BTreeMap::new();
        let logs = &mut self.logs;
        let rest = self.tailer.poll(&mut |id, bytes| {
            let out = read.entry(id.clone()).or_default();
            match logs.get_mut(id).and_then(|log| log.decoder.as_mut()) {
                Some(decoder) => decoder.push(bytes, |text| out.extend_from_slice(text)),
                None => out.extend_from_slice(bytes),
            }
        });
        // Locked while sending, so that the bytes sent and the positions stay consistent.
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
            if size >= SEND_AFTER {
                // Blocks while the loop is behind: then reading waits, and nothing is lost.
                self.events.blocking_send(Event::Logs(std::mem::take(&mut chunks))).ok()?;
                size = 0;
            }
        }
        if !chunks.is_empty() {
            self.events.blocking_send(Event::Logs(chunks)).ok()?;
        }
        for id in self.tailer.looked() {
            if let Some(log) = self.logs.get(id) {
                let (serial, position, decoder) = (log.serial, self.tailer.position(id), log.decoder);
                sent.places.insert(id.clone(), ResumePoint { serial, position, decoder });
            }
        }
        Some(rest)
    }

    fn report_health(&mut self) {
        let now = Instant::now();
        for (id, log) in &mut self.logs {
            let problem = self.tailer.health(id).and_then(|health| problem_of(health, now));
            if log.problem != problem {
                log.problem.clone_from(&problem);
                let _ = self.events.blocking_send(Event::LogHealth(id.clone(), problem)); // the loop may have ended
            }
        }
        let problem = self.tailer.watch_problem();
        if self.watch_problem.as_deref() != problem {
            self.watch_problem = problem.map(str::to_owned);
            let _ = self.events.blocking_send(Event::Health(Component::Watch, self.watch_problem.clone()));
        }
    }
}

/// Returns the problem to report; a skip is one only for a while.
fn problem_of(health: &Health, now: Instant) -> Option<String> {
    let is_recent = |at: Instant| now.saturating_duration_since(at) < SKIPS_SHOWN_FOR;
    match &health.problem {
        Some(problem) => Some(problem.to_string()),
        None => health.skipped_at.is_some_and(is_recent).then(|| GROWS_TOO_FAST.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_reported_until_nothing_was_skipped_for_ten_minutes() {
        let skipped_at = Instant::now();
        let health = Health { skipped: 1, skipped_at: Some(skipped_at), ..Health::default() };
        let reported = |after_s| problem_of(&health, skipped_at + Duration::from_secs(after_s));
        assert_eq!(reported(599).as_deref(), Some(GROWS_TOO_FAST));
        assert_eq!(reported(600), None);
        assert_eq!(problem_of(&Health::default(), skipped_at), None);
    }
}
