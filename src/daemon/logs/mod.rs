//! Reading logs beside the loop: files on threads ([`files`]), the logs API in a task per container ([`streams`]).
//!
//! The loop receives the job's bytes together with the position after them, so that position and tracker are saved together. The loop
//! itself reads no log; the time that it spends on one job's bytes is bounded ([`allowance`]).

mod allowance;
pub(super) mod feed;
mod files;
mod streams;
mod worker;

use super::draining::Draining;
use super::event::{Event, LogChunk};
use super::job::Jobs;
use allowance::Allowance;
use docker::{Engine, LogFormat};
use feed::{LogFeed, SKIPS_SHOWN_FOR};
use files::{Files, PATIENCE};
use model::{ContainerId, LogOrigin, Millis};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use store::LogPlace;
use streams::Stream;
use tail::{Position, Source, Start};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use worker::Follow;

/// Events that may wait for the loop; beyond, reading waits. Each holds up to about 1 MiB.
const EVENTS_AT_MOST: usize = 16;

const COSTS_TOO_MUCH: &str = "its log costs more CPU time to read than allowed: parts of it were skipped";
const SILENT: &str = "its log does not answer (a network file system?); reading continues when it does";
/// How long the cost of a container's log is remembered: a restart gives no new allowance.
const COSTS_KEPT: Duration = Duration::from_secs(3600);

/// Returns the CPU time used by this thread; unlike wall time, it does not count waiting for a busy processor.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The loop's handle on all log readers.
pub(super) struct LogReader {
    /// Log data has its own queue, so that other events are handled in between, however much there is to read.
    pub inbox: mpsc::Receiver<Event>,
    files: Files,
    engine: Option<Engine>,
    streams: BTreeMap<ContainerId, AbortHandle>,
    /// Serial number of each container's current follow request.
    followed: BTreeMap<ContainerId, u64>,
    last_serial: u64,
    allowances: BTreeMap<ContainerId, Allowance>,
    events: mpsc::Sender<Event>,
}

impl LogReader {
    pub(crate) fn start(engine: Option<Engine>) -> LogReader {
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

    /// Passes chunks to the trackers of their jobs, including jobs that are being drained.
    pub(crate) fn deliver(&mut self, chunks: Vec<LogChunk>, now: Millis, jobs: &mut Jobs, draining: &mut Draining) {
        for chunk in chunks {
            // Chunks of an earlier follow request are read again by the current one.
            if self.followed.get(&chunk.id) != Some(&chunk.serial) {
                continue;
            }
            let mut allowance = self.allowance(&chunk.id);
            let Some(job) = jobs.get_mut(&chunk.id).map(Box::as_mut).or_else(|| draining.job(&chunk.id)) else {
                continue;
            };
            job.log_answers(SILENT);
            let skipped =
                allowance.read(&chunk.bytes, Instant::now(), thread_time, |bytes| job.tracker.push(bytes, now));
            job.place = chunk.place.or(job.place);
            job.unsaved_since.get_or_insert(now);
            if skipped > 0 {
                tracing::debug!(id = %chunk.id, skipped, "bytes skipped of a log that costs too much");
            }
            self.allowances.insert(chunk.id, allowance);
        }
    }

    /// Returns a warning if parts of the log were skipped lately, because it costs too much to read.
    pub(crate) fn cost_warning(&self, id: &ContainerId) -> Option<&'static str> {
        let now = Instant::now();
        let skips = |allowance: &Allowance| allowance.skipped_within(SKIPS_SHOWN_FOR, now);
        self.allowances.get(id).is_some_and(skips).then_some(COSTS_TOO_MUCH)
    }

    /// Returns the containers whose logs do not answer, with the text of the notice.
    pub(crate) fn silent(&mut self) -> Vec<(ContainerId, &'static str)> {
        self.files.supervise().into_iter().map(|id| (id, SILENT)).collect()
    }

    /// Follows a container's log from `place`, or from its beginning.
    pub(crate) fn follow(&mut self, id: &ContainerId, feed: LogFeed, place: Option<LogPlace>) {
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
            LogFeed::Wrapped(path, decoder) => {
                let (source, decoder) = (Source::Host(path), Some(decoder));
                self.files.follow(Follow { id, serial, source, decoder, start });
            }
            LogFeed::Plain(source) => self.files.follow(Follow { id, serial, source, decoder: None, start }),
            LogFeed::Api(format) => self.stream(id, serial, format, place),
        }
    }

    /// Returns where users with permission can read the same log; the owner of a handed-over output reports it. `pid`: a process of the
    /// container.
    pub(crate) fn origin(&self, feed: &LogFeed, pid: u32) -> Option<LogOrigin> {
        match feed {
            LogFeed::Wrapped(path, _) | LogFeed::Plain(Source::Host(path)) => Some(LogOrigin::File(path.clone())),
            LogFeed::Plain(Source::Handed(_)) => None,
            LogFeed::Plain(Source::Inside(file)) => Some(LogOrigin::Inside { pid, path: file.path().to_owned() }),
            LogFeed::Api(_) => self.engine.as_ref().map(|engine| LogOrigin::Engine(engine.socket())),
        }
    }

    pub(crate) fn unfollow(&mut self, id: &ContainerId) {
        if let Some(stream) = self.streams.remove(id) {
            stream.abort();
        }
        self.files.unfollow(id);
        self.followed.remove(id);
        self.allowances.retain(|_, allowance| allowance.used_at().elapsed() < COSTS_KEPT);
    }

    /// Takes the allowance of a container; it must be put back after use.
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
