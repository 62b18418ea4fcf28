//! Jobs that ended: their logs are read to the ends for a moment, and where that was is kept in case they start again. Imports: jobs,
//! host's store, model.

use super::job::Job;
use crate::host::store::LogPlace;
use crate::model::{ContainerId, Millis};
use std::collections::BTreeMap;

/// The last lines of a job that ended are read by then.
const READ_ON: Millis = Millis::from_secs(3);
/// Places of containers beyond this many are forgotten, the lowest id first.
const PLACES_AT_MOST: usize = 4096;

/// Jobs that ended a moment ago, and the places of all that ended.
#[derive(Default)]
pub(super) struct Departed {
    reading: BTreeMap<ContainerId, Reading>,
    places: BTreeMap<ContainerId, LogPlace>,
}

/// A job whose log is read to its end.
struct Reading {
    job: Box<Job>,
    exit_code: Option<i32>,
    until: Millis,
}

impl Departed {
    /// Reads on in the log of a job that ended.
    pub fn depart(&mut self, job: Box<Job>, exit_code: Option<i32>, now: Millis) {
        self.reading.insert(job.id().clone(), Reading { job, exit_code, until: now.after(READ_ON) });
    }

    /// One whose log is still read.
    pub fn job(&mut self, id: &ContainerId) -> Option<&mut Job> {
        self.reading.get_mut(id).map(|reading| reading.job.as_mut())
    }

    /// Those whose logs are still read.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.reading.values().map(|reading| reading.job.as_ref())
    }

    /// Those of which enough was read by now.
    pub fn done_by(&mut self, now: Millis) -> Vec<(Box<Job>, Option<i32>)> {
        let ids: Vec<ContainerId> =
            self.reading.iter().filter(|(_, reading)| now >= reading.until).map(|(id, _)| id.clone()).collect();
        ids.iter().filter_map(|id| self.done(id)).collect()
    }

    /// One of which no more is read: it begins again.
    pub fn done(&mut self, id: &ContainerId) -> Option<(Box<Job>, Option<i32>)> {
        let Reading { job, exit_code, .. } = self.reading.remove(id)?;
        if let Some(place) = job.place {
            self.places.insert(id.clone(), place);
            if self.places.len() > PLACES_AT_MOST {
                self.places.pop_first();
            }
        }
        Some((job, exit_code))
    }

    /// Where the log of an earlier run of this container was left.
    pub fn place(&mut self, id: &ContainerId) -> Option<LogPlace> {
        self.places.remove(id)
    }
}
