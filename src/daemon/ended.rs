//! Jobs that ended lately: their ends and their last statuses, so that people see what happened to them.

use super::job::Job;
use super::journal::unix_ms;
use model::{ContainerId, ENDS_WITHIN, EndedJob, JobEnd, JobStatus, Learning, Millis, Restarts};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Jobs that are kept; beyond, the one that ended first is dropped.
const KEPT_AT_MOST: usize = 64;
/// Ends of one job that are counted.
const COUNTED_AT_MOST: usize = 100;
/// So many ends within [`ENDS_WITHIN`] are a reason for a warning.
const OFTEN: u32 = 2;

/// The jobs that ended within [`ENDS_WITHIN`], and the number of all ends by their kinds.
pub(super) struct Ended {
    jobs: BTreeMap<ContainerId, Kept>,
    ends: BTreeMap<&'static str, u64>,
}

struct Kept {
    job: Arc<JobStatus>,
    end: JobEnd,
    at: Millis,
    /// Times of its ends, the last one included.
    ends: Vec<Millis>,
    runs_again: bool,
}

impl Kept {
    fn recent_ends(&self, now: Millis) -> u32 {
        let recent = self.ends.iter().filter(|at| now.since(**at) < ENDS_WITHIN);
        u32::try_from(recent.count()).unwrap_or(u32::MAX)
    }
}

impl Default for Ended {
    fn default() -> Ended {
        // A counter that is exported from the start has a rate from the first end on.
        Ended { jobs: BTreeMap::new(), ends: model::End::KINDS.into_iter().map(|kind| (kind, 0)).collect() }
    }
}

impl Ended {
    /// Adds the end of a job with its last status, if it was ever published.
    pub(crate) fn add(&mut self, id: &ContainerId, job: Option<JobStatus>, end: JobEnd, at: Millis) {
        *self.ends.entry(end.end.kind()).or_default() += 1;
        let Some(job) = job.map(Arc::new) else { return };
        let mut ends = self.jobs.remove(id).map(|earlier| earlier.ends).unwrap_or_default();
        ends.push(at);
        if ends.len() > COUNTED_AT_MOST {
            ends.remove(0);
        }
        self.jobs.insert(id.clone(), Kept { job, end, at, ends, runs_again: false });
        if self.jobs.len() > KEPT_AT_MOST
            && let Some(oldest) = self.jobs.iter().min_by_key(|(_, kept)| kept.at).map(|(id, _)| id.clone())
        {
            self.jobs.remove(&oldest);
        }
    }

    /// Notes that a job runs again: it is not shown as ended any more.
    pub(crate) fn runs_again(&mut self, id: &ContainerId) {
        if let Some(kept) = self.jobs.get_mut(id) {
            kept.runs_again = true;
        }
    }

    /// Updates what is known of the restarts of a running job. Returns a warning if it is restarted again and again.
    pub(crate) fn restarted(&self, id: &ContainerId, restarts: &mut Restarts, now: Millis) -> Option<String> {
        let earlier = self.jobs.get(id);
        restarts.recent_ends = earlier.map_or(0, |kept| kept.recent_ends(now));
        restarts.last = earlier.map(|kept| kept.end.clone());
        (restarts.recent_ends >= OFTEN).then(|| restarts.to_string())
    }

    /// Adds what was read from the log after the end.
    pub(crate) fn read_to_end(&mut self, job: &Job, learning: Learning) {
        if let Some(kept) = self.jobs.get_mut(job.id()) {
            let status = Arc::make_mut(&mut kept.job);
            status.observed.learning = learning;
            status.recent = job.tracker.recent();
            status.line = job.tracker.line().map(str::to_owned);
        }
    }

    /// Forgets the jobs that ended long ago.
    pub(crate) fn forget_old(&mut self, now: Millis) {
        self.jobs.retain(|_, kept| now.since(kept.at) < ENDS_WITHIN);
    }

    /// Returns the jobs that do not run again, latest end first.
    pub(crate) fn jobs(&self, now: Millis) -> Vec<EndedJob> {
        let shown = self.jobs.values().filter(|kept| !kept.runs_again && now.since(kept.at) < ENDS_WITHIN);
        let mut jobs: Vec<EndedJob> = shown
            .map(|kept| {
                let (job, end, at) = (kept.job.clone(), kept.end.clone(), kept.at);
                EndedJob { job, end, at, recent_ends: kept.recent_ends(now) }
            })
            .collect();
        jobs.sort_by_key(|ended| std::cmp::Reverse(ended.at));
        jobs
    }

    /// Returns the sweeps of the jobs that ended.
    pub(crate) fn sweeps(&self) -> impl Iterator<Item = &Arc<str>> {
        self.jobs.values().filter_map(|kept| kept.job.observed.trial.as_ref()).map(|trial| &trial.group)
    }

    /// Returns the number of ends since the daemon started, by [`model::End::kind`].
    pub(crate) fn ends(&self) -> &BTreeMap<&'static str, u64> {
        &self.ends
    }
}

/// A job whose end was reported and is not published yet.
pub(super) struct Unpublished {
    /// Its last status.
    pub status: Option<JobStatus>,
    /// When its end was reported.
    pub at: Millis,
    pub unix_ms: u64,
}

impl Unpublished {
    pub(crate) fn new(status: Option<JobStatus>, at: Millis) -> Unpublished {
        Unpublished { status, at, unix_ms: unix_ms() }
    }
}
