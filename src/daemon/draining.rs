//! Jobs that ended: their logs are drained for a short time, in which also their ends become known, and the log positions are kept in case
//! the containers start again.

use super::ended::Unpublished;
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
    /// Its end, until that is published.
    unpublished: Option<Unpublished>,
    until: Millis,
}

impl Draining {
    /// Starts to drain the log of a job that ended.
    pub(crate) fn start(&mut self, job: Box<Job>, end: Unpublished) {
        let until = end.at.after(DRAIN_FOR);
        self.jobs.insert(job.id().clone(), DrainedJob { job, unpublished: Some(end), until });
    }

    /// Takes the end of a job that is not published yet, if it is conclusive or `is_final`.
    pub(crate) fn take_end(&mut self, id: &ContainerId, is_final: bool) -> Option<(&Job, Unpublished)> {
        let drained = self.jobs.get_mut(id).filter(|it| is_final || it.job.ending.evidence.is_conclusive())?;
        Some((&drained.job, drained.unpublished.take()?))
    }

    /// Whether the end of this job is not published yet.
    pub(crate) fn has_unpublished_end(&self, id: &ContainerId) -> bool {
        self.jobs.get(id).is_some_and(|drained| drained.unpublished.is_some())
    }

    /// Returns the jobs whose ends were reported before `then` and are not published yet.
    pub(crate) fn unpublished_since(&self, then: Millis) -> Vec<ContainerId> {
        let is_due = |drained: &DrainedJob| drained.unpublished.as_ref().is_some_and(|end| end.at <= then);
        self.jobs.iter().filter(|(_, drained)| is_due(drained)).map(|(id, _)| id.clone()).collect()
    }

    /// Returns a job whose log is being drained.
    pub(crate) fn job(&mut self, id: &ContainerId) -> Option<&mut Job> {
        self.jobs.get_mut(id).map(|drained| drained.job.as_mut())
    }

    /// Returns all jobs whose logs are being drained.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(|drained| drained.job.as_ref())
    }

    /// Returns the jobs whose time is over.
    pub(crate) fn done_by(&self, now: Millis) -> Vec<ContainerId> {
        self.jobs.iter().filter(|(_, drained)| now >= drained.until).map(|(id, _)| id.clone()).collect()
    }

    /// Removes and returns a job, because its time is over or its container starts again.
    pub(crate) fn done(&mut self, id: &ContainerId) -> Option<Box<Job>> {
        let DrainedJob { job, .. } = self.jobs.remove(id)?;
        if let Some(place) = job.place {
            self.places.insert(id.clone(), place);
            if self.places.len() > PLACES_AT_MOST {
                self.places.pop_first();
            }
        }
        Some(job)
    }

    /// Returns the log position of an earlier run of this container.
    pub(crate) fn place(&mut self, id: &ContainerId) -> Option<LogPlace> {
        self.places.remove(id)
    }
}
