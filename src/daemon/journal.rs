//! The store as the actuator uses it: originals are recorded before changes, and a store that cannot be used is handled.
//!
//! Limits may not be changed without a journal. If the state directory cannot be used, the daemon only watches, and reports that.

use super::target::Target;
use limits::Journalled;
use limits::machine::{self, Memory};
use model::{Adoption, ContainerId, Setting, TrainingId};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Freezable, LogPlace, Original, ReadPosition, Store, StoreError, UserUse};
use tail::Position;

/// The journal, or why there is none.
pub(super) struct Journal {
    store: Result<Store, String>,
}

/// State that an earlier daemon left behind.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// Originals, values written since, and adoptions.
    pub limits: Memory,
    /// When the latest journal was damaged, Unix milliseconds: the originals of containers that existed then are lost.
    pub lost_at_unix_ms: Option<u64>,
    /// Log positions.
    pub positions: BTreeMap<ContainerId, ReadPosition>,
    /// Curves of completed trainings, oldest first.
    pub prior_runs: Vec<(TrainingId, String)>,
    /// What users had used.
    pub uses: Vec<UserUse>,
    /// Whether jobs may be frozen.
    pub may_be_frozen: bool,
    /// Problems that an operator must know.
    pub notices: Vec<String>,
}

impl Journal {
    /// Opens the state directory, for a restore: it is an error if anything in it cannot be used. `None` if there is no journal.
    pub(crate) fn open_existing(directory: &Path) -> Result<Option<(Journal, Remembered)>, StoreError> {
        if Store::is_there(directory)? { Journal::open_usable(directory).map(Some) } else { Ok(None) }
    }

    /// Opens the state directory. It is an error only if another daemon holds it, or a later version wrote it.
    pub(crate) fn open(directory: &Path) -> Result<(Journal, Remembered), StoreError> {
        match Journal::open_usable(directory) {
            Ok(opened) => Ok(opened),
            Err(error @ (StoreError::InUse { .. } | StoreError::Newer { .. })) => Err(error),
            Err(error) => {
                let why = until_restart(error);
                let notice = format!("watching only, nothing is changed: {why}");
                let remembered = Remembered { notices: vec![notice], ..Remembered::default() };
                Ok((Journal { store: Err(why) }, remembered))
            }
        }
    }

    fn open_usable(directory: &Path) -> Result<(Journal, Remembered), StoreError> {
        let opened = Store::open(directory)?;
        let mut remembered = Remembered::default();
        if let Some(path) = &opened.set_aside {
            remembered.notices.push(format!(
                "the journal was damaged and set aside as {}; containers that exist are left alone, also \
                 after a restart: check their limits, then `flowctl govern NAME`",
                path.display()
            ));
        }
        recall(&opened.store, &mut remembered)?;
        Ok((Journal { store: Ok(opened.store) }, remembered))
    }

    /// Makes the originals and the values to be written durable. Returns the originals in the journal.
    pub(crate) fn journal_changes(&mut self, rows: &[(Original, Vec<Setting>)]) -> Vec<Result<Journalled, String>> {
        let all = |why: String| rows.iter().map(|_| Err(why.clone())).collect();
        let store = match &mut self.store {
            Ok(store) => store,
            Err(why) => return all(why.clone()),
        };
        let journalled = |original: Original| journalled_of(&original);
        match store.journal_changes(rows) {
            Ok(originals) => originals.into_iter().map(|read| read.map(journalled).map_err(told)).collect(),
            Err(error) => all(told(error)),
        }
    }

    /// Returns what the journal knows of a container.
    pub(crate) fn original(&self, id: &ContainerId) -> Result<Option<Original>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        store.original(id).map_err(told)
    }

    /// Returns the values of ours that may be in force in a container.
    pub(crate) fn written(&self, id: &ContainerId) -> Result<Vec<Setting>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        store.written(id).map_err(told)
    }

    pub(crate) fn forget(&mut self, id: &ContainerId) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.forget(id).map_err(told)
    }

    /// Records durably that a job may be frozen, or that its engine has paused it.
    pub(crate) fn record_freezable(&mut self, job: &Freezable) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.record_freezable(job).map_err(told)
    }

    /// Removes the record of a job that is thawed and will not be frozen.
    pub(crate) fn forget_freezable(&mut self, id: &ContainerId) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.forget_freezable(id).map_err(told)
    }

    /// Returns the jobs that may be frozen.
    pub(crate) fn freezable(&self) -> Result<Vec<Freezable>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        store.freezable().map_err(told)
    }

    /// Returns the adopted containers.
    #[cfg(test)]
    pub(crate) fn adopted(&self) -> Result<BTreeMap<ContainerId, Adoption>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        store.adopted().map_err(told)
    }

    /// Records durably that a container is adopted.
    pub(crate) fn adopt(&mut self, id: &ContainerId, adoption: &Adoption) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.adopt(id, adoption).map_err(told)
    }

    /// Removes the adoption of a container.
    pub(crate) fn disown(&mut self, id: &ContainerId) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.disown(id).map_err(told)
    }

    /// Returns all containers to restore, with the values of ours that may be in force.
    pub(crate) fn everything(&self) -> Result<Vec<(Original, Vec<Setting>)>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        let originals = store.originals().map_err(told)?.readable;
        let with_written = |original: Original| {
            let written = store.written(&original.id)?;
            Ok((original, written))
        };
        originals.into_iter().map(with_written).collect::<Result<_, StoreError>>().map_err(told)
    }

    /// Saves log positions; after a failure, lines are read again by the next daemon.
    pub(crate) fn save_positions(&mut self, batch: &[(ContainerId, ReadPosition)]) {
        let Ok(store) = self.store.as_mut() else { return };
        if let Err(error) = store.save_positions(batch.iter().map(|(id, position)| (id, position))) {
            tracing::warn!(%error, "log positions are not saved");
        }
    }

    /// Saves the curve of a completed training; after a failure, the next daemon does not know it.
    pub(crate) fn save_prior_run(&mut self, training: TrainingId, curve: &str) {
        let Ok(store) = self.store.as_mut() else { return };
        if let Err(error) = store.save_prior_run(training, unix_ms(), curve) {
            tracing::warn!(%error, "the curve of an ended training is not saved");
        }
    }

    /// Saves what users have used; after a failure, the next daemon knows what was saved before.
    pub(crate) fn save_uses(&mut self, uses: &[UserUse]) {
        let Ok(store) = self.store.as_mut() else { return };
        if let Err(error) = store.save_uses(uses) {
            tracing::warn!(%error, "what users have used is not saved");
        }
    }

    /// Removes the log positions of all other containers.
    pub(crate) fn keep_positions(&mut self, kept: &[ContainerId]) {
        let Ok(store) = self.store.as_mut() else { return };
        if let Err(error) = store.drop_positions_except(&kept.iter().map(ContainerId::as_str).collect()) {
            tracing::warn!(%error, "old log positions are not dropped");
        }
    }
}

/// Returns the error with the whole next step: the state directory is opened only at the start.
fn until_restart(error: StoreError) -> String {
    if error.is_damage() {
        return format!("{error}; restart flowcond, which sets the file aside and begins a new one");
    }
    format!("{error}; then restart flowcond")
}

/// Returns an error of an open journal with its next step. A release needs no journal.
fn told(error: StoreError) -> String {
    if error.is_damage() {
        return format!(
            "{error}; `flowctl release --all` restores the limits that this flowcond remembers; then restart it: it sets the file \
             aside and begins a new one"
        );
    }
    error.to_string()
}

fn recall(store: &Store, remembered: &mut Remembered) -> Result<(), StoreError> {
    let originals = store.originals()?;
    for original in originals.readable {
        let written = store.written(&original.id)?;
        let journalled = journalled_of(&original);
        let Original { id, runtime, mark, .. } = original;
        remembered.limits.originals.insert(id, machine::Remembered { runtime, mark, original: journalled, written });
    }
    remembered.limits.damaged = originals.damaged.into_iter().collect();
    remembered.limits.adopted = store.adopted()?;
    remembered.lost_at_unix_ms = store.lost_at()?;
    remembered.positions = store.positions()?;
    remembered.prior_runs = store.prior_runs()?;
    remembered.uses = store.uses()?;
    remembered.may_be_frozen = !store.freezable()?.is_empty();
    Ok(())
}

/// Converts a row of the journal to the form that operations use.
pub(super) fn journalled_of(original: &Original) -> Journalled {
    Journalled { original: original.limits, engine: original.engine }
}

/// Returns the journal's row for a container.
pub(super) fn original_of(target: &Target, journalled: &Journalled) -> Original {
    Original {
        id: target.id.clone(),
        runtime: target.runtime,
        name: target.name.clone(),
        cgroup: target.cgroup().path().to_string_lossy().into_owned(),
        boot_id: node::boot_id().unwrap_or_default(),
        started_unix_ms: target.started_unix_ms,
        remembered_unix_ms: unix_ms(),
        limits: journalled.original,
        engine: journalled.engine,
        mark: target.mark.clone(),
    }
}

/// Current wall-clock time, for display and for the journal; decisions use the monotonic clock.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Converts a position of the tailer to that of the store.
pub(super) fn file_place(position: Position) -> LogPlace {
    let Position { device, inode, born_ns, offset } = position;
    LogPlace::File { device, inode, born_ns, offset }
}
