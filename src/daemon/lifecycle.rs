//! Where jobs begin and end, and what is done about all of them every second. Imports: the loop, jobs, host's clock, limits, model.

use super::actuator::Order;
use super::governing::Governing;
use super::job::Job;
use super::logs::feed::LogFeed;
use super::positions::{self, SAVED_AFTER};
use crate::host::node;
use crate::limits::machine;
use crate::model::{ContainerId, EventKind, Millis};

/// Jobs beyond this many are not governed: they keep what they have.
const JOBS_AT_MOST: usize = 4096;

/// A snapshot for a job that was too short for the usual ones is worth its cost among so many.
const SHORT_ONES_AMONG: usize = 256;

impl Governing {
    /// Begins to govern a container, or another run of it.
    pub(super) fn begin(&mut self, found: Result<(Job, Option<LogFeed>), String>, id: &ContainerId) {
        let (mut job, feed) = match found {
            Ok(found) => found,
            Err(why) => {
                tracing::debug!(%id, why, "not governed: it ended, or its cgroup cannot be seen");
                return self.tell_limits(machine::Event::CannotGovern(id.clone()));
            }
        };
        if let Some(known) = self.jobs.get(id) {
            if known.run == job.run {
                return;
            }
            self.end(id, None); // it was restarted, and its end was not told
        }
        if self.jobs.len() >= JOBS_AT_MOST {
            return self
                .publisher
                .warn(&format!("more than {JOBS_AT_MOST} containers: those beyond are left as they are"));
        }
        if let Some((earlier, exit_code)) = self.departed.done(id) {
            self.learn_from(&earlier, exit_code);
        }
        let goes_on = match self.positions.remove(id) {
            Some(position) => {
                job.read_on_from(&position);
                false
            }
            None => self.go_on(&mut job),
        };
        job.place = job.place.or(self.departed.place(id));
        job.tracker.lean_on(job.training.map(|training| self.library.runs_of(training)).unwrap_or_default());
        if let Some(feed) = feed {
            job.log_origin = job.log_origin.take().or_else(|| self.logs.origin(&feed, job.run.0));
            self.logs.follow(id, feed, job.place);
        }
        let name = job.target.name.clone();
        let found = job.found(job.target.started_unix_ms < self.since_unix_ms);
        self.jobs.insert(id.clone(), Box::new(job));
        let known = if goes_on { "; what another node knew of it is known here" } else { "" };
        self.publisher.tell(EventKind::Started, Some((id.as_str(), &name)), format!("{name} is governed{known}"));
        self.tell_limits(machine::Event::Found(Box::new(found)));
    }

    /// Goes on with what another node knew of the job; whether that was sent and fits.
    fn go_on(&mut self, job: &mut Job) -> bool {
        let record = job.service.as_ref().and_then(|service| self.carried.take(service));
        let Some(went_on) = record.map(|record| job.go_on_from(&record, node::now())) else { return false };
        if let Err(why) = &went_on {
            let name = &job.target.name;
            tracing::warn!(id = %job.id(), name, "what another node knew of it is not used, and it begins anew: {why}");
        }
        went_on.is_ok()
    }

    /// Forgets a container that ended, but not what it taught.
    pub(super) fn end(&mut self, id: &ContainerId, exit_code: Option<i32>) {
        // The history knows jobs by snapshots: one that was too short for any is in this one.
        if self.jobs.get(id).is_some_and(|job| !job.was_published) && self.jobs.len() <= SHORT_ONES_AMONG {
            self.publish();
        }
        let job = self.dismiss(id, "ended");
        self.tell_limits(machine::Event::Ended(id.clone()));
        if let Some(job) = job {
            self.departed.depart(job, exit_code, node::now());
        }
    }

    /// Governs a container no longer, and says why; its log is the caller's to end.
    pub(super) fn dismiss(&mut self, id: &ContainerId, why: &str) -> Option<Box<Job>> {
        let job = self.jobs.remove(id)?;
        self.positions_outlive_jobs = true;
        let name = &job.target.name;
        self.publisher.tell(EventKind::Ended, Some((id.as_str(), name)), format!("{name} {why}"));
        self.tick_now();
        Some(job)
    }

    /// What is done every second.
    pub(super) fn learn_and_save(&mut self, now: Millis) {
        self.carried.forget_old(now);
        self.learn_from_departed(now);
        // A daemon that just began has not found everything yet.
        if self.positions_outlive_jobs && now.since(self.since) >= SAVED_AFTER {
            let kept = self.jobs.keys().cloned().collect();
            self.positions_outlive_jobs = !self.actuator.order(Order::KeepPositions(kept));
        }
        let actuator = &self.actuator;
        positions::save_due(&mut self.jobs, now, |batch| actuator.order(Order::Positions(batch)));
        self.claims.ask(&mut self.jobs, now);
        for (id, silence) in self.logs.silent() {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.log_health(Some(silence.to_owned()));
            }
        }
    }

    /// Has done with those whose logs have been read long enough.
    pub(super) fn learn_from_departed(&mut self, now: Millis) {
        for (job, exit_code) in self.departed.done_by(now) {
            self.learn_from(&job, exit_code);
        }
    }

    fn learn_from(&mut self, job: &Job, exit_code: Option<i32>) {
        self.logs.unfollow(job.id());
        let now = node::now();
        self.publisher.read_to_end(job.id(), job.tracker.peek(now));
        if let Some((service, record)) = job.service.as_ref().zip(job.record(now)) {
            self.carried.left(service, record, now);
        }
        if let Some((training, curve)) = self.library.learn_from(job, exit_code, now)
            && !self.actuator.order(Order::Learnt(training, curve))
        {
            tracing::warn!(id = %job.id(), "the curve of an ended training is not saved; only this daemon knows it");
        }
    }
}
