//! How far each log was read, saved beside the journal a few jobs at a time.
//!
//! A checkpoint is some kilobytes of text: those of all jobs at once would be megabytes, for a moment and therefore for ever. So
//! each job has a clock of its own, which begins with the first byte that is not saved. Imports: jobs, host's store, model.

use super::job::{Job, Jobs};
use crate::host::store::ReadPosition;
use crate::model::{ContainerId, Millis};
use std::time::Duration;

/// How often the loop looks whose time has come.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What a killed daemon read since is read once more.
pub(super) const SAVED_AFTER: Millis = Millis::from_secs(30);
/// Positions in one order, unless there are so many jobs that some would wait twice as long.
const AT_ONCE: usize = 16;
const LOOKS_FOR_ALL: usize = 30;

/// How far the log of a container was read.
pub(super) type Position = (ContainerId, ReadPosition);

/// Saves those that have waited long enough, the ones that waited longest first. `save` says whether it could.
pub(super) fn save_due(jobs: &mut Jobs, now: Millis, save: impl FnOnce(Vec<Position>) -> bool) {
    let since = |job: &Job| job.unsaved_since.filter(|since| now.since(*since) >= SAVED_AFTER);
    let mut due: Vec<(Millis, ContainerId)> =
        jobs.iter().filter_map(|(id, job)| Some((since(job)?, id.clone()))).collect();
    due.sort();
    due.truncate(AT_ONCE.max(jobs.len().div_ceil(LOOKS_FOR_ALL)));
    let batch = of(jobs, due.iter().map(|(_, id)| id));
    // A full queue means that a later look has these bytes too.
    if batch.is_empty() || save(batch) {
        for (_, id) in &due {
            if let Some(job) = jobs.get_mut(id) {
                job.unsaved_since = None;
            }
        }
    }
}

/// All that is to be saved at the end, in pieces of the same size.
pub(super) fn unsaved(jobs: &Jobs) -> Vec<Vec<Position>> {
    let unsaved: Vec<&ContainerId> =
        jobs.iter().filter(|(_, job)| job.unsaved_since.is_some()).map(|(id, _)| id).collect();
    unsaved.chunks(AT_ONCE).map(|some| of(jobs, some.iter().copied())).collect()
}

fn of<'a>(jobs: &Jobs, ids: impl IntoIterator<Item = &'a ContainerId>) -> Vec<Position> {
    ids.into_iter().filter_map(|id| Some((id.clone(), jobs.get(id)?.position()?))).collect()
}
