//! Jobs that ended: their logs are drained for a short time, and the log positions are kept in case the containers start again.

use super::job::Job;
use model::{ContainerId, Millis};
use std::collections::BTreeMap;
use store::LogPlace;

/// How long the log of an ended job is drained.
const DRAIN_FOR: Millis = Millis::from_secs(3);
/// Log positions that are kept; beyond, the one with the lowest id is dropped.
const PLACES_AT_MOST: usize = 4096;

/// Jobs whose logs are being drained, and the log positions of all that ended.
#[derive(Default)]
pub(super) struct Draining {
    jobs: BTreeMap<ContainerId, DrainedJob>,
    places: BTreeMap<ContainerId, LogPlace>,
}

/// A job whose log is being drained.
struct DrainedJob {
    job: Box<Job>,
    exit_code: Option<i32>,
    until: Millis,
}

impl Draining {
    /// Starts to drain the log of a job that ended.
    pub(crate) fn start(&mut self, job: Box<Job>, exit_code: Option<i32>, now: Millis) {
        self.jobs.insert(job.id().clone(), DrainedJob { job, exit_code, until: now.after(DRAIN_FOR) });
    }

    /// Returns a job whose log is being drained.
    pub(crate) fn job(&mut self, id: &ContainerId) -> Option<&mut Job> {
        self.jobs.get_mut(id).map(|drained| drained.job.as_mut())
    }

    /// Returns all jobs whose logs are being drained.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(|drained| drained.job.as_ref())
    }

    /// Removes and returns the jobs whose time is over.
    pub(crate) fn done_by(&mut self, now: Millis) -> Vec<(Box<Job>, Option<i32>)> {
        let ids: Vec<ContainerId> =
            self.jobs.iter().filter(|(_, drained)| now >= drained.until).map(|(id, _)| id.clone()).collect();
        ids.iter().filter_map(|id| self.done(id)).collect()
    }

    /// Removes and returns a job before its time, because its container starts again.
    pub(crate) fn done(&mut self, id: &ContainerId) -> Option<(Box<Job>, Option<i32>)> {
        let DrainedJob { job, exit_code, .. } = self.jobs.remove(id)?;
        if let Some(place) = job.place {
            self.places.insert(id.clone(), place);
            if self.places.len() > PLACES_AT_MOST {
                self.places.pop_first();
            }
        }
        Some((job, exit_code))
    }

    /// Returns the log position of an earlier run of this container.
    pub(crate) fn place(&mut self, id: &ContainerId) -> Option<LogPlace> {
        self.places.remove(id)
    }
}
