//! The writer's thread: rows to the disk now and then, bounds kept, and a disk that fails survived.

use super::recorder::Recorder;
use crate::host::store::StoreError;
use crate::host::store::history::{HistoryLimits, HistoryStore};
use crate::model::{ContainerId, Event, Learning, NodeStatus};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What the keeper is given.
pub(super) enum Given {
    Snapshot(Arc<NodeStatus>),
    Event(Event),
    Exited(ContainerId, i32),
    ReadToEnd(ContainerId, Box<Learning>),
    Limits(HistoryLimits),
}

/// Rows wait so long for others, to be written together.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// When a job ended somebody may ask; also then not more often than this.
const WRITE_SOONEST: Duration = Duration::from_secs(1);
/// How often rows are sorted in and bounds looked after.
const TIDY_EVERY: Duration = Duration::from_secs(600);
/// A disk that failed is tried again after this.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Owns the database.
pub(super) struct Keeper<T> {
    directory: PathBuf,
    limits: HistoryLimits,
    /// Tells the loop of a problem, or that it is over.
    tell: T,
    store: Option<HistoryStore>,
    recorder: Recorder,
    problem: Option<String>,
    try_at: Instant,
    write_at: Instant,
    tidy_at: Instant,
}

impl<T: Fn(Option<String>)> Keeper<T> {
    pub fn new(directory: PathBuf, limits: HistoryLimits, tell: T) -> Keeper<T> {
        let now = Instant::now();
        Keeper {
            directory,
            limits,
            tell,
            store: None,
            recorder: Recorder::default(),
            problem: None,
            try_at: now,
            write_at: now + WRITE_EVERY,
            tidy_at: now + WRITE_EVERY,
        }
    }

    /// Keeps what it is given until there is no more.
    pub fn keep(&mut self, given: &Receiver<Given>, waiting: &AtomicUsize) {
        self.open();
        loop {
            match given.recv_timeout(self.write_at.saturating_duration_since(Instant::now())) {
                Ok(Given::Snapshot(status)) => {
                    self.recorder.observe(&status);
                    waiting.fetch_sub(1, Ordering::AcqRel);
                }
                Ok(Given::Event(event)) => {
                    if self.recorder.happened(&event) {
                        self.write_at = self.write_at.min(Instant::now() + WRITE_SOONEST);
                    }
                }
                Ok(Given::Exited(id, code)) => self.recorder.exited(&id, code),
                Ok(Given::ReadToEnd(id, learning)) => self.recorder.read_to_end(&id, &learning),
                Ok(Given::Limits(limits)) => {
                    self.limits = limits;
                    self.tidy_at = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.write(),
            }
            if Instant::now() >= self.write_at {
                self.write();
                self.write_at = Instant::now() + WRITE_EVERY;
            }
        }
    }

    fn open(&mut self) {
        let opened = HistoryStore::open(&self.directory).and_then(|opened| {
            let recorder = Recorder::begin(opened.store.next_job()?, opened.store.open_jobs()?);
            Ok((opened, recorder))
        });
        match opened {
            Ok((opened, recorder)) => {
                if let Some(path) = &opened.set_aside {
                    (self.tell)(Some(damaged(path)));
                }
                self.recorder = recorder;
                self.store = Some(opened.store);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn write(&mut self) {
        if Instant::now() < self.try_at {
            drop(self.recorder.take()); // left out: the disk fails
            return;
        }
        if self.store.is_none() {
            self.open();
        }
        let batch = self.recorder.take();
        let Some(store) = &mut self.store else { return };
        let mut done = if batch.is_empty() { Ok(()) } else { store.write(&batch) };
        if done.is_ok() && Instant::now() >= self.tidy_at {
            done = tidied(store, &self.limits).map(|more| {
                self.tidy_at = Instant::now() + if more { Duration::ZERO } else { TIDY_EVERY };
            });
        }
        match done {
            Ok(()) if self.problem.take().is_some() => (self.tell)(None),
            Ok(()) => {}
            Err(error) if error.is_damage() => self.begin_anew(&error),
            Err(error) => self.failed(&error),
        }
    }

    /// Sets a database aside that turned out to be damaged.
    fn begin_anew(&mut self, error: &StoreError) {
        match self.store.take().map(HistoryStore::set_aside) {
            Some(Ok(path)) => {
                self.open();
                // Told last: a notice that stands until the daemon ends.
                (self.tell)(Some(damaged(&path)));
            }
            Some(Err(why)) => self.failed(&why),
            None => self.failed(error),
        }
    }

    fn failed(&mut self, error: &StoreError) {
        self.try_at = Instant::now() + TRY_AGAIN_AFTER;
        self.say(format!("nothing is kept in the history until this is mended; nothing else is affected: {error}"));
    }

    /// Tells the loop, once a problem.
    fn say(&mut self, text: String) {
        if self.problem.as_ref() != Some(&text) {
            (self.tell)(Some(text.clone()));
        }
        self.problem = Some(text);
    }
}

fn damaged(path: &std::path::Path) -> String {
    format!(
        "the history was damaged and set aside as {}; a new one begins here, limits are not affected",
        path.display()
    )
}

fn tidied(store: &mut HistoryStore, limits: &HistoryLimits) -> Result<bool, StoreError> {
    store.settle()?;
    store.trim(limits, crate::daemon::journal::unix_ms())
}
