//! Many logs followed at once: each byte read once, through rotation and truncation, at a bounded cost.
//!
//! A quiet log is watched (one inotify instance for all), a busy one is looked at by the clock: past a few writes a second an event
//! per write costs more than asking. Whichever way, a log is looked at four times a second at most, and every log every one and a
//! half seconds at least, for inotify can lose events and does not work on every file system. Beyond some hundred logs the clock's
//! looks come more rarely, up to some seconds apart, so that any number of logs costs about the same.
//!
//! Everything is bounded: bytes per look and per call, how far behind reading may fall, how many files a rotation may leave, how
//! much of a container's directory is listed. Looking makes system calls on the containers' file systems: run it on a thread of
//! its own, where a stalled network mount stalls nothing else, and let another thread see what it touches ([`Touch`]).
//!
//! Imports: model only.

mod follow;
mod json_log;
mod open;
mod rotated;
mod source;
mod touch;
mod watch;

pub use follow::{Budget, Health, Start};
pub use json_log::JsonLog;
pub use open::{ContainerFile, TailError, open_on_host};
pub use rotated::{files_since, is_same_file};
pub use source::{Position, Source};
pub use touch::Touch;

use crate::model::ContainerId;
use follow::Followed;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watch::Watch;

/// No log is looked at again sooner, and what inotify has gathered is asked for as often: any number of writers causes no more
/// wake-ups than this.
const SOONEST: Duration = Duration::from_millis(250);
/// A busy log is looked at this often.
const BUSY: Duration = Duration::from_secs(1);
/// Every log is looked at this often.
const LATEST: Duration = Duration::from_millis(1500);
/// Memory that was handed over cannot be watched; asking it costs next to nothing.
const HANDED: Duration = Duration::from_millis(500);
/// With more logs than this, these times grow in proportion,
const LOGS_AT_FULL_PACE: f64 = 150.0;
/// but not beyond so many times.
const SLOWEST_PACE: f64 = 4.0;
/// A log with news in so many looks in a row is busy.
const BUSY_AFTER: u32 = 3;
/// A busy log with nothing new in so many looks in a row is quiet.
const QUIET_AFTER: u32 = 6;
/// As much in one look makes a log busy at once.
const BUSY_BYTES: u64 = 64 << 10;

/// One log and when to look at it.
#[derive(Debug)]
struct Log {
    followed: Followed,
    due: Instant,
    busy: bool,
    /// Looks in a row with news while quiet, without while busy.
    streak: u32,
}

/// Follows the logs of many containers.
pub struct Tailer {
    watch: Watch,
    logs: BTreeMap<ContainerId, Log>,
    budget: Budget,
    buffer: Vec<u8>,
    /// The container after which the last call ran out of budget: the next call begins there.
    resume_after: Option<ContainerId>,
    /// No look before this.
    rests_until: Instant,
    /// The logs that the last call looked at.
    looked: Vec<ContainerId>,
    touch: Arc<Touch>,
}

impl Budget {
    /// Bytes of one log in a second at most: look after look.
    pub fn per_second(&self) -> f64 {
        self.per_log as f64 / SOONEST.as_secs_f64()
    }
}

impl Tailer {
    /// Follows nothing yet.
    pub fn new(budget: Budget) -> Tailer {
        Tailer {
            watch: Watch::new(),
            logs: BTreeMap::new(),
            budget,
            buffer: Vec::new(),
            resume_after: None,
            rests_until: Instant::now(),
            looked: Vec::new(),
            touch: Arc::default(),
        }
    }

    /// What it touches at the moment, for another thread to see.
    pub fn touch(&self) -> Arc<Touch> {
        Arc::clone(&self.touch)
    }

    /// The logs that the last [`Tailer::poll`] looked at.
    pub fn looked(&self) -> &[ContainerId] {
        &self.looked
    }

    /// Begins to follow a container's log, in place of what was followed for it before.
    ///
    /// A log that cannot be opened is not an error here: it may appear or be mended; [`Tailer::health`] says what is wrong.
    pub fn follow(&mut self, id: ContainerId, source: Source, start: Start) {
        self.unfollow(&id);
        if let Source::Host(path) = &source {
            self.touch.begin(&id);
            self.watch.add(path);
            self.touch.end();
        }
        let followed = Followed::new(source, start);
        self.logs.insert(id, Log { followed, due: Instant::now(), busy: false, streak: 0 });
    }

    /// Stops following; how far it was read.
    pub fn unfollow(&mut self, id: &ContainerId) -> Option<Position> {
        let log = self.logs.remove(id)?;
        if let Source::Host(path) = &log.followed.source {
            self.watch.remove(path);
        }
        log.followed.position()
    }

    /// How far a container's log has been read.
    pub fn position(&self, id: &ContainerId) -> Option<Position> {
        self.logs.get(id)?.followed.position()
    }

    /// What is wrong with a container's log, or was skipped.
    pub fn health(&self, id: &ContainerId) -> Option<&Health> {
        self.logs.get(id).map(|log| &log.followed.health)
    }

    /// Why logs are only looked at by the clock, if so: inotify's limits are used up.
    pub fn watch_problem(&self) -> Option<&str> {
        self.watch.problem()
    }

    /// Reads what is due and new, hands it to `sink` in pieces, and says after how long to ask again.
    ///
    /// Pieces end anywhere. Where a log does not go on where it stopped (cut, skipped), an unfinished line is ended first.
    pub fn poll(&mut self, sink: &mut dyn FnMut(&ContainerId, &[u8])) -> Duration {
        let now = Instant::now();
        self.looked.clear();
        if now < self.rests_until {
            return self.rests_until - now;
        }
        self.rests_until = now + SOONEST;
        self.note_dirty(now);
        let mut left = self.budget.per_call;
        let pace = self.pace();
        for id in self.due(now) {
            if left == 0 {
                self.resume_after = Some(id);
                return SOONEST;
            }
            let Some(log) = self.logs.get_mut(&id) else { continue };
            self.touch.begin(&id);
            let budget = Budget { per_log: self.budget.per_log.min(left), ..self.budget };
            let look = log.followed.look(budget, &mut self.buffer, &mut |bytes| sink(&id, bytes));
            left = left.saturating_sub(look.bytes);
            log.plan(look, now, pace);
            match (&log.followed.source, log.busy) {
                (Source::Host(path), true) => self.watch.remove(path),
                (Source::Host(path), false) => self.watch.add(path),
                (Source::Inside(_) | Source::Handed(_), _) => {}
            }
            self.touch.end();
            self.looked.push(id);
        }
        self.resume_after = None;
        let due = self.logs.values().map(|log| log.due).min().unwrap_or(now + LATEST);
        let next = if self.watch.is_watching() { self.rests_until } else { due.max(self.rests_until) };
        next.saturating_duration_since(Instant::now())
    }

    /// How many times its usual wait a log waits for the clock.
    fn pace(&self) -> f64 {
        (self.logs.len() as f64 / LOGS_AT_FULL_PACE).clamp(1.0, SLOWEST_PACE)
    }

    /// Reads the rest of a container's log at once, up to `at_most` bytes: for a container that has just ended.
    pub fn drain(&mut self, id: &ContainerId, at_most: u64, sink: &mut dyn FnMut(&[u8])) {
        let Some(log) = self.logs.get_mut(id) else { return };
        let mut left = at_most;
        while left > 0 {
            let budget = Budget { per_log: self.budget.per_log.min(left), ..self.budget };
            let look = log.followed.look(budget, &mut self.buffer, sink);
            if look.bytes == 0 && !look.more {
                break;
            }
            // Finishing a rotation brings no bytes, and may not go on for ever either.
            left = left.saturating_sub(look.bytes.max(1));
        }
    }

    fn note_dirty(&mut self, now: Instant) {
        let dirty = self.watch.take_dirty();
        if dirty.logs.is_empty() && !dirty.lost {
            return;
        }
        for log in self.logs.values_mut() {
            if dirty.lost || dirty.logs.contains(log.followed.source.path()) {
                log.due = now;
            }
        }
    }

    /// The logs to look at now, beginning where the last call ran out of budget.
    fn due(&self, now: Instant) -> Vec<ContainerId> {
        let is_due = |(_, log): &(&ContainerId, &Log)| log.due <= now;
        let (mut first, mut then) = (Vec::new(), Vec::new());
        for (id, _) in self.logs.iter().filter(is_due) {
            let late = self.resume_after.as_ref().is_none_or(|after| id >= after);
            if late { first.push(id.clone()) } else { then.push(id.clone()) }
        }
        first.append(&mut then);
        first
    }
}

impl Log {
    /// After a look: whether the log is busy, and when to look again.
    fn plan(&mut self, look: follow::Look, now: Instant, pace: f64) {
        let news = look.bytes > 0;
        self.streak = if news != self.busy { self.streak + 1 } else { 0 };
        let turned = if self.busy { self.streak >= QUIET_AFTER } else { self.streak >= BUSY_AFTER };
        if turned || look.bytes >= BUSY_BYTES {
            self.busy = news;
            self.streak = 0;
        }
        let handed = matches!(self.followed.source, Source::Handed(_));
        self.due = match (look.more, self.busy) {
            (true, _) => now,
            (false, _) if handed => now + HANDED.mul_f64(pace),
            (false, true) => now + BUSY.mul_f64(pace),
            (false, false) => now + LATEST.mul_f64(pace),
        };
    }
}
