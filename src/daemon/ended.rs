//! What is kept of containers that ended, in case they start again.
//!
//! An engine keeps our update over a restart of the container. Its record is put back when the container ends, but an engine that
//! is going down itself, or slow, lets the container start again first: then what stands in the new run is our leftover, and its
//! original is the one of the run before. Imports: limits, host's clock and store, model.

use super::job::Job;
use crate::host::node;
use crate::host::store::LogPlace;
use crate::limits::LastRun;
use crate::model::{ContainerId, Runtime};
use std::collections::BTreeMap;

/// Containers beyond this many are forgotten, the oldest id first.
const KEPT_AT_MOST: usize = 4096;

#[derive(Default)]
pub(super) struct Ended {
    last: BTreeMap<ContainerId, Left>,
}

/// How a container was left.
struct Left {
    place: Option<LogPlace>,
    /// `None` where nothing of ours outlives a run.
    limits: Option<LastRun>,
}

impl Ended {
    /// Keeps what a next run of this container needs.
    pub fn keep(&mut self, job: &Job) {
        let limits = (job.target.runtime == Runtime::Docker).then(|| job.ledger.last_run());
        self.last.insert(job.id().clone(), Left { place: job.place, limits });
        if self.last.len() > KEPT_AT_MOST {
            self.last.pop_first();
        }
    }

    /// Its log was read on after its end.
    pub fn read_on(&mut self, job: &Job) {
        if let Some(last) = self.last.get_mut(job.id()) {
            last.place = job.place;
        }
    }

    /// Gives a container that was just found what was kept of its last run. What the journal said already stands.
    pub fn return_to(&mut self, job: &mut Job) {
        let Some(last) = self.last.remove(job.id()) else { return };
        job.place = job.place.or(last.place);
        if let Some(limits) = last.limits {
            job.ledger.begin_after(limits, node::now());
        }
    }
}
