//! The next step of each job, from its labels, the state of Swarm and the agents' reports alone.
//!
//! ```text
//! waiting ──plan──► starting ──verified──► running ──fence──► stopping ──proof──► waiting
//!    └────► carrying ──►┘ ▲                                       ├──proof──► carrying ──transferred, proof──► starting
//!                         └───────────────────────────────────────┘ (shared storage: no transfer)
//! starting ──fails──► stopping, and back to its source by the same steps
//! ```

use super::claims::Claimed;
use super::event::At;
use super::job::{Job, ManualChange, NOWHERE, Rejection, Run};
use super::known_work::Training;
use super::proof::Needs;
use super::record::{Goal, JobPhase, Record};
use super::state::{Machine, Seen};
use model::Millis;
use model::cluster::{NodeState, WhyKind};
use model::swarm::{Availability, NodeId, ServiceId, SwarmTask, WorkerReport};
use std::sync::Arc;

/// Maximum number of past tasks in a record; Swarm keeps five per service.
const PAST_MOST: usize = 48;

/// Fraction of a node's cores in use from which its jobs may have to wait for the CPU.
const FULL: f64 = 0.9;

impl Machine {
    /// Runs the next step of a job; does nothing while a change of it is in flight.
    pub(super) fn step(&mut self, id: &ServiceId, at: At) {
        let Some(seen) = self.seen.get_mut(id) else { return };
        if seen.memory.pending.is_some() {
            return;
        }
        let was_startable = std::mem::take(&mut seen.memory.is_startable);
        let job = match &seen.job {
            Ok(job) => job.clone(),
            Err(Rejection(why)) => {
                let why = why.clone();
                return self.set_why(id, WhyKind::Invalid, why);
            }
        };
        seen.remember_phase(&job, at);
        let has_lost_labels = Record::lost(&seen.service.labels, &seen.service.previous_labels).is_some();
        match ManualChange::of(&seen.service, &job.record) {
            ManualChange::None if seen.has_strange_pin(&job) => self.fence_again(id, &job, at),
            _ if has_lost_labels => self.restore_labels(id, &job, at),
            ManualChange::None => self.step_phase(id, &job, was_startable, at),
            ManualChange::ScaledDown => {
                let fence = job.fence(Goal::Suspend, None, "it was scaled to 0 by hand", self.units_of(id, &job));
                self.write(id, fence, None, at);
            }
            ManualChange::ScaledUp => self.write(id, job.resumed(), None, at),
            ManualChange::StartedPinned => self.adopt(id, &job, at),
            ManualChange::Untracked => self.leave_alone(id, &job, at),
        }
    }

    fn step_phase(&mut self, id: &ServiceId, job: &Job, was_startable: bool, at: At) {
        match job.record.phase {
            JobPhase::Waiting => self.step_waiting(id, job, was_startable, at),
            JobPhase::Starting | JobPhase::Running => self.step_up(id, job, at),
            JobPhase::Stopping => self.step_stopping(id, job, at),
            JobPhase::Carrying => self.step_carrying(id, job, at),
            JobPhase::Done => self.step_done(id, job, at),
        }
    }

    fn step_up(&mut self, id: &ServiceId, job: &Job, at: At) {
        let is_own_end = match self.is_own_end(id, job, at) {
            Ok(is_own_end) => is_own_end,
            Err(why) => return self.set_why(id, WhyKind::InProgress, why),
        };
        let (Some(seen), Some(home)) = (self.seen.get(id), &job.record.home) else { return };
        let run = Run::of(&seen.tasks, &job.record.past, &self.stopped_by_agents(seen));
        let past = past_of(&seen.tasks);
        let is_up = self.nodes.get(home).is_some_and(|node| node.node.is_up);
        let is_closed = self.nodes.get(home).is_some_and(|node| node.node.availability != Availability::Active);
        let is_wanted_there = seen
            .tasks
            .iter()
            .any(|task| task.is_wanted && task.node.as_ref() == Some(home) && !job.record.past.contains(&task.id));
        let is_starting = job.record.phase == JobPhase::Starting;
        let is_moving = is_starting && job.record.goal == Some(Goal::Move);
        let waited = seen.memory.since.as_ref().map_or(Millis(0), |(_, _, since)| at.now.since(*since));
        let down_for = seen.memory.down_since.map_or(Millis(0), |since| at.now.since(since));
        match run {
            Run::Complete(_) if is_own_end => self.end(id, job, 0, past, at),
            Run::Lapsed => {
                let why = "its node's agent stopped it, because its lease had expired";
                let mut fence = job.fence(Goal::Queue, None, why, self.units_of(id, job));
                fence.record.past = past.into_iter().collect();
                self.write(id, fence, None, at);
            }
            _ if !is_up && !is_wanted_there => {
                // Swarm stops its tasks there as soon as the node is back, so fencing now costs nothing.
                let why = format!("its node {} is lost{}", self.name_of(home), self.at_stake(seen, job));
                let fence = job.fence(Goal::Queue, None, &why, self.units_of(id, job));
                self.write(id, fence, None, at);
            }
            Run::Failed(&SwarmTask { exit_code: Some(exit), .. }) if !is_moving && is_own_end => {
                self.end(id, job, exit, past, at);
            }
            Run::Complete(task) | Run::Failed(task) => {
                let exit = task.exit_code.map(|exit| format!("exit code {exit}"));
                let what = task.error.as_deref().map(str::to_owned).or(exit).unwrap_or_else(|| "it failed".to_owned());
                self.failed_to_start(id, job, &what, at);
            }
            // Swarm starts no task there until somebody makes the node active again.
            Run::None | Run::Trying { .. } | Run::Stopped if is_closed && !is_wanted_there => {
                let why =
                    format!("node {} accepts no tasks, by `docker node update --availability`", self.name_of(home));
                match is_moving {
                    true => self.failed_to_start(id, job, &why, at),
                    false => {
                        let fence = job.fence(Goal::Queue, None, &why, self.units_of(id, job));
                        self.write(id, fence, None, at);
                    }
                }
            }
            Run::None | Run::Trying { .. } | Run::Stopped if is_starting && waited >= self.settings.start_within => {
                let what = format!("not running after {:.0} s{}", waited.as_secs_f64(), run.error_text());
                self.failed_to_start(id, job, &what, at);
            }
            Run::None | Run::Trying { .. } | Run::Stopped if !is_starting && down_for >= self.settings.start_within => {
                let (seconds, error) = (down_for.as_secs_f64(), run.error_text());
                let why = format!("Swarm could not run it again for {seconds:.0} s{error}");
                let fence = job.fence(Goal::Queue, None, &why, self.units_of(id, job));
                self.write(id, fence, None, at);
            }
            Run::None | Run::Trying { .. } | Run::Stopped => {
                let text = match run {
                    Run::Trying { error: Some(error) } => {
                        format!("Swarm is retrying to start it: {}", super::labels::shown(error))
                    }
                    _ => "Swarm is starting it".to_owned(),
                };
                self.set_why(id, WhyKind::InProgress, text);
                if let Some(seen) = self.seen.get_mut(id) {
                    seen.memory.runs_since = None;
                    seen.memory.down_since.get_or_insert(at.now);
                }
            }
            Run::Runs(task) => {
                let task = task.id.clone();
                self.step_running(id, job, &task, at);
            }
        }
    }

    fn step_running(&mut self, id: &ServiceId, job: &Job, task: &Arc<str>, at: At) {
        let reported = self.worker_in(id, job, task).map(|worker| worker.units.is_some());
        let settings = &self.settings;
        let (settle, silent, verify) = (settings.settle, settings.heard_within, settings.verify_within);
        let stays = self.why_it_stays(id, job).map(|why| (WhyKind::NoPlace, why));
        let taken = (job.record.phase == JobPhase::Running).then(|| self.claim_of_running(id, job, at)).flatten();
        let remark = taken.map(|why| (WhyKind::VolumeTaken, why)).or(stays);
        let serves_nobody = self.serves_nobody(job);
        let Some(seen) = self.seen.get_mut(id) else { return };
        seen.memory.down_since = None;
        let ran = at.now.since(*seen.memory.runs_since.get_or_insert(at.now));
        let is_leased = seen.memory.renewed.is_some() && seen.memory.renewed == job.record.home;
        if job.record.phase == JobPhase::Running && serves_nobody {
            let fence = job.fence(Goal::End, None, "the workers that it serves have ended", None);
            return self.write(id, fence, None, at);
        }
        if job.record.phase == JobPhase::Running {
            match remark {
                Some((kind, why)) => self.set_why(id, kind, why),
                None => self.has_news |= seen.memory.why.take().is_some(),
            }
            if let Some(write) = job.lease_written(is_leased) {
                self.write(id, write, None, at);
            }
            return;
        }
        let reported_before = job.record.saved.is_some();
        let trains = match reported {
            Some(has_progress) => ran >= settle && (has_progress || !reported_before),
            None => ran >= silent && !reported_before,
        };
        if !trains && ran < verify {
            return self.set_why(id, WhyKind::InProgress, "running; waiting for its first progress report");
        }
        if let Some(fenced) = seen.memory.fenced.take().filter(|_| job.record.goal == Some(Goal::Move)) {
            let took = at.now.since(fenced).as_secs_f64();
            seen.memory.last_move_s = Some(took);
            let waited = self.waited_for_cpu(id, job, task);
            self.move_s.add((took - waited).max(0.0));
        }
        let mut write = job.verified();
        let lost = job.record.saved.zip(self.units_of(id, job)).map(|(saved, units)| (saved - units, units));
        if let Some((lost, units)) = lost.filter(|(lost, _)| *lost >= 1.0) {
            write.record.saved = Some(units);
            write.text = format!("running; it goes on from unit {units:.0}: {lost:.0} units of work are lost");
        }
        if !trains {
            write.record.mark = Some("it reported progress before its last stop, but none since".into());
        }
        self.write(id, write, None, at);
    }

    /// Fences a job that failed to start, to return it to its source or to the queue.
    fn failed_to_start(&mut self, id: &ServiceId, job: &Job, what: &str, at: At) {
        let Some(home) = job.record.home.clone() else { return };
        let what = format!("failed to start on {}: {}", self.name_of(&home), super::labels::bounded(what, 140));
        let source = job.record.from.clone().filter(|from| job.record.goal == Some(Goal::Move) && *from != home);
        let goal = if source.is_some() { Goal::Return } else { Goal::Queue };
        let mut fence = job.fence(goal, source, &what, None);
        fence.record.mark_failure(&home, &what, self.retry_at(job.record.tries, at));
        self.write(id, fence, None, at);
    }

    fn step_stopping(&mut self, id: &ServiceId, job: &Job, at: At) {
        let is_own_end = match self.is_own_end(id, job, at) {
            Ok(is_own_end) => is_own_end,
            Err(why) => return self.set_why(id, WhyKind::InProgress, why),
        };
        let Some(seen) = self.seen.get(id) else { return };
        let past = past_of(&seen.tasks);
        let run = Run::of(&seen.tasks, &job.record.past, &self.stopped_by_agents(seen));
        if is_own_end && matches!(run, Run::Complete(_)) {
            return self.end(id, job, 0, past, at);
        }
        let goes = matches!(job.record.goal, Some(Goal::Move | Goal::Return));
        let is_carried = goes && job.record.to.as_ref().is_some_and(|to| job.needs_carriage(to));
        let needs = if is_carried { Needs::First } else { Needs::Last(None) };
        if let Err(why) = self.prove(id, needs, at) {
            return self.set_why(id, why.kind, why.text);
        }
        match (job.record.goal, &job.record.to) {
            (Some(Goal::Move | Goal::Return), Some(to)) if self.takes(job, to) => {
                let to = to.clone();
                let past = past.into_iter();
                let write = match job.needs_carriage(&to) {
                    true => job.carry(&to, past),
                    false => match self.claim(id, job, &to, at) {
                        Claimed::Yes => job.start(&to, past),
                        Claimed::Asked(why) => return self.set_why(id, WhyKind::InProgress, why),
                        Claimed::No(_) => job.wait(past),
                    },
                };
                self.write(id, write, None, at);
            }
            (Some(Goal::Move | Goal::Return), Some(to)) if self.awaits_first_report(to, at) => {
                let what = format!("waiting for a report of node {}", self.name_of(to));
                self.set_why(id, WhyKind::InProgress, what);
            }
            (Some(Goal::Move | Goal::Return), Some(to)) => {
                let what = format!("node {} no longer accepts jobs", self.name_of(to));
                self.turn_back(id, job, &what, None, at);
            }
            (Some(Goal::Cancel), _) => self.write(id, job.cancelled(past.into_iter()), None, at),
            (Some(Goal::End), _) => self.write(id, job.done(0, past.into_iter()), None, at),
            _ => self.write(id, job.wait(past.into_iter()), None, at),
        }
    }

    /// Records the exit of a job.
    fn end(&mut self, id: &ServiceId, job: &Job, exit: i64, past: Vec<Arc<str>>, at: At) {
        // The node's latest report may have been made after the end.
        let last_report = self.seen.get(id).and_then(|seen| seen.memory.last_report.clone());
        let mut work = None;
        if exit == 0
            && job.record.moves == 0
            && let Some(training) = last_report.as_ref().and_then(|report| Training::ended(&job.program, report))
        {
            work = Some(training.work());
            self.usual_work.add(training.work());
            // What an earlier run did is not in the time of this one.
            let ran_as = last_report.as_ref().filter(|_| job.record.past.is_empty()).zip(self.ran_as(id, job));
            self.ended_trainings.add(match ran_as {
                Some((report, alternative)) => training.in_one_run(alternative, report.up_s),
                None => training,
            });
        }
        let mut write = job.done(exit, past.into_iter());
        write.record.work = work;
        if let Some(report) = last_report {
            write.record.saved = report.units.filter(|units| units.is_finite()).or(job.record.saved);
            write.record.total = report.total.filter(|total| total.is_finite());
        }
        self.write(id, write, None, at);
    }

    /// Whether a node accepts a job that is moving there: it must be ready; for a returning job it may be draining.
    pub(super) fn takes(&self, job: &Job, to: &NodeId) -> bool {
        match job.record.goal {
            Some(Goal::Return) => self.may_keep(to),
            _ => self.state_at(to) == NodeState::Ready,
        }
    }

    pub(super) fn backoff(&self, tries: u32) -> Millis {
        Millis(self.settings.retry_after.0.saturating_mul(1 << tries.min(16))).min(self.settings.retry_most)
    }

    pub(super) fn retry_at(&self, tries: u32, at: At) -> Millis {
        at.unix.after(self.backoff(tries))
    }

    /// Whether it waits before another attempt. Since the wall clock may jump, it waits at most one backoff from when it was seen.
    pub(super) fn is_held(&self, seen: &Seen, job: &Job, at: At) -> bool {
        let seen_for = seen.memory.since.as_ref().map_or(Millis(0), |(_, _, since)| at.now.since(*since));
        let longest = self.backoff(job.record.tries.saturating_sub(1));
        job.record.retry_at.is_some_and(|retry_at| at.unix < retry_at) && seen_for < longest
    }

    /// Returns the job's entry in its node's report.
    pub(super) fn worker_of(&self, id: &ServiceId, job: &Job) -> Option<&WorkerReport> {
        let node = self.nodes.get(job.record.home.as_ref()?)?;
        node.report.as_ref()?.1.workers.iter().find(|worker| worker.service == *id)
    }

    /// Like [`Machine::worker_of`], if the entry is about this task.
    fn worker_in(&self, id: &ServiceId, job: &Job, task: &Arc<str>) -> Option<&WorkerReport> {
        self.worker_of(id, job).filter(|worker| worker.task == *task)
    }

    /// Returns for how many seconds a worker has waited for the CPU since its start, if its node has no spare CPU: it would have waited
    /// without its move, too. The governor of its new node may keep a long job waiting from the start.
    fn waited_for_cpu(&self, id: &ServiceId, job: &Job, task: &Arc<str>) -> f64 {
        let waited = || {
            let worker = self.worker_in(id, job, task)?;
            let node = self.nodes.get(job.record.home.as_ref()?)?;
            let is_full = node.report.as_ref()?.1.used_cores? > FULL * node.capacity().cores;
            is_full.then_some((worker.up_s - worker.cpu_time_s?).max(0.0))
        };
        waited().filter(|waited| waited.is_finite()).unwrap_or(0.0)
    }

    pub(super) fn units_of(&self, id: &ServiceId, job: &Job) -> Option<f64> {
        let reported = self.worker_of(id, job).and_then(|worker| worker.units).filter(|units| units.is_finite());
        reported.or_else(|| self.seen.get(id)?.last_units(job))
    }
}

/// Returns the ids of the newest tasks, to be ignored after the next start.
pub(super) fn past_of(tasks: &[SwarmTask]) -> Vec<Arc<str>> {
    let mut tasks: Vec<&SwarmTask> = tasks.iter().collect();
    tasks.sort_by(|a, b| b.changed.cmp(&a.changed).then_with(|| a.id.cmp(&b.id)));
    tasks.into_iter().take(PAST_MOST).map(|task| task.id.clone()).collect()
}

impl Seen {
    fn remember_phase(&mut self, job: &Job, at: At) {
        let is_same = self
            .memory
            .since
            .as_ref()
            .is_some_and(|(phase, home, _)| *phase == job.record.phase && *home == job.record.home);
        if !is_same {
            self.memory.since = Some((job.record.phase, job.record.home.clone(), at.now));
            if job.record.phase != JobPhase::Running {
                self.memory.runs_since = None;
            }
            (self.memory.why, self.memory.down_since) = (None, None);
            if job.record.phase == JobPhase::Stopping && job.record.goal == Some(Goal::Move) {
                self.memory.fenced = Some(at.now);
            }
        }
    }

    /// Whether the pin of a fenced job was changed, so that scaling it to 1 would start it somewhere.
    fn has_strange_pin(&self, job: &Job) -> bool {
        let is_fenced = !matches!(job.record.phase, JobPhase::Starting | JobPhase::Running | JobPhase::Done);
        is_fenced && job.record.home.is_some() && self.service.pin.as_ref().is_none_or(|pin| &*pin.0 != NOWHERE)
    }
}
