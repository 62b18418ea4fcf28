//! Begin and end of jobs, and what is done for all of them every second.
//!
//! A job that ended is governed no more at once. How it ended is published as soon as it is known for certain: the engine is asked in a
//! task, and what it has not said within [`END_KNOWN_WITHIN`] stays unknown.

use super::actuator::Request;
use super::ended::{Ended, Unpublished};
use super::event::{Component, Event};
use super::governing::Governing;
use super::job::Job;
use super::logs::feed::LogFeed;
use super::positions::{self, SAVED_AFTER};
use super::subject::Subject;
use cgroup::CgroupError;
use docker::{EndSign, EngineEnd};
use limits::machine::{self, Found, Run};
use model::{Alert, ContainerId, EventKind, Millis, Runtime};
use std::time::Duration;

/// With at most this many jobs, an extra snapshot is published for a job that was too short for a regular one, and after each end.
const SHORT_ONES_AMONG: usize = 256;
/// How long the engine's reports about an end are waited for.
const END_KNOWN_WITHIN: Millis = Millis::from_secs(2);

impl Governing {
    /// Begins to govern a container, or another run of it.
    pub(super) fn begin(&mut self, found: Result<(Job, Option<LogFeed>), CgroupError>, id: &ContainerId) {
        let (mut job, feed) = match found {
            Ok(found) => found,
            Err(why) => {
                let problem = match why {
                    // Either it has ended, and its end follows, or it never was visible.
                    CgroupError::ProcessGone { .. } if node::sees_all_processes() => None,
                    CgroupError::ProcessGone { pid } => Some(format!(
                        "its process {pid} is not visible; next: start flowcond with the processes of the machine (`docker run --pid host`)"
                    )),
                    why => Some(why.to_string()),
                };
                self.publisher.readable(id, problem.map(|why| format!("container {id} is not governed: {why}")));
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
        self.complete(id);
        self.ended.runs_again(id);
        note_restarts(&self.ended, &mut job, node::now());
        let is_resumed = match self.positions.remove(id) {
            Some(position) => {
                job.resume_log(&position);
                false
            }
            None => self.resume_moved(&mut job),
        };
        job.assign(&self.settings);
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
        job.ran_before = started < self.since_unix_ms;
        let found = Found { existed_at_loss, ..job.found() };
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
        self.publisher.readable(id, None);
        let last_status = self.publisher.last_status(id);
        let job = self.remove(id);
        self.handle_limits(machine::Event::Ended(id.clone()));
        if let Some(mut job) = job {
            let now = node::now();
            let memory = job.target.cgroup().memory_record();
            job.ending.read_at_end(memory, job.target.kills_around());
            job.ending.ended(exit_code, now);
            let run = (job.target.runtime == Runtime::Docker).then_some(job.run);
            self.draining.start(job, Unpublished::new(last_status, now));
            self.publish_end(id, false);
            self.ask_about_end(id, run);
        }
    }

    /// Stops governing a container.
    fn remove(&mut self, id: &ContainerId) -> Option<Box<Job>> {
        let job = self.jobs.remove(id)?;
        self.positions_outlive_jobs = true;
        self.tick_now();
        self.share_gpus(); // others may have been frozen for it
        Some(job)
    }

    /// Stops governing a container that goes on, and publishes why; the caller ends the reading of its log.
    pub(super) fn dismiss(&mut self, id: &ContainerId, why: &str) {
        if let Some(job) = self.remove(id) {
            let name = &job.target.name;
            self.publisher.emit(EventKind::Ended, Some((id.as_str(), name)), format!("{name} {why}"));
        }
    }

    /// Handles what the engine reports about a container besides its end. After a signal, a job usually is to end, and needs its time for
    /// that.
    pub(super) fn sign_of_end(&mut self, id: &ContainerId, sign: EndSign) {
        let now = node::now();
        if let Some(job) = self.jobs.get_mut(id) {
            job.ending.sign(sign, now);
            if matches!(sign, EndSign::Signal(_)) {
                self.share_gpus();
                self.tick_now();
            }
        } else if let Some(job) = self.draining.job(id) {
            job.ending.sign(sign, now);
            self.publish_end(id, false);
        }
    }

    /// Asks the engine how a container ended, in a task, because the loop must not wait. Without an engine, all is known that will be.
    fn ask_about_end(&mut self, id: &ContainerId, run: Option<Run>) {
        let Some((engine, run)) = self.engine_link.engine.clone().zip(run) else {
            return self.publish_end(id, true);
        };
        if !self.draining.has_unpublished_end(id) {
            return;
        }
        let (id, events) = (id.clone(), self.engine_link.events.clone());
        tokio::spawn(async move {
            let answer = tokio::time::timeout(Duration::from_millis(END_KNOWN_WITHIN.0), engine.end(&id)).await;
            let end = answer.ok().and_then(Result::ok).flatten();
            let _ = events.send(Event::EndDescribed { id, run, end }).await; // the loop may have ended
        });
    }

    /// Handles the engine's answer about the end of a run.
    pub(super) fn end_described(&mut self, id: &ContainerId, run: Run, end: Option<EngineEnd>) {
        if let Some(job) = self.draining.job(id).filter(|job| job.run == run) {
            job.ending.described(end);
            self.publish_end(id, false);
        }
    }

    /// Publishes how a job ended, once that is known for certain. `is_final`: what is not known will not be.
    fn publish_end(&mut self, id: &ContainerId, is_final: bool) {
        let Some((job, Unpublished { status, at, unix_ms })) = self.draining.take_end(id, is_final) else { return };
        let (name, end) = (&job.target.name, job.ending.end(unix_ms));
        self.publisher.ended(id, &end);
        let text = format!("{name} ended: {}", end.summary());
        let is_trial = status.as_ref().is_some_and(|status| status.observed.trial.is_some());
        let trials_left = is_trial.then(|| self.jobs.values().filter(|other| other.group == job.group).count() as u32);
        let alert = Alert { trials_left, ..job.alert_of_end(&end) };
        self.publisher.alert(EventKind::Ended, (id, name), text, alert);
        self.ended.add(id, status, end, at);
        if self.jobs.len() <= SHORT_ONES_AMONG {
            self.look_now();
        }
    }

    /// Does the work of every second: learns from ended jobs, saves positions, reads claims, and checks logs.
    pub(super) fn learn_and_save(&mut self, now: Millis) {
        self.carried.forget_old(now);
        self.ended.forget_old(now);
        for id in self.draining.unpublished_since(Millis(now.0.saturating_sub(END_KNOWN_WITHIN.0))) {
            self.publish_end(&id, true);
        }
        for job in self.jobs.values_mut().filter(|job| job.restarts.is_some()) {
            note_restarts(&self.ended, job, now);
        }
        self.learn_from_drained(now);
        // A daemon that has just started has not found all containers yet.
        if self.positions_outlive_jobs && now.since(self.since) >= SAVED_AFTER {
            let kept = self.jobs.keys().cloned().collect();
            self.positions_outlive_jobs = !self.actuator.request(Request::KeepPositions(kept));
        }
        let actuator = &self.actuator;
        positions::save_due(&mut self.jobs, now, |batch| actuator.request(Request::SavePositions(batch)));
        if let Some(uses) = self.uses.due(now) {
            self.actuator.request(Request::SaveUses(uses)); // if the queue is full, the next ones include these
        }
        self.claims.ask(&mut self.jobs, now);
        for (id, silence) in self.logs.silent() {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.set_notice(Subject::Log, Some(silence.to_owned()));
            }
        }
    }

    /// Completes the jobs whose logs have been drained.
    pub(super) fn learn_from_drained(&mut self, now: Millis) {
        for id in self.draining.done_by(now) {
            self.complete(&id);
        }
    }

    /// Completes a job whose log was drained, or whose container starts again.
    fn complete(&mut self, id: &ContainerId) {
        self.publish_end(id, true);
        if let Some(job) = self.draining.done(id) {
            self.learn_from(&job);
        }
    }

    fn learn_from(&mut self, job: &Job) {
        self.logs.unfollow(job.id());
        let now = node::now();
        let learning = job.tracker.peek(now);
        self.ended.read_to_end(job, learning.clone());
        self.publisher.read_to_end(job.id(), learning);
        if let Some((service, record)) = job.service.as_ref().zip(job.record(now)) {
            self.carried.ended(service, record, now);
        }
        if let Some((training, curve)) = self.library.learn_from(job, job.ending.evidence.exit_code, now)
            && !self.actuator.request(Request::SavePriorRun(training, curve))
        {
            tracing::warn!(id = %job.id(), "the curve of a completed training was not saved; only this daemon knows it");
        }
    }
}

/// Updates what is known of the restarts of a job.
fn note_restarts(ended: &Ended, job: &mut Job, now: Millis) {
    let Some(mut restarts) = job.restarts.take() else { return };
    let warning = ended.restarted(job.id(), &mut restarts, now);
    job.restarts = Some(restarts);
    job.set_notice(Subject::Restarts, warning);
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
