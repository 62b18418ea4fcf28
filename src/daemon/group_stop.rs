//! Trials that have lost are stopped through their engine, as their label `flowcon.group-stop` asks. Nothing else that flowcon does ends a
//! job.
//!
//! The policy decides who has lost, and the check of plans repeats that the label is there. Here a trial is stopped once, while its engine is
//! connected. It has its plain share from then on and is not frozen, so that it can save its state; its limits are restored with its end, as
//! after any other.

use super::event::Event;
use super::governing::Governing;
use super::job::Job;
use docker::EngineError;
use futures_util::StreamExt;
use futures_util::stream;
use limits::machine::Run;
use model::{ContainerId, EventKind, NoticeLevel, Runtime, TrialStop};

/// Containers that are stopped at the same time.
const STOPS_AT_ONCE: usize = 4;

impl Job {
    /// The rung at which it is stopped if it has lost there. Only an engine can stop a job as a user would, and Swarm would start the task of a
    /// service again.
    pub(super) fn stop_at(&self) -> Option<u8> {
        let can_be_stopped = self.target.runtime == Runtime::Docker && self.service.is_none();
        self.directives.group_stop.filter(|_| can_be_stopped)
    }
}

impl Governing {
    /// Stops these trials in a task, because the loop must not wait. Those that were asked before are left alone.
    pub(super) fn stop_losers(&mut self, stops: Vec<TrialStop>) {
        let is_connected = self.engine_reported && self.engine.is_some() && self.lost.is_none();
        let Some(engine) = self.engine_link.engine.clone().filter(|_| is_connected) else { return };
        let mut asked: Vec<(ContainerId, Run)> = Vec::new();
        for TrialStop { id, why } in stops {
            let may_be_stopped = |job: &&mut Box<Job>| job.stop_at().is_some() && job.ending.group_stop.is_none();
            let Some(job) = self.jobs.get_mut(&id).filter(may_be_stopped) else { continue };
            job.ending.stop_as_asked(why, node::now());
            let name = job.target.name.clone();
            asked.push((id.clone(), job.run));
            let text = format!("{name} is stopped {why}, as its label flowcon.group-stop asks (docker stop)");
            self.publisher.emit(EventKind::GroupStop, Some((id.as_str(), &name)), text);
        }
        if asked.is_empty() {
            return;
        }
        self.share_gpus(); // a frozen process could not end
        self.tick_now();
        let events = self.engine_link.events.clone();
        tokio::spawn(async move {
            let stops = stream::iter(asked).map(|(id, run)| {
                let engine = engine.clone();
                async move {
                    let problem = engine.stop(&id).await.err().and_then(problem);
                    (id, run, problem)
                }
            });
            let mut stops = stops.buffer_unordered(STOPS_AT_ONCE);
            while let Some((id, run, problem)) = stops.next().await {
                if let Some(problem) = problem {
                    let _ = events.send(Event::NotStopped { id, run, problem }).await; // the loop may have ended
                }
            }
        });
    }

    /// Handles that an engine could not stop a trial: it goes on, and is not stopped again.
    pub(super) fn not_stopped(&mut self, id: &ContainerId, run: Run, problem: &str) {
        if let Some(job) = self.jobs.get_mut(id).filter(|job| job.run == run) {
            job.ending.is_not_stopped();
            let text = format!("it was to be stopped, as its label flowcon.group-stop asks, and goes on: {problem}");
            job.add_notice(NoticeLevel::Warning, &text);
        }
    }
}

/// Why a container goes on. It may have ended meanwhile, or take longer to end than the call.
fn problem(error: EngineError) -> Option<String> {
    match error {
        EngineError::Gone { .. } | EngineError::Timeout { .. } => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
#[path = "group_stop_tests.rs"]
mod tests;
