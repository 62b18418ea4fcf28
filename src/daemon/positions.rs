//! Log positions, saved to the store a few jobs at a time.
//!
//! A checkpoint is some kilobytes of text, so those of all jobs at once would be megabytes, and memory would stay at that peak.
//! So each job has its own timer, which starts with the first unsaved byte.

use super::job::{Job, Jobs};
use model::{ContainerId, Millis};
use std::time::Duration;
use store::ReadPosition;

/// How often the loop looks for positions that are due.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Age at which a position is saved. The log data since the last saved position is read again after a crash.
pub(super) const SAVED_AFTER: Millis = Millis::from_secs(30);
/// Positions in one request, unless there are so many jobs that some would wait twice as long.
const AT_ONCE: usize = 16;
const LOOKS_FOR_ALL: usize = 30;

/// Position in the log of a container.
pub(super) type Position = (ContainerId, ReadPosition);

/// Saves the positions that are due, oldest first. `save` returns whether it accepted them.
pub(super) fn save_due(jobs: &mut Jobs, now: Millis, save: impl FnOnce(Vec<Position>) -> bool) {
    let since = |job: &Job| job.unsaved_since.filter(|since| now.since(*since) >= SAVED_AFTER);
    let mut due: Vec<(Millis, ContainerId)> =
        jobs.iter().filter_map(|(id, job)| Some((since(job)?, id.clone()))).collect();
    due.sort();
    due.truncate(AT_ONCE.max(jobs.len().div_ceil(LOOKS_FOR_ALL)));
    let batch = of(jobs, due.iter().map(|(_, id)| id));
    // If the queue is full, a later look saves these positions.
    if batch.is_empty() || save(batch) {
        for (_, id) in &due {
            if let Some(job) = jobs.get_mut(id) {
                job.unsaved_since = None;
            }
        }
    }
}

/// Returns all unsaved positions in batches, for the end of the daemon.
pub(super) fn unsaved(jobs: &Jobs) -> Vec<Vec<Position>> {
    let unsaved: Vec<&ContainerId> =
        jobs.iter().filter(|(_, job)| job.unsaved_since.is_some()).map(|(id, _)| id).collect();
    unsaved.chunks(AT_ONCE).map(|some| of(jobs, some.iter().copied())).collect()
}

fn of<'a>(jobs: &Jobs, ids: impl IntoIterator<Item = &'a ContainerId>) -> Vec<Position> {
    ids.into_iter().filter_map(|id| Some((id.clone(), jobs.get(id)?.position()?))).collect()
}
