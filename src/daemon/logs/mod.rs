//! Reading logs beside the loop: files on threads ([`files`]), the logs API in a task per container ([`streams`]).
//!
//! What arrives at the loop are the job's own bytes with the place to go on from, so that place and tracker are saved together. The loop
//! reads no log; how much of its time one job's bytes may take is bounded ([`allowance`]).

mod allowance;
pub(super) mod feed;
mod files;
mod streams;
mod worker;

use super::departed::Departed;
use super::event::{Event, LogChunk};
use super::job::Jobs;
use crate::host::docker::{Engine, LogFormat};
use crate::host::store::LogPlace;
use crate::host::tail::{Position, Source, Start};
use crate::model::{ContainerId, LogOrigin, Millis, NoticeLevel};
use allowance::Allowance;
use feed::LogFeed;
use files::{Files, PATIENCE};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use streams::Stream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use worker::Follow;

/// What was read and waits for the loop; beyond, reading waits. Each has up to about a MiB.
const EVENTS_AT_MOST: usize = 16;

const COSTS_TOO_MUCH: &str = "its log costs more to read than it is worth: parts of it were skipped";
const SILENT: &str = "its log does not answer (a network file system?); it is read again when it does";
/// How long it is known what a container's log has cost: restarting it gives no new allowance.
const COSTS_KEPT: Duration = Duration::from_secs(3600);

/// CPU time that this thread has used: waiting for a busy processor costs the log's owner nothing.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The loop's handle on everything that reads logs.
pub(super) struct LogReader {
    /// What is read waits here, and not among all other events: those come in between, however much there is to read.
    pub inbox: mpsc::Receiver<Event>,
    files: Files,
    engine: Option<Engine>,
    streams: BTreeMap<ContainerId, AbortHandle>,
    /// Each following has a number of its own.
    followed: BTreeMap<ContainerId, u64>,
    last_serial: u64,
    allowances: BTreeMap<ContainerId, Allowance>,
    events: mpsc::Sender<Event>,
}

impl LogReader {
    pub fn start(engine: Option<Engine>) -> LogReader {
        let (events, inbox) = mpsc::channel(EVENTS_AT_MOST);
        LogReader {
            inbox,
            files: Files::new(PATIENCE, events.clone()),
            engine,
            streams: BTreeMap::new(),
            followed: BTreeMap::new(),
            last_serial: 0,
            allowances: BTreeMap::new(),
            events,
        }
    }

    /// Gives jobs what they wrote, also those that ended a moment ago.
    pub fn deliver(&mut self, chunks: Vec<LogChunk>, now: Millis, jobs: &mut Jobs, departed: &mut Departed) {
        for chunk in chunks {
            // What an earlier following had still to hand on is read again by the present one.
            if self.followed.get(&chunk.id) != Some(&chunk.serial) {
                continue;
            }
            let mut allowance = self.allowance(&chunk.id);
            let Some(job) = jobs.get_mut(&chunk.id).map(Box::as_mut).or_else(|| departed.job(&chunk.id)) else {
                continue;
            };
            job.log_answers(SILENT);
            let skipped =
                allowance.read(&chunk.bytes, Instant::now(), thread_time, |bytes| job.tracker.push(bytes, now));
            job.place = chunk.place.or(job.place);
            job.unsaved_since.get_or_insert(now);
            if skipped > 0 {
                job.say(NoticeLevel::Warning, COSTS_TOO_MUCH);
                tracing::debug!(id = %chunk.id, skipped, "bytes of a log that costs too much");
            }
            self.allowances.insert(chunk.id, allowance);
        }
    }

    /// Those whose logs do not answer, with the words for it.
    pub fn silent(&mut self) -> Vec<(ContainerId, &'static str)> {
        self.files.supervise().into_iter().map(|id| (id, SILENT)).collect()
    }

    /// Reads a container's log from `place` on, or from its beginning.
    pub fn follow(&mut self, id: &ContainerId, feed: LogFeed, place: Option<LogPlace>) {
        self.unfollow(id);
        self.allowances.get_mut(id).into_iter().for_each(Allowance::begin_again);
        let start = match place {
            Some(LogPlace::File { device, inode, born_ns, offset }) => {
                Start::At(Position { device, inode, born_ns, offset })
            }
            _ => Start::Beginning,
        };
        self.last_serial += 1;
        let serial = self.last_serial;
        self.followed.insert(id.clone(), serial);
        let id = id.clone();
        match feed {
            LogFeed::JsonFile(path) => {
                self.files.follow(Follow { id, serial, source: Source::Host(path), json: true, start })
            }
            LogFeed::Plain(source) => self.files.follow(Follow { id, serial, source, json: false, start }),
            LogFeed::Api(format) => self.stream(id, serial, format, place),
        }
    }

    /// Where whoever may can read the same log again; of an output that was handed over its owner says it. `pid`: a process of the container.
    pub fn origin(&self, feed: &LogFeed, pid: u32) -> Option<LogOrigin> {
        match feed {
            LogFeed::JsonFile(path) | LogFeed::Plain(Source::Host(path)) => Some(LogOrigin::File(path.clone())),
            LogFeed::Plain(Source::Handed(_)) => None,
            LogFeed::Plain(Source::Inside(file)) => Some(LogOrigin::Inside { pid, path: file.path().to_owned() }),
            LogFeed::Api(_) => {
                self.engine.as_ref().map(|engine| LogOrigin::Engine(engine.address().socket().to_owned()))
            }
        }
    }

    pub fn unfollow(&mut self, id: &ContainerId) {
        if let Some(stream) = self.streams.remove(id) {
            stream.abort();
        }
        self.files.unfollow(id);
        self.followed.remove(id);
        self.allowances.retain(|_, allowance| allowance.used_at().elapsed() < COSTS_KEPT);
    }

    /// What reading a log may cost, to be put back after use.
    fn allowance(&mut self, id: &ContainerId) -> Allowance {
        self.allowances.remove(id).unwrap_or_else(|| Allowance::new(Instant::now()))
    }

    fn stream(&mut self, id: ContainerId, serial: u64, format: LogFormat, place: Option<LogPlace>) {
        let Some(engine) = self.engine.clone() else { return };
        let (from, events) = (Stream::position(place), self.events.clone());
        let following = Stream { engine, id: id.clone(), serial, format, from, events }.follow();
        self.streams.insert(id, tokio::spawn(following).abort_handle());
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.streams.values().for_each(AbortHandle::abort);
    }
}
