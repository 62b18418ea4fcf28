//! Events to the machine of limits, and its effects.

use super::actuator::Request;
use super::event::{Component, Event};
use super::governing::{Governing, Waiter, moment};
use super::subject::Subject;
use config::EngineChoice;
use docker::{Engine, EngineError, EngineInfo};
use limits::machine::{self, At, Candidate, Command, ContainerOutcome, Effect, LimitNotice, Readings, RequestId, Work};
use model::{ContainerId, EventKind, Refusal};
use std::collections::BTreeMap;

impl Governing {
    /// Passes an event to the machine of limits, and carries out its effects.
    pub(super) fn handle_limits(&mut self, event: machine::Event) {
        self.handle_limits_at(event, moment());
    }

    pub(super) fn handle_limits_at(&mut self, event: machine::Event, at: At) {
        for effect in self.limits.handle(event, at) {
            self.carry_out(effect);
        }
    }

    /// Reads the current limits of all governed containers.
    pub(super) fn readings(&self) -> Readings {
        self.jobs.iter().map(|(id, job)| (id.clone(), job.target.cgroup().limits())).collect()
    }

    /// Reads what others may have done to the limits since the last decision.
    pub(super) fn look_for_drift(&mut self) {
        let moved = self.jobs.iter().filter_map(|(id, job)| Some((id.clone(), job.target.cgroup().moved_to()?)));
        self.handle_limits(machine::Event::Moved(moved.collect()));
        self.handle_limits(machine::Event::LimitsRead(self.readings()));
    }

    pub(super) fn on_outcomes(&mut self, outcomes: Vec<ContainerOutcome>, is_last: bool) {
        let limits =
            |done: &ContainerOutcome| Some((done.id.clone(), self.jobs.get(&done.id)?.target.cgroup().limits()));
        let readings = outcomes.iter().filter_map(limits).collect();
        self.handle_limits(machine::Event::Outcomes { outcomes, readings, is_last });
    }

    /// Sends a command to the machine of limits; the client waits for the engine and the disk, the loop does not.
    pub(super) fn send_limits_command(&mut self, command: Command, waiter: Waiter) {
        self.last_request += 1;
        let request = RequestId(self.last_request);
        self.waiters.insert(request, waiter);
        self.look_for_drift();
        self.handle_limits(machine::Event::Command(command, request));
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Do(work) => {
                let request = self.limits_request(work);
                if !self.actuator.request(request) {
                    tracing::error!("the actuator has ended and accepts no requests");
                }
            }
            Effect::Emit { kind, about, text } => {
                let about = about.as_ref().map(|(id, name)| (id.as_str(), name.as_str()));
                self.publisher.emit(kind, about, text);
            }
            Effect::Notice(id, about, text) => {
                let subject = match about {
                    LimitNotice::Write => Subject::Write,
                    LimitNotice::Others => Subject::OtherLimits,
                };
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.set_notice(subject, text);
                }
            }
            Effect::RestoreProblem(problem) => self.publisher.health(Component::Restore, problem),
            Effect::Reply { request, about, result } => {
                if let Some(waiter) = self.waiters.remove(&request) {
                    self.answer(waiter, about, result);
                }
            }
            Effect::AskEngine { name, labels, request } => self.ask_engine(name, labels, request),
            Effect::Watch(adopted) => drop(self.engine_link.watched.send_replace(adopted)),
            Effect::Dismiss(id) => {
                self.logs.unfollow(&id);
                self.dismiss(&id, "is no longer governed: an operator disowned it");
            }
            Effect::DecideNow => self.tick_now(),
            Effect::Stopped => {}
        }
    }

    /// Adds the handles of running containers to a work item.
    pub(super) fn limits_request(&self, work: Work) -> Request {
        let handle = |id: &ContainerId| Some((id.clone(), self.jobs.get(id)?.target.clone()));
        let targets = work.containers().filter_map(handle).collect();
        Request::Limits { work, targets }
    }

    /// Replies to a client; a success is also published as an event.
    pub(super) fn answer(
        &mut self,
        waiter: Waiter,
        about: Option<(ContainerId, String)>,
        result: Result<String, Refusal>,
    ) {
        if let Ok(done) = &result {
            let about = about.as_ref().map(|(id, name)| (id.as_str(), name.as_str()));
            self.publisher.emit(EventKind::Command, about, format!("{done} (asked by {})", waiter.requested_by));
            self.publish();
        }
        let _ = waiter.reply.send(result); // the client hung up
    }

    /// Asks the engine for the container to adopt, in a task, because the loop must not wait.
    fn ask_engine(&mut self, name: String, labels: BTreeMap<String, String>, request: RequestId) {
        let label = self.settings.label.clone();
        let why = match self.settings.engine {
            EngineChoice::Pods(_) => {
                format!(
                    "a pod is governed by its label or annotation {label}, which it has from its start; a container of containerd by \
                     its label, which ctr containers label sets"
                )
            }
            _ => "no engine is connected".to_owned(),
        };
        let (engine, info, events) =
            (self.engine_link.engine.clone(), self.engine.clone(), self.engine_link.events.clone());
        tokio::spawn(async move {
            let found = match (engine, info) {
                (Some(engine), Some(info)) => candidate(&engine, &info, &name, &label).await,
                _ => Err(Refusal::Refused(why)),
            };
            // If the loop has ended, so has the client.
            let _ = events.send(Event::Candidate { found, labels, request }).await;
        });
    }
}

async fn candidate(engine: &Engine, info: &EngineInfo, name: &str, label: &str) -> Result<Candidate, Refusal> {
    let container = engine.find(name, info.name).await.map_err(|error| not_found(name, &error))?;
    let label = container.has_label(label).then(|| label.to_owned());
    Ok(Candidate { id: container.id, name: container.name, label })
}

/// Returns why the engine has no container to adopt.
fn not_found(name: &str, error: &EngineError) -> Refusal {
    let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    if error.is_missing() {
        Refusal::NotOnEngine(format!("the engine has no container `{name}`"))
    } else if error.is_gone() {
        Refusal::Refused(format!("{name} does not run; start it, then adopt it"))
    } else if error.is_engine_lost() {
        Refusal::Failed(error.to_string())
    } else {
        Refusal::Refused(error.to_string())
    }
}
