//! The writer's thread: writes rows to the disk in batches, keeps the history within its bounds, and survives disk errors.

use super::recorder::Recorder;
use model::{ContainerId, Event, JobEnd, Learning, NodeStatus};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use store::StoreError;
use store::history::{HistoryLimits, HistoryStore, inode};

/// An entry for the history.
pub(super) enum Entry {
    Snapshot(Arc<NodeStatus>),
    Event(Event),
    Ended(ContainerId, JobEnd),
    ReadToEnd(ContainerId, Box<Learning>),
    Limits(HistoryLimits),
}

/// How long rows wait for others, to be written together.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// After the end of a job, rows are written sooner, because clients may ask about it; at least this time passes between writes.
const WRITE_SOONEST: Duration = Duration::from_secs(1);
/// How often rows are sorted and old ones are removed.
const TIDY_EVERY: Duration = Duration::from_secs(600);
/// Time before a disk that failed is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Owner of the database.
pub(super) struct Keeper<T> {
    directory: PathBuf,
    limits: HistoryLimits,
    /// Reports a problem to the loop, or that it is over.
    report: T,
    /// The inode of a file that a query found damaged.
    found_damaged: Arc<AtomicU64>,
    store: Option<HistoryStore>,
    recorder: Recorder,
    /// Whether the recorder goes on with a new file, after the one that it began with was set aside.
    goes_on: bool,
    problem: Option<String>,
    try_at: Instant,
    write_at: Instant,
    tidy_at: Instant,
}

impl<T: Fn(Option<String>)> Keeper<T> {
    pub(super) fn new(
        directory: PathBuf,
        limits: HistoryLimits,
        report: T,
        found_damaged: Arc<AtomicU64>,
    ) -> Keeper<T> {
        let now = Instant::now();
        Keeper {
            directory,
            limits,
            report,
            found_damaged,
            store: None,
            recorder: Recorder::default(),
            goes_on: false,
            problem: None,
            try_at: now,
            write_at: now + WRITE_EVERY,
            tidy_at: now + WRITE_EVERY,
        }
    }

    /// Stores entries until there are no more.
    pub(super) fn keep(&mut self, entries: &Receiver<Entry>, waiting: &AtomicUsize) {
        self.open();
        loop {
            match entries.recv_timeout(self.write_at.saturating_duration_since(Instant::now())) {
                Ok(Entry::Snapshot(status)) => {
                    self.recorder.observe(&status);
                    waiting.fetch_sub(1, Ordering::AcqRel);
                }
                Ok(Entry::Event(event)) => {
                    if self.recorder.happened(&event) {
                        self.write_at = self.write_at.min(Instant::now() + WRITE_SOONEST);
                    }
                }
                Ok(Entry::Ended(id, end)) => self.recorder.ended(&id, &end),
                Ok(Entry::ReadToEnd(id, learning)) => self.recorder.read_to_end(&id, &learning),
                Ok(Entry::Limits(limits)) => {
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
            let (next, earlier) = (opened.store.next_job()?, opened.store.open_jobs()?);
            Ok((opened, next, earlier))
        });
        match opened {
            Ok((opened, next, earlier)) => {
                if let Some(path) = &opened.set_aside {
                    self.report_damage(path);
                }
                if std::mem::take(&mut self.goes_on) {
                    self.recorder.go_on();
                } else {
                    self.recorder = Recorder::begin(next, earlier);
                }
                self.store = Some(opened.store);
            }
            Err(error) if error.is_damage() => self.set_aside(),
            Err(error) => self.failed(&error),
        }
    }

    /// Writes what is due. If the history turns out to be damaged, the new one is written instead.
    fn write(&mut self) {
        self.set_aside_if_found_damaged();
        let had_history = self.store.is_some();
        self.write_once();
        if had_history && self.store.is_none() {
            self.write_once();
        }
    }

    fn write_once(&mut self) {
        if Instant::now() < self.try_at {
            let left_out = self.recorder.take(); // the disk fails
            return self.recorder.put_back(left_out);
        }
        if self.store.is_none() {
            self.open();
        }
        let Some(store) = &mut self.store else { return };
        let batch = self.recorder.take();
        let mut done = if batch.is_empty() { Ok(()) } else { store.write(&batch) };
        let is_written = done.is_ok();
        if is_written && Instant::now() >= self.tidy_at {
            done = tidied(store, &self.limits).map(|more| {
                self.tidy_at = Instant::now() + if more { Duration::ZERO } else { TIDY_EVERY };
            });
        }
        match done {
            Ok(()) if self.problem.take().is_some() => (self.report)(None),
            Ok(()) => {}
            Err(error) if error.is_damage() => {
                if !is_written {
                    self.recorder.take_back(batch);
                }
                self.set_aside();
            }
            Err(error) => {
                if !is_written {
                    self.recorder.put_back(batch);
                }
                self.failed(&error);
            }
        }
    }

    /// Sets the history aside if a query found it damaged: what is only read is not noticed by a write.
    fn set_aside_if_found_damaged(&mut self) {
        let found = self.found_damaged.swap(0, Ordering::AcqRel);
        if self.store.is_some() && inode(&self.directory) == Some(found) {
            self.set_aside();
        }
    }

    /// Sets the damaged history aside; the next write begins a new one.
    fn set_aside(&mut self) {
        self.goes_on |= self.store.take().is_some();
        match HistoryStore::set_aside(&self.directory) {
            Ok(path) => self.report_damage(&path),
            Err(error) => self.failed(&error),
        }
    }

    /// Reports a damaged history. The notice stays until the daemon ends, or there is another problem.
    fn report_damage(&mut self, path: &Path) {
        self.problem = None;
        (self.report)(Some(format!(
            "the history was damaged and set aside as {}; a new one was started; limits are not affected",
            path.display()
        )));
    }

    fn failed(&mut self, error: &StoreError) {
        self.try_at = Instant::now() + TRY_AGAIN_AFTER;
        self.report_once(format!("no history is kept until this is fixed; nothing else is affected: {error}"));
    }

    /// Reports a problem to the loop, once per text.
    fn report_once(&mut self, text: String) {
        if self.problem.as_ref() != Some(&text) {
            (self.report)(Some(text.clone()));
        }
        self.problem = Some(text);
    }
}

fn tidied(store: &mut HistoryStore, limits: &HistoryLimits) -> Result<bool, StoreError> {
    store.settle()?;
    store.trim(limits, crate::journal::unix_ms())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::recorder_tests::{ended, job, status};

    fn keeper<T: Fn(Option<String>)>(directory: &tempfile::TempDir, report: T) -> Keeper<T> {
        let limits = HistoryLimits { max_age_ms: u64::MAX, max_bytes: u64::MAX };
        let mut keeper = Keeper::new(directory.path().to_owned(), limits, report, Arc::default());
        keeper.open();
        keeper.recorder.observe(&status(10_000, vec![job("x", 10_000, 1.0, 0.5, 1), job("y", 10_000, 1.0, 0.5, 2)]));
        keeper.write();
        keeper
    }

    fn disk(directory: &tempfile::TempDir) -> rusqlite::Connection {
        rusqlite::Connection::open(directory.path().join("history.db")).unwrap()
    }

    fn open_jobs<T>(keeper: &Keeper<T>) -> usize {
        keeper.store.as_ref().unwrap().open_jobs().unwrap().len()
    }

    /// Overwrites the root page of a table, which the writer reads again.
    fn damage(directory: &tempfile::TempDir, table: &str) {
        use std::os::unix::fs::FileExt;
        let disk = disk(directory);
        let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        let root: u32 = disk.query_row(root, [table], |row| row.get(0)).unwrap();
        let size: u32 = disk.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
        disk.execute("INSERT INTO word (text) VALUES ('another writer')", []).unwrap();
        drop(disk);
        let file = std::fs::File::options().write(true).open(directory.path().join("history.db")).unwrap();
        file.write_at(&[0xA5; 512], u64::from((root - 1) * size)).unwrap();
    }

    #[test]
    fn a_job_that_ends_while_the_disk_fails_gets_its_end_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let mut keeper = keeper(&directory, |_: Option<String>| {});
        let disk = disk(&directory);
        disk.execute_batch("ALTER TABLE event RENAME TO gone").unwrap();
        keeper.recorder.happened(&ended("x", 15_000));
        keeper.write();
        assert!(keeper.problem.is_some(), "it could not be written");
        keeper.write();
        disk.execute_batch("ALTER TABLE gone RENAME TO event").unwrap();
        assert_eq!(open_jobs(&keeper), 2);
        keeper.try_at = Instant::now();
        keeper.write();
        assert_eq!((open_jobs(&keeper), keeper.problem), (1, None));
    }

    #[test]
    fn what_a_damaged_history_cannot_take_is_in_the_new_one_with_all_that_runs() {
        let directory = tempfile::tempdir().unwrap();
        let reports = std::cell::RefCell::new(Vec::new());
        let mut keeper = keeper(&directory, |problem| reports.borrow_mut().push(problem));
        damage(&directory, "event");
        keeper.recorder.happened(&ended("x", 15_000));
        keeper.write();
        assert!(directory.path().join("history.db.corrupt-1").exists());
        let reported = reports.borrow().iter().flatten().cloned().collect::<String>();
        assert!(reported.contains("history.db.corrupt-1") && !reported.contains("restart"), "{reported}");
        let names: Vec<(String, bool)> = disk(&directory)
            .prepare("SELECT id, ended IS NULL FROM job ORDER BY number")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(names, [("x".to_owned(), false), ("y".to_owned(), true)]);
        keeper.write();
        assert_eq!(reports.borrow().len(), 1, "the notice stays");
    }

    #[test]
    fn a_history_that_only_a_query_found_damaged_is_set_aside_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut keeper = keeper(&directory, |_: Option<String>| {});
        damage(&directory, "moment");
        let (damaged, file) = (keeper.found_damaged.clone(), inode(directory.path()).unwrap());
        let aside = |number: u32| directory.path().join(format!("history.db.corrupt-{number}")).exists();
        keeper.write();
        assert!(!aside(1), "no write needs the page");
        damaged.store(file, Ordering::Release);
        keeper.write();
        assert!(aside(1));
        assert_eq!(open_jobs(&keeper), 2);
        damaged.store(file, Ordering::Release); // a query that began before
        keeper.write();
        assert!(!aside(2), "the new one is not damaged");
    }
}
