//! The daemon's side: which scopes run, from folders that their owners write.
//!
//! A folder is believed as far as the kernel confirms it: its process lives in a cgroup of the scope's own name, and runs as the
//! folder's owner (or the folder is root's). A cgroup of that name can only be made by somebody who may limit that process anyway.
//! Folders, and bytes of a record, are bounded.

use super::folder::Folder;
use super::registration::{ended, remove_cgroups};
use super::{Scope, ScopeError, prepare_directory, record};
use crate::model::ContainerId;
use notify::{RecursiveMode, Watcher};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// A scope came or went.
#[derive(Clone, Debug, PartialEq)]
pub enum ScopeEvent {
    /// It runs.
    Started(Scope),
    /// All its processes are gone.
    Ended(ContainerId),
}

/// Folders beyond this many are not looked at.
const SCOPES_AT_MOST: usize = 1024;
/// The folders are looked at this often, events or not: with more than a hundred of them in proportion less often, up to so many times.
const LATEST: Duration = Duration::from_secs(2);
const SCOPES_AT_FULL_PACE: f64 = 100.0;
const SLOWEST_PACE: f64 = 5.0;
/// Events within so long are answered by one look.
const GATHER: Duration = Duration::from_millis(20);

/// Watches a folder of scopes on a thread of its own; stops when dropped.
#[derive(Debug)]
pub struct ScopeWatch {
    stopped: Arc<AtomicBool>,
    wake: SyncSender<()>,
}

impl ScopeWatch {
    /// Begins to watch `directory`, which is made if need be. `tell` gets every running scope first, then what changes; it is called on the watching thread, may block it, and
    /// answers whether anybody still listens.
    ///
    /// # Errors
    /// [`ScopeError::Registration`] when the folder cannot be made or watched.
    pub fn start(
        directory: &Path,
        tell: impl FnMut(ScopeEvent) -> bool + Send + 'static,
    ) -> Result<ScopeWatch, ScopeError> {
        prepare_directory(directory)?;
        // One wake-up waits at most: a look answers all of them.
        let (wake, woken) = sync_channel(1);
        let watch = ScopeWatch { stopped: Arc::new(AtomicBool::new(false)), wake: wake.clone() };
        let scopes = Scopes { directory: directory.to_owned(), boot_id: record::this_boot(), running: BTreeMap::new() };
        let stopped = Arc::clone(&watch.stopped);
        let started = thread::Builder::new()
            .name("scopes".to_owned())
            .spawn(move || watch_until(&stopped, scopes, wake, &woken, tell));
        started.map_err(|error| ScopeError::registration("watching", directory, error))?;
        Ok(watch)
    }
}

impl Drop for ScopeWatch {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        let _ = self.wake.try_send(());
    }
}

fn watch_until(
    stopped: &AtomicBool,
    mut scopes: Scopes,
    wake: SyncSender<()>,
    woken: &Receiver<()>,
    mut tell: impl FnMut(ScopeEvent) -> bool,
) {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Looking opens the folder, and that must not cause the next look.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            let _ = wake.try_send(());
        }
    });
    if let Ok(watcher) = &mut watcher {
        // Without inotify the clock alone finds them.
        let _ = watcher.watch(&scopes.directory, RecursiveMode::NonRecursive);
    }
    loop {
        for event in scopes.look() {
            if stopped.load(Ordering::Acquire) || !tell(event) {
                return;
            }
        }
        let pace = (scopes.running.len() as f64 / SCOPES_AT_FULL_PACE).clamp(1.0, SLOWEST_PACE);
        if woken.recv_timeout(LATEST.mul_f64(pace)) == Err(RecvTimeoutError::Disconnected) {
            thread::sleep(LATEST); // no inotify: its sender is gone
        }
        if stopped.load(Ordering::Acquire) {
            return;
        }
        thread::sleep(GATHER);
        while woken.try_recv().is_ok() {}
    }
}

/// The scopes that run, as last seen.
struct Scopes {
    directory: PathBuf,
    boot_id: Option<String>,
    running: BTreeMap<PathBuf, (Folder, Scope)>,
}

impl Scopes {
    fn look(&mut self) -> Vec<ScopeEvent> {
        let mut events = self.look_for_ends();
        for path in self.folders() {
            if self.running.contains_key(&path) {
                continue;
            }
            let Ok(folder) = Folder::open(&path) else { continue };
            match folder.scope(self.boot_id.as_deref()).filter(confirmed) {
                Some(mut scope) => {
                    events.push(ScopeEvent::Started(scope.clone()));
                    scope.labels.clear(); // nobody asks this copy for them
                    self.running.insert(path, (folder, scope));
                }
                None => clear_remains(&folder, self.boot_id.as_deref()),
            }
        }
        events
    }

    fn look_for_ends(&mut self) -> Vec<ScopeEvent> {
        let gone: Vec<PathBuf> = self
            .running
            .iter()
            .filter(|(_, (folder, scope))| is_over(folder, scope))
            .map(|(path, _)| path.clone())
            .collect();
        gone.iter()
            .filter_map(|path| self.running.remove(path))
            .map(|(_, scope)| ScopeEvent::Ended(scope.name.id()))
            .collect()
    }

    fn folders(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        entries.take(SCOPES_AT_MOST).filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
    }
}

/// Whether a scope has ended. What one without its `flowctl` left behind is removed then.
fn is_over(folder: &Folder, scope: &Scope) -> bool {
    if !folder.stands() {
        return true;
    }
    if !folder.lock() {
        return false;
    }
    let over = ended(scope);
    if over {
        remove_cgroups(scope);
        folder.remove();
    }
    folder.unlock();
    over
}

/// Removes a folder that nobody holds and that stands for no running process.
fn clear_remains(folder: &Folder, boot_id: Option<&str>) {
    if !folder.lock() {
        return;
    }
    match folder.scope(boot_id) {
        Some(scope) if !ended(&scope) => {}
        Some(scope) => {
            remove_cgroups(&scope);
            folder.remove();
        }
        None => folder.remove(),
    }
    folder.unlock();
}

/// Whether the kernel confirms what a folder says: the process lives in the scope's cgroup, and is the owner's to have governed.
fn confirmed(scope: &Scope) -> bool {
    let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", scope.pid)).unwrap_or_default();
    let cgroup = format!("/{}", scope.cgroup_name());
    let is_there = read("cgroup").lines().any(|line| line.ends_with(&cgroup));
    let real_uid = read("status")
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|uids| uids.split_ascii_whitespace().next()?.parse().ok());
    is_there && (scope.uid == 0 || real_uid == Some(scope.uid))
}
