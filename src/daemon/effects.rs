//! What the machine of limits is told, and what it wants done. Imports: the loop, the actuator, host's engine, limits, model.

use super::actuator::Order;
use super::event::Event;
use super::governing::{Governing, Waiter, moment};
use crate::host::docker::{Engine, EngineError, EngineInfo};
use crate::limits::machine::{self, Asker, At, Came, Candidate, Command, Effect, Readings, Work};
use crate::model::{ContainerId, EventKind, Refusal};
use std::collections::BTreeMap;

impl Governing {
    pub(super) fn tell_limits(&mut self, event: machine::Event) {
        self.tell_limits_at(event, moment());
    }

    pub(super) fn tell_limits_at(&mut self, event: machine::Event, at: At) {
        for effect in self.limits.handle(event, at) {
            self.carry_out(effect);
        }
    }

    /// What stands in all that are governed.
    pub(super) fn readings(&self) -> Readings {
        self.jobs.iter().map(|(id, job)| (id.clone(), job.target.cgroup().limits())).collect()
    }

    pub(super) fn came(&mut self, came: Vec<Came>, is_last: bool) {
        let stands = |came: &Came| Some((came.id.clone(), self.jobs.get(&came.id)?.target.cgroup().limits()));
        let readings = came.iter().filter_map(stands).collect();
        self.tell_limits(machine::Event::Came { came, readings, is_last });
    }

    /// Asks what waits for engine and disk, and the loop does not.
    pub(super) fn ask_limits(&mut self, command: Command, waiter: Waiter) {
        self.asked += 1;
        let asker = Asker(self.asked);
        self.waiters.insert(asker, waiter);
        self.tell_limits(machine::Event::Asked(command, asker));
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Do(work) => {
                let order = self.order_of(work);
                if !self.actuator.order(order) {
                    tracing::error!("the actuator takes no orders: it has ended");
                }
            }
            Effect::Emit { kind, about, text } => {
                let about = about.as_ref().map(|(id, name)| (id.as_str(), name.as_str()));
                self.publisher.tell(kind, about, text);
            }
            Effect::Notice(id, level, text) => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.say(level, &text);
                }
            }
            Effect::Warn(text) => self.publisher.warn(&text),
            Effect::Answer { asker, about, done } => {
                if let Some(waiter) = self.waiters.remove(&asker) {
                    self.answer(waiter, about, done);
                }
            }
            Effect::AskEngine { name, labels, asker } => self.ask_engine(name, labels, asker),
            Effect::Watch(adopted) => drop(self.asks.watched.send_replace(adopted)),
            Effect::Left(id) => {
                self.logs.unfollow(&id);
                self.dismiss(&id, "is no longer governed: an operator disowned it");
            }
            Effect::DecideNow => self.tick_now(),
            Effect::Stopped => {}
        }
    }

    /// Work, with the handles on the containers that run.
    pub(super) fn order_of(&self, work: Work) -> Order {
        let handle = |id: &ContainerId| Some((id.clone(), self.jobs.get(id)?.target.clone()));
        let targets = work.containers().filter_map(handle).collect();
        Order::Limits { work, targets }
    }

    /// Tells what was done, or why not, to whoever asked; what was done also to everybody who watches.
    pub(super) fn answer(
        &mut self,
        waiter: Waiter,
        about: Option<(ContainerId, String)>,
        done: Result<String, Refusal>,
    ) {
        if let Ok(done) = &done {
            let about = about.as_ref().map(|(id, name)| (id.as_str(), name.as_str()));
            self.publisher.tell(EventKind::Command, about, format!("{done} (asked by {})", waiter.asked_by));
            self.publish();
        }
        let _ = waiter.reply.send(done); // the client hung up
    }

    /// Asks which container is to be adopted; a task, because the loop does not wait.
    fn ask_engine(&mut self, name: String, labels: BTreeMap<String, String>, asker: Asker) {
        let label = self.settings.label.clone();
        let (engine, info, events) = (self.asks.engine.clone(), self.engine.clone(), self.asks.events.clone());
        tokio::spawn(async move {
            let found = match (engine, info) {
                (Some(engine), Some(info)) => candidate(&engine, &info, &name, &label).await,
                _ => Err(Refusal::Refused("no engine is connected".to_owned())),
            };
            // The loop ended: so has the asker.
            let _ = events.send(Event::Candidate { found, labels, asker }).await;
        });
    }
}

async fn candidate(engine: &Engine, info: &EngineInfo, name: &str, label: &str) -> Result<Candidate, Refusal> {
    let container = engine.find(name, info.name).await.map_err(|error| not_found(name, &error))?;
    let label = container.has_label(label).then(|| label.to_owned());
    Ok(Candidate { id: container.id, name: container.name, label })
}

/// Why the engine names no container to adopt.
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
