//! How far each log was read, saved beside the journal a few jobs at a time.
//!
//! A checkpoint is some kilobytes of text: those of all jobs at once would be megabytes, for a moment and therefore for ever. So
//! each job has a clock of its own, which begins with the first byte that is not saved. Imports: the actuator, model.

use super::actuator::Order;
use super::governing::Governing;
use super::job::Job;
use crate::host::store::ReadPosition;
use crate::model::{ContainerId, Millis};
use std::time::Duration;

/// How often the loop looks whose time has come.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What a killed daemon read since is read once more.
const SAVED_AFTER: Millis = Millis::from_secs(30);
/// Positions in one order, unless there are so many jobs that some would wait twice as long.
const AT_ONCE: usize = 16;
const LOOKS_FOR_ALL: usize = 30;

impl Governing {
    /// Saves those that have waited long enough, the ones that waited longest first.
    pub(super) fn save_due_positions(&mut self, now: Millis) {
        // A daemon that just began has not found everything yet.
        if self.positions_outlive_jobs && now.since(self.since) >= SAVED_AFTER {
            let kept = self.jobs.keys().cloned().collect();
            self.positions_outlive_jobs = !self.actuator.order(Order::KeepPositions(kept));
        }
        let since = |job: &Job| job.unsaved_since.filter(|since| now.since(*since) >= SAVED_AFTER);
        let mut due: Vec<(Millis, ContainerId)> =
            self.jobs.iter().filter_map(|(id, job)| Some((since(job)?, id.clone()))).collect();
        due.sort();
        due.truncate(AT_ONCE.max(self.jobs.len().div_ceil(LOOKS_FOR_ALL)));
        let batch = self.positions_of(due.iter().map(|(_, id)| id));
        // A full queue means that a later look has these bytes too.
        if batch.is_empty() || self.actuator.order(Order::Positions(batch)) {
            for (_, id) in &due {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.unsaved_since = None;
                }
            }
        }
    }

    /// All that is to be saved at the end, in pieces of the same size.
    pub(super) fn last_positions(&self) -> Vec<Order> {
        let unsaved: Vec<&ContainerId> =
            self.jobs.iter().filter(|(_, job)| job.unsaved_since.is_some()).map(|(id, _)| id).collect();
        unsaved.chunks(AT_ONCE).map(|some| Order::Positions(self.positions_of(some.iter().copied()))).collect()
    }

    fn positions_of<'a>(&self, ids: impl IntoIterator<Item = &'a ContainerId>) -> Vec<(ContainerId, ReadPosition)> {
        ids.into_iter().filter_map(|id| Some((id.clone(), self.jobs.get(id)?.position()?))).collect()
    }
}
