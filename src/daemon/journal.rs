//! The store as the actuator uses it: originals before changes, and an answer when there is no usable store.
//!
//! Without a journal nothing may be changed, so a state directory that cannot be used leaves the daemon watching only, and it says so.

use super::target::Target;
use crate::host::node;
use crate::host::store::{Freezable, LogPlace, Original, ReadPosition, Store, StoreError};
use crate::host::tail::Position;
use crate::limits::Promised;
use crate::limits::machine::{self, Memory};
use crate::model::{Adoption, ContainerId, Setting, TrainingId};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The journal, or why there is none.
pub(super) struct Journal {
    store: Result<Store, String>,
}

/// What an earlier daemon left behind.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// Originals, what was written since, and who is adopted.
    pub limits: Memory,
    /// How far logs were read.
    pub positions: BTreeMap<ContainerId, ReadPosition>,
    /// Curves of trainings that came to their end, the oldest first.
    pub prior_runs: Vec<(TrainingId, String)>,
    /// Some jobs may be frozen.
    pub may_be_frozen: bool,
    /// What an operator must know about it.
    pub notices: Vec<String>,
}

impl Journal {
    /// Whether there may be one: `false` only where it is sure that there is none.
    pub fn is_there(directory: &Path) -> bool {
        Store::is_there(directory)
    }

    /// Opens the state directory. Only a directory that another daemon holds, or a later version wrote, is an error.
    pub fn open(directory: &Path) -> Result<(Journal, Remembered), StoreError> {
        match Store::open(directory) {
            Ok(opened) => {
                let mut remembered = Remembered::default();
                remembered.limits.lost = opened.set_aside.is_some();
                if let Some(path) = &opened.set_aside {
                    remembered.notices.push(format!(
                        "the journal was damaged and set aside as {}; containers that run already are left alone: \
                         check their limits, then `flowctl govern NAME`",
                        path.display()
                    ));
                }
                if let Err(error) = recall(&opened.store, &mut remembered) {
                    remembered.notices.push(error.to_string());
                    return Ok((Journal { store: Err(error.to_string()) }, remembered));
                }
                Ok((Journal { store: Ok(opened.store) }, remembered))
            }
            Err(error @ (StoreError::InUse { .. } | StoreError::Newer { .. })) => Err(error),
            Err(error) => {
                let notice = format!("watching only, nothing is changed: {error}");
                let remembered = Remembered { notices: vec![notice], ..Remembered::default() };
                Ok((Journal { store: Err(error.to_string()) }, remembered))
            }
        }
    }

    /// Makes the originals durable, and what may stand from now on; the originals that hold are the answers.
    pub fn before_writing(&mut self, rows: &[(Original, Vec<Setting>)]) -> Vec<Result<Promised, String>> {
        let all = |why: String| rows.iter().map(|_| Err(why.clone())).collect();
        let store = match &mut self.store {
            Ok(store) => store,
            Err(why) => return all(why.clone()),
        };
        let promised = |original: Original| promised_of(&original);
        match store.before_writing(rows) {
            Ok(originals) => {
                originals.into_iter().map(|read| read.map(promised).map_err(|error| error.to_string())).collect()
            }
            Err(error) => all(error.to_string()),
        }
    }

    /// What is remembered of one container.
    pub fn original(&self, id: &ContainerId) -> Result<Option<Original>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        store.original(id).map_err(|error| error.to_string())
    }

    /// The values of ours that may stand in one container.
    pub fn written(&self, id: &ContainerId) -> Result<Vec<Setting>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        store.written(id).map_err(|error| error.to_string())
    }

    pub fn forget(&mut self, id: &ContainerId) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.forget(id).map_err(|error| error.to_string())
    }

    /// Makes it durable that a job may be frozen, or that its engine has paused it.
    pub fn note_freezable(&mut self, job: &Freezable) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.note_freezable(job).map_err(|error| error.to_string())
    }

    /// Forgets one that is thawed and will not be frozen.
    pub fn forget_freezable(&mut self, id: &ContainerId) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.forget_freezable(id).map_err(|error| error.to_string())
    }

    /// What may be frozen.
    pub fn freezable(&self) -> Result<Vec<Freezable>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        store.freezable().map_err(|error| error.to_string())
    }

    /// Containers without the label that are governed.
    #[cfg(test)]
    pub fn adopted(&self) -> Result<BTreeMap<ContainerId, Adoption>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        store.adopted().map_err(|error| error.to_string())
    }

    /// Makes it durable that a container is governed without the label.
    pub fn adopt(&mut self, id: &ContainerId, adoption: &Adoption) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.adopt(id, adoption).map_err(|error| error.to_string())
    }

    /// Makes it durable that it is not any more.
    pub fn disown(&mut self, id: &ContainerId) -> Result<(), String> {
        let store = self.store.as_mut().map_err(|why| why.clone())?;
        store.disown(id).map_err(|error| error.to_string())
    }

    /// All that has to be restored, with the values of ours that may stand.
    pub fn everything(&self) -> Result<Vec<(Original, Vec<Setting>)>, String> {
        let store = self.store.as_ref().map_err(|why| why.clone())?;
        let originals = store.originals().map_err(|error| error.to_string())?.readable;
        let with_written = |original: Original| {
            let written = store.written(&original.id)?;
            Ok((original, written))
        };
        originals.into_iter().map(with_written).collect::<Result<_, StoreError>>().map_err(|error| error.to_string())
    }

    /// Saves how far logs were read; a failure only means that lines are read again.
    pub fn save_positions(&mut self, batch: &[(ContainerId, ReadPosition)]) {
        let Ok(store) = self.store.as_mut() else { return };
        if let Err(error) = store.save_positions(batch.iter().map(|(id, position)| (id, position))) {
            tracing::warn!(%error, "log positions are not saved");
        }
    }

    /// Saves the curve of a training that came to its end; a failure only means that the next daemon does not know it.
    pub fn save_prior_run(&mut self, training: TrainingId, curve: &str) {
        let Ok(store) = self.store.as_mut() else { return };
        if let Err(error) = store.save_prior_run(training, unix_ms(), curve) {
            tracing::warn!(%error, "the curve of an ended training is not saved");
        }
    }

    /// Drops the log positions of all containers but these.
    pub fn keep_positions(&mut self, kept: &[ContainerId]) {
        let Ok(store) = self.store.as_mut() else { return };
        if let Err(error) = store.drop_positions_except(&kept.iter().map(ContainerId::as_str).collect()) {
            tracing::warn!(%error, "old log positions are not dropped");
        }
    }
}

fn recall(store: &Store, remembered: &mut Remembered) -> Result<(), StoreError> {
    let originals = store.originals()?;
    for original in originals.readable {
        let written = store.written(&original.id)?;
        let promised = promised_of(&original);
        let Original { id, runtime, mark, .. } = original;
        remembered.limits.originals.insert(id, machine::Remembered { runtime, mark, original: promised, written });
    }
    remembered.limits.damaged = originals.damaged.into_iter().collect();
    remembered.limits.adopted = store.adopted()?;
    remembered.positions = store.positions()?;
    remembered.prior_runs = store.prior_runs()?;
    remembered.may_be_frozen = !store.freezable()?.is_empty();
    Ok(())
}

/// A row of the journal, as operations know it.
pub(super) fn promised_of(original: &Original) -> Promised {
    Promised { original: original.limits, engine: original.engine }
}

/// What the journal is to remember of a container.
pub(super) fn original_of(target: &Target, promised: &Promised) -> Original {
    Original {
        id: target.id.clone(),
        runtime: target.runtime,
        name: target.name.clone(),
        cgroup: target.cgroup().path().to_string_lossy().into_owned(),
        boot_id: node::boot_id().unwrap_or_default(),
        started_unix_ms: target.started_unix_ms,
        remembered_unix_ms: unix_ms(),
        limits: promised.original,
        engine: promised.engine,
        mark: target.mark.clone(),
    }
}

/// Now, for people and for the journal; decisions use the monotonic clock.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A log position as the tailer knows it.
pub(super) fn file_place(position: Position) -> LogPlace {
    let Position { device, inode, born_ns, offset } = position;
    LogPlace::File { device, inode, born_ns, offset }
}
