//! One inotify instance for all quiet logs, which reports logs that were written.
//!
//! No thread waits for its events: the kernel queues them until the next poll, so that a thousand lines cost one call and not a thousand
//! wake-ups. The `notify` crate uses such a thread, so inotify is used directly through rustix.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Buffer for some hundred events: one system call.
const BUFFER: usize = 16 << 10;
/// Maximum number of events read at once, more than the kernel's queue usually holds; beyond that all logs must be read anyway.
const EVENTS_AT_MOST: usize = 20_000;
/// Message for exhausted watches; `flowctl doctor` shows the same and how to raise the limit.
const NO_WATCHES: &str = "inotify: no watches left; raise fs.inotify.max_user_watches: until then some logs are polled";
/// Events that change a log or the file with its name, but not opening and reading.
const CHANGES: WatchFlags =
    WatchFlags::MODIFY.union(WatchFlags::CREATE).union(WatchFlags::MOVED_TO).union(WatchFlags::MOVED_FROM);

/// The watched logs. A log is watched through its directory, so that renames are noticed.
pub(super) struct Watch {
    queue: Option<OwnedFd>,
    /// Why nothing can be watched, if so.
    broken: Option<String>,
    /// Logs for which there was no watch left.
    refused: HashSet<PathBuf>,
    directories: HashMap<PathBuf, Directory>,
    by_descriptor: HashMap<i32, PathBuf>,
    wanted: HashSet<PathBuf>,
}

/// A directory with watched logs.
struct Directory {
    descriptor: i32,
    logs: usize,
}

/// Changes since the last call.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// Watched logs that were written, or whose name refers to another file.
    pub(super) logs: HashSet<PathBuf>,
    /// Whether events were lost, so that all logs must be read.
    pub(super) lost: bool,
}

impl Watch {
    pub(super) fn new() -> Watch {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let broken = queue.as_ref().err().map(|error| {
            format!(
                "inotify: {error}; raise fs.inotify.max_user_instances and restart flowcond: until then logs are polled"
            )
        });
        Watch {
            queue: queue.ok(),
            broken,
            refused: HashSet::new(),
            directories: HashMap::new(),
            by_descriptor: HashMap::new(),
            wanted: HashSet::new(),
        }
    }

    /// Returns why logs are only polled, if so.
    pub(super) fn problem(&self) -> Option<&str> {
        self.broken.as_deref().or((!self.refused.is_empty()).then_some(NO_WATCHES))
    }

    /// Whether any log is watched.
    pub(super) fn is_watching(&self) -> bool {
        !self.wanted.is_empty()
    }

    pub(super) fn add(&mut self, log: &Path) {
        let (Some(queue), Some(directory)) = (&self.queue, log.parent()) else { return };
        if self.wanted.contains(log) {
            return;
        }
        match self.directories.get_mut(directory) {
            Some(known) => known.logs += 1,
            None => match inotify::add_watch(queue, directory, CHANGES) {
                Ok(descriptor) => {
                    self.directories.insert(directory.to_owned(), Directory { descriptor, logs: 1 });
                    self.by_descriptor.insert(descriptor, directory.to_owned());
                }
                // Exhausted watches are reported.
                Err(Errno::NOSPC | Errno::NOMEM) => {
                    self.refused.insert(log.to_owned());
                    return;
                }
                // A missing directory is polled.
                Err(_) => return,
            },
        }
        self.refused.remove(log);
        self.wanted.insert(log.to_owned());
    }

    pub(super) fn remove(&mut self, log: &Path) {
        self.refused.remove(log);
        if !self.wanted.remove(log) {
            return;
        }
        let Some(directory) = log.parent() else { return };
        let Some(known) = self.directories.get_mut(directory) else { return };
        known.logs -= 1;
        if known.logs == 0 {
            let descriptor = known.descriptor;
            self.directories.remove(directory);
            self.by_descriptor.remove(&descriptor);
            if let Some(queue) = &self.queue {
                // Fails if the directory and thus its watch have been removed.
                let _ = inotify::remove_watch(queue, descriptor);
            }
        }
    }

    /// Returns the changes since the last call.
    pub(super) fn take_dirty(&mut self) -> Dirty {
        let mut dirty = Dirty::default();
        let Some(queue) = &self.queue else { return dirty };
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut events = Reader::new(queue, &mut buffer);
        for _ in 0..EVENTS_AT_MOST {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => return dirty,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                dirty.lost = true;
            }
            let Some(directory) = self.by_descriptor.get(&event.wd()) else { continue };
            let Some(name) = event.file_name() else { continue };
            let log = directory.join(OsStr::from_bytes(name.to_bytes()));
            if self.wanted.contains(&log) {
                dirty.logs.insert(log);
            }
        }
        dirty.lost = true;
        dirty
    }
}
