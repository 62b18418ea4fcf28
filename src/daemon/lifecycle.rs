//! Begin and end of jobs, and what is done for all of them every second.

use super::actuator::Request;
use super::event::Component;
use super::governing::Governing;
use super::job::Job;
use super::logs::feed::LogFeed;
use super::positions::{self, SAVED_AFTER};
use super::subject::Subject;
use cgroup::CgroupError;
use limits::machine::{self, Found};
use model::{ContainerId, EventKind, Millis};

/// With at most this many jobs, an extra snapshot is published for a job that was too short for a regular one.
const SHORT_ONES_AMONG: usize = 256;

impl Governing {
    /// Begins to govern a container, or another run of it.
    pub(super) fn begin(&mut self, found: Result<(Job, Option<LogFeed>), CgroupError>, id: &ContainerId) {
        let (mut job, feed) = match found {
            Ok(found) => found,
            Err(why) => {
                let has_ended = matches!(why, CgroupError::ProcessGone { .. });
                self.publisher.readable(id, (!has_ended).then(|| format!("container {id} is not governed: {why}")));
                return self.handle_limits(machine::Event::CannotGovern(id.clone()));
            }
        };
        self.publisher.readable(id, None);
        if let Some(known) = self.jobs.get(id) {
            if known.run == job.run {
                return;
            }
            self.end(id, None); // restarted without a report of its end
        }
        if self.jobs.len() >= self.jobs_at_most {
            let text = format!("more than {} containers: the others are not governed", self.jobs_at_most);
            return self.publisher.health(Component::Capacity, Some(text));
        }
        if let Some((earlier, exit_code)) = self.draining.done(id) {
            self.learn_from(&earlier, exit_code);
        }
        let is_resumed = match self.positions.remove(id) {
            Some(position) => {
                job.resume_log(&position);
                false
            }
            None => self.resume_moved(&mut job),
        };
        job.place = job.place.or(self.draining.place(id));
        job.tracker.use_prior_runs(job.training.map(|training| self.library.runs_of(training)).unwrap_or_default());
        if let Some(feed) = feed {
            job.log_origin = job.log_origin.take().or_else(|| self.logs.origin(&feed, job.run.0));
            self.logs.follow(id, feed, job.place);
        }
        let name = job.target.name.clone();
        let started = job.target.started_unix_ms;
        // Engines keep our limits over a restart, so the time of its start says nothing.
        let existed_at_loss = self.lost_at_unix_ms.is_some_and(|lost_at| job.created_unix_ms < lost_at);
        let found = Found { existed_at_loss, ..job.found(started < self.since_unix_ms) };
        self.jobs.insert(id.clone(), Box::new(job));
        let known = if is_resumed { "; it continues from the record of another node" } else { "" };
        self.publisher.emit(EventKind::Started, Some((id.as_str(), &name)), format!("{name} is governed{known}"));
        self.handle_limits(machine::Event::Found(Box::new(found)));
    }

    /// Continues from the record of another node. Returns whether there was one that fits.
    fn resume_moved(&mut self, job: &mut Job) -> bool {
        let record = job.service.as_ref().and_then(|service| self.carried.take(service));
        let Some(resumed) = record.map(|record| job.resume_from(&record, node::now())) else { return false };
        if let Err(why) = &resumed {
            let name = &job.target.name;
            tracing::warn!(id = %job.id(), name, "the record of another node does not fit, and the job starts anew: {why}");
        }
        resumed.is_ok()
    }

    /// Handles the end of a container; its log is still drained.
    pub(super) fn end(&mut self, id: &ContainerId, exit_code: Option<i32>) {
        // The history learns of jobs from snapshots. This one includes a job that was too short for a regular one.
        if self.jobs.get(id).is_some_and(|job| !job.was_published) && self.jobs.len() <= SHORT_ONES_AMONG {
            self.publish();
        }
        self.publisher.exited(id, exit_code);
        self.publisher.readable(id, None);
        let job = self.dismiss(id, "ended");
        self.handle_limits(machine::Event::Ended(id.clone()));
        if let Some(job) = job {
            self.draining.start(job, exit_code, node::now());
        }
    }

    /// Stops governing a container and publishes why; the caller ends the reading of its log.
    pub(super) fn dismiss(&mut self, id: &ContainerId, why: &str) -> Option<Box<Job>> {
        let job = self.jobs.remove(id)?;
        self.positions_outlive_jobs = true;
        let name = &job.target.name;
        self.publisher.emit(EventKind::Ended, Some((id.as_str(), name)), format!("{name} {why}"));
        self.tick_now();
        self.share_gpus(); // others may have been frozen for it
        Some(job)
    }

    /// Does the work of every second: learns from ended jobs, saves positions, reads claims, and checks logs.
    pub(super) fn learn_and_save(&mut self, now: Millis) {
        self.carried.forget_old(now);
        self.learn_from_drained(now);
        // A daemon that has just started has not found all containers yet.
        if self.positions_outlive_jobs && now.since(self.since) >= SAVED_AFTER {
            let kept = self.jobs.keys().cloned().collect();
            self.positions_outlive_jobs = !self.actuator.request(Request::KeepPositions(kept));
        }
        let actuator = &self.actuator;
        positions::save_due(&mut self.jobs, now, |batch| actuator.request(Request::SavePositions(batch)));
        self.claims.ask(&mut self.jobs, now);
        for (id, silence) in self.logs.silent() {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.set_notice(Subject::Log, Some(silence.to_owned()));
            }
        }
    }

    /// Completes the jobs whose logs have been drained.
    pub(super) fn learn_from_drained(&mut self, now: Millis) {
        for (job, exit_code) in self.draining.done_by(now) {
            self.learn_from(&job, exit_code);
        }
    }

    fn learn_from(&mut self, job: &Job, exit_code: Option<i32>) {
        self.logs.unfollow(job.id());
        let now = node::now();
        self.publisher.read_to_end(job.id(), job.tracker.peek(now));
        if let Some((service, record)) = job.service.as_ref().zip(job.record(now)) {
            self.carried.ended(service, record, now);
        }
        if let Some((training, curve)) = self.library.learn_from(job, exit_code, now)
            && !self.actuator.request(Request::SavePriorRun(training, curve))
        {
            tracing::warn!(id = %job.id(), "the curve of a completed training was not saved; only this daemon knows it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeCgroup, TestDaemon, id};
    use model::{Runtime, Span};
    use std::time::Duration;
    use store::history::HistoryReader;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_exit_code_of_a_job_that_ends_before_any_snapshot_includes_it_is_kept() {
        let mut daemon = TestDaemon::with_history();
        daemon.add(&id(1), "short", &FakeCgroup::new(), Runtime::Docker);
        assert!(!daemon.governing.jobs[&id(1)].was_published);
        daemon.governing.end(&id(1), Some(3));
        let all = Span { since: 0, until: u64::MAX };
        let exit_code = || {
            let history = HistoryReader::open(daemon.state.path(), Duration::from_secs(5)).ok()?;
            let jobs = history.lived(all, None, 0, 10).ok()?;
            jobs.first().filter(|job| job.ended_unix_ms.is_some()).map(|job| job.exit_code)
        };
        let looks = std::iter::repeat_with(exit_code).inspect(|_| std::thread::sleep(Duration::from_millis(20)));
        assert_eq!(looks.take(3_000).flatten().next(), Some(Some(3)));
    }
}
