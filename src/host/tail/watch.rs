//! One inotify instance for all quiet logs: it says which of them to look at, and wakes the reader once.

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the watching thread and the reader share.
#[derive(Debug, Default)]
struct Shared {
    /// Logs that are watched.
    wanted: HashSet<PathBuf>,
    /// Those of them that were written since the last look.
    dirty: HashSet<PathBuf>,
    /// Events were lost: look at everything.
    lost: bool,
}

/// The watched logs. A log is watched through its directory, so that a rename is seen.
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    problem: Option<String>,
    directories: HashMap<PathBuf, usize>,
    shared: Arc<Mutex<Shared>>,
}

impl Watch {
    /// `wake` is called when the first log becomes dirty after a look, on the watching thread.
    pub(super) fn new(wake: impl Fn() + Send + 'static) -> Watch {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let notice = Arc::clone(&shared);
        let watcher = notify::recommended_watcher(move |event| {
            if mark(&mut locked(&notice), event) {
                wake();
            }
        });
        let problem = watcher.as_ref().err().map(|error| error.to_string());
        Watch { watcher: watcher.ok(), problem, directories: HashMap::new(), shared }
    }

    /// Why logs are only looked at by the clock, if so.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) fn add(&mut self, log: &Path) {
        let Some(directory) = log.parent() else { return };
        if !locked(&self.shared).wanted.insert(log.to_owned()) {
            return;
        }
        let logs = self.directories.entry(directory.to_owned()).or_default();
        *logs += 1;
        if *logs == 1 {
            let watched = self.watcher.as_mut().map(|watcher| watcher.watch(directory, RecursiveMode::NonRecursive));
            if let Some(Err(error)) = watched {
                // A folder that is not there yet is looked for by the clock; a full table of watches is worth a word.
                if !matches!(error.kind, notify::ErrorKind::PathNotFound | notify::ErrorKind::Io(_)) {
                    self.problem = Some(error.to_string());
                }
                self.directories.remove(directory);
                locked(&self.shared).wanted.remove(log);
            }
        }
    }

    pub(super) fn remove(&mut self, log: &Path) {
        if !locked(&self.shared).wanted.remove(log) {
            return;
        }
        let Some(directory) = log.parent() else { return };
        let Some(logs) = self.directories.get_mut(directory) else { return };
        *logs -= 1;
        if *logs == 0 {
            self.directories.remove(directory);
            if let Some(watcher) = &mut self.watcher {
                // The directory may be gone, and its watch with it.
                let _ = watcher.unwatch(directory);
            }
        }
    }

    /// The logs written since the last call, and whether all must be looked at.
    pub(super) fn take_dirty(&mut self) -> (HashSet<PathBuf>, bool) {
        let mut shared = locked(&self.shared);
        (std::mem::take(&mut shared.dirty), std::mem::take(&mut shared.lost))
    }
}

/// Notes what an event says; whether the reader is to be woken.
fn mark(shared: &mut Shared, event: notify::Result<notify::Event>) -> bool {
    let asleep = shared.dirty.is_empty() && !shared.lost;
    match event {
        Ok(event) if event.need_rescan() => shared.lost = true,
        // Opening and reading a log does not change it.
        Ok(event) if matches!(event.kind, EventKind::Access(_)) => return false,
        Ok(event) => {
            let logs = event.paths.into_iter().filter(|path| shared.wanted.contains(path));
            shared.dirty.extend(logs.collect::<Vec<_>>());
        }
        Err(_) => shared.lost = true,
    }
    asleep && (shared.lost || !shared.dirty.is_empty())
}

/// A panic elsewhere leaves sets of paths as good as they were.
fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
