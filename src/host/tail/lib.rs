//! Follows many logs at once: each byte is read once, through rotation and truncation, at limited cost.
//!
//! A quiet log is watched with inotify (one instance for all logs), a busy one is polled: beyond a few writes per second, an event per
//! write costs more than polling. In either case a log is read at most four times a second, and at least every one and a half seconds,
//! because inotify can lose events and does not work on every file system. Beyond some hundred logs, polling becomes less frequent, down to
//! every few seconds, so that any number of logs costs about the same.
//!
//! Limited are: bytes per look and per call, the lag of reading, the number of files of a rotation, and the number of entries read from a
//! container's directory. Looking makes system calls on file systems of containers. Run it in a separate thread, where a stalled network
//! mount blocks nothing else, and let another thread observe what it accesses ([`Touch`]).

mod follow;
mod open;
mod rotated;
mod source;
mod touch;
mod watch;

pub use follow::{Budget, Health, Start};
pub use open::{ContainerFile, TailError, open_on_host};
pub use rotated::{files_since, is_same_file};
pub use source::{Position, Source};
pub use touch::Touch;

use follow::Followed;
use model::ContainerId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watch::Watch;

/// Minimum time between two looks at a log, and between two reads of the inotify queue: any number of writers causes no more wake-ups than
/// this.
const SOONEST: Duration = Duration::from_millis(250);
/// Polling interval of a busy log.
const BUSY: Duration = Duration::from_secs(1);
/// Polling interval of every other log.
const LATEST: Duration = Duration::from_millis(1500);
/// Polling interval of handed memory, which cannot be watched but is cheap to poll.
const HANDED: Duration = Duration::from_millis(500);
/// With more logs than this, polling intervals grow in proportion.
const LOGS_AT_FULL_PACE: f64 = 150.0;
/// Maximum factor by which polling intervals grow.
const SLOWEST_PACE: f64 = 4.0;
/// Number of consecutive looks with new data after which a log is busy.
const BUSY_AFTER: u32 = 3;
/// Number of consecutive looks without new data after which a busy log is quiet.
const QUIET_AFTER: u32 = 6;
/// Number of bytes in one look that makes a log busy at once.
const BUSY_BYTES: u64 = 64 << 10;

/// One log and its schedule.
#[derive(Debug)]
struct Log {
    followed: Followed,
    due: Instant,
    busy: bool,
    /// Number of consecutive looks with new data while quiet, or without while busy.
    streak: u32,
}

/// Follows the logs of many containers.
pub struct Tailer {
    watch: Watch,
    logs: BTreeMap<ContainerId, Log>,
    budget: Budget,
    buffer: Vec<u8>,
    /// The container at which the last call ran out of budget: the next call begins there.
    resume_after: Option<ContainerId>,
    /// No look takes place before this.
    rests_until: Instant,
    /// Logs that the last call looked at.
    looked: Vec<ContainerId>,
    touch: Arc<Touch>,
}

impl Budget {
    /// Returns the maximum number of bytes read from one log per second, with continuous looks.
    pub fn per_second(&self) -> f64 {
        self.per_log as f64 / SOONEST.as_secs_f64()
    }
}

impl Tailer {
    /// Creates a tailer without logs.
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

    /// Returns a handle with which another thread can observe the log being accessed.
    pub fn touch(&self) -> Arc<Touch> {
        Arc::clone(&self.touch)
    }

    /// Returns the logs that the last [`Tailer::poll`] looked at.
    pub fn looked(&self) -> &[ContainerId] {
        &self.looked
    }

    /// Begins to follow a container's log, replacing a previous one.
    ///
    /// A log that cannot be opened is not an error here, because it may appear or be repaired; [`Tailer::health`] reports the problem.
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

    /// Stops following a log; returns its read position.
    pub fn unfollow(&mut self, id: &ContainerId) -> Option<Position> {
        let log = self.logs.remove(id)?;
        if let Source::Host(path) = &log.followed.source {
            self.watch.remove(path);
        }
        log.followed.position()
    }

    /// Returns the read position of a container's log.
    pub fn position(&self, id: &ContainerId) -> Option<Position> {
        self.logs.get(id)?.followed.position()
    }

    /// Returns problems of a container's log.
    pub fn health(&self, id: &ContainerId) -> Option<&Health> {
        self.logs.get(id).map(|log| &log.followed.health)
    }

    /// Returns why logs are only polled, if so: the limits of inotify are exhausted.
    pub fn watch_problem(&self) -> Option<&str> {
        self.watch.problem()
    }

    /// Reads new data of the logs that are due, passes it to `sink` in pieces, and returns the time until the next call.
    ///
    /// Pieces can end anywhere. If a log does not continue where it stopped (truncated, skipped), an incomplete line is ended first.
    pub fn poll(&mut self, sink: &mut dyn FnMut(&ContainerId, &[u8])) -> Duration {
        let now = Instant::now();
        self.looked.clear();
        if now < self.rests_until {
            return self.rests_until - now;
        }
        self.rests_until = now + SOONEST;
        self.schedule_changed(now);
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
            let was_busy = log.busy;
            log.plan(look, now, pace);
            match &log.followed.source {
                Source::Host(path) if !log.busy => self.watch.add(path),
                Source::Host(path) if !was_busy => self.watch.remove(path),
                Source::Host(_) | Source::Inside(_) | Source::Handed(_) => {}
            }
            self.touch.end();
            self.looked.push(id);
        }
        self.resume_after = None;
        let due = self.logs.values().map(|log| log.due).min().unwrap_or(now + LATEST);
        let next = if self.watch.is_watching() { self.rests_until } else { due.max(self.rests_until) };
        next.saturating_duration_since(Instant::now())
    }

    /// Returns the factor by which polling intervals are extended.
    fn pace(&self) -> f64 {
        (self.logs.len() as f64 / LOGS_AT_FULL_PACE).clamp(1.0, SLOWEST_PACE)
    }

    /// Reads the rest of a container's log at once, up to `at_most` bytes, for a container that has just ended.
    pub fn drain(&mut self, id: &ContainerId, at_most: u64, sink: &mut dyn FnMut(&[u8])) {
        let Some(log) = self.logs.get_mut(id) else { return };
        let mut left = at_most;
        while left > 0 {
            let budget = Budget { per_log: self.budget.per_log.min(left), ..self.budget };
            let look = log.followed.look(budget, &mut self.buffer, sink);
            if look.bytes == 0 && !look.more {
                break;
            }
            // Finishing a rotation yields no bytes, but must end as well.
            left = left.saturating_sub(look.bytes.max(1));
        }
    }

    fn schedule_changed(&mut self, now: Instant) {
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

    /// Returns the logs to look at now, beginning where the last call ran out of budget.
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
    /// Decides after a look whether the log is busy, and schedules the next look.
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
