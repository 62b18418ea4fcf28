//! Containers without the label that an operator said to govern: by id, until they are removed or disowned.
//!
//! Adopting waits for the engine, the disk and the watcher, and the loop waits for none of them:
//!
//! ```text
//! Command ─► engine asked (a task) ─► Event::Candidate ─► journal (actuator) ─► Event::Adopted ─► watcher ─► found ─► answer
//! ```
//!
//! Imports: config, host, model, the API's commands.

use super::actuator::Order;
use super::event::Event;
use super::governing::Governing;
use super::journal::unix_ms;
use crate::api::Refusal;
use crate::config;
use crate::host::docker::{Engine, EngineContainer, EngineError};
use crate::limits::Then;
use crate::model::{Adoption, ContainerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// More are refused: the engine's filters name each of them.
const ADOPTED_AT_MOST: usize = 256;
/// Questions to the engine about containers to adopt that may wait for its answer.
const QUESTIONS_AT_MOST: usize = 8;

/// Who asked, and where the answer goes.
#[derive(Debug)]
pub(super) struct Asker {
    pub asked_by: String,
    pub reply: oneshot::Sender<Result<String, Refusal>>,
}

/// A container that somebody wants to adopt.
#[derive(Debug)]
pub(super) struct Candidate {
    found: Result<EngineContainer, Refusal>,
    labels: BTreeMap<String, String>,
    asker: Asker,
}

/// What is adopted, and who waits for it.
pub(super) struct Adoptions {
    known: BTreeMap<ContainerId, Adoption>,
    /// The engine's watcher follows these.
    watched: watch::Sender<BTreeSet<ContainerId>>,
    engine: Option<Engine>,
    events: mpsc::Sender<Event>,
    questions: Arc<Semaphore>,
    awaited: BTreeMap<ContainerId, Asker>,
    /// Whose limits are being put back: not to be governed again meanwhile.
    leaving: BTreeMap<ContainerId, Asker>,
}

impl Adoptions {
    /// What an earlier daemon left, and the set that the watcher follows.
    pub fn new(
        known: BTreeMap<ContainerId, Adoption>,
        engine: Option<Engine>,
        events: mpsc::Sender<Event>,
    ) -> (Adoptions, watch::Receiver<BTreeSet<ContainerId>>) {
        let (watched, follows) = watch::channel(known.keys().cloned().collect());
        let questions = Arc::new(Semaphore::new(QUESTIONS_AT_MOST));
        (
            Adoptions { known, watched, engine, events, questions, awaited: BTreeMap::new(), leaving: BTreeMap::new() },
            follows,
        )
    }

    /// Whether and how a container is adopted.
    pub fn of(&self, id: &ContainerId) -> Option<&Adoption> {
        self.known.get(id)
    }

    fn tell_watcher(&self) {
        self.watched.send_replace(self.known.keys().cloned().collect());
    }
}

impl Governing {
    /// Only what has the label, or was adopted, is touched.
    pub(super) fn is_wanted(&self, container: &EngineContainer) -> bool {
        let adopted = self.adoptions.of(&container.id).is_some() && !self.adoptions.leaving.contains_key(&container.id);
        adopted || self.has_label(container)
    }

    fn has_label(&self, container: &EngineContainer) -> bool {
        let (key, value) = self.settings.label.split_once('=').unwrap_or((&self.settings.label, ""));
        container.labels.get(key).is_some_and(|has| has == value)
    }

    /// Asks the engine which container is meant.
    pub(super) fn adopt(&mut self, name: String, labels: BTreeMap<String, String>, asker: Asker) {
        if let Err(problems) = config::obeyable(&labels) {
            return self.answer(asker, None, Err(Refusal::Invalid(problems.join("; "))));
        }
        let (Some(engine), Some(info)) = (self.adoptions.engine.clone(), self.engine.clone()) else {
            let text = "no engine is connected, and only an engine's containers can be adopted";
            return self.answer(asker, None, Err(Refusal::Refused(text.to_owned())));
        };
        let Ok(turn) = self.adoptions.questions.clone().try_acquire_owned() else {
            let text = format!("{QUESTIONS_AT_MOST} containers are being adopted already; try again in a second");
            return self.answer(asker, None, Err(Refusal::Refused(text)));
        };
        let events = self.adoptions.events.clone();
        tokio::spawn(async move {
            let found = engine.find(&name, info.name).await.map_err(|error| not_found(&name, &error));
            drop(turn);
            // The loop ended: so has the asker.
            let _ = events.send(Event::Candidate(Box::new(Candidate { found, labels, asker }))).await;
        });
    }

    /// The engine knows the container: refuse it, or have it remembered.
    pub(super) fn consider(&mut self, Candidate { found, labels, asker }: Candidate) {
        let order = found.and_then(|container| {
            self.may_be_adopted(&container)?;
            let adoption = Adoption { name: container.name, unix_ms: unix_ms(), labels };
            if !self.actuator.order(Order::Adopt(container.id.clone(), adoption)) {
                return Err(too_busy());
            }
            Ok(container.id)
        });
        match order {
            Ok(id) => drop(self.adoptions.awaited.insert(id, asker)),
            Err(refusal) => self.answer(asker, None, Err(refusal)),
        }
    }

    fn may_be_adopted(&self, container: &EngineContainer) -> Result<(), Refusal> {
        let name = &container.name;
        let refused = |text: String| Err(Refusal::Refused(text));
        if self.adoptions.of(&container.id).is_some() {
            return refused(format!("{name} is adopted already; for other labels, `flowctl disown {name}` first"));
        }
        if self.adoptions.awaited.contains_key(&container.id) {
            return refused(format!("{name} is being adopted already"));
        }
        if self.has_label(container) {
            let label = &self.settings.label;
            return refused(format!("{name} has the label {label}: it is governed without being adopted"));
        }
        if self.adoptions.known.len() >= ADOPTED_AT_MOST {
            return refused(format!("{ADOPTED_AT_MOST} containers are adopted, and no more can be; use the label"));
        }
        Ok(())
    }

    /// It is on the disk: let the watcher look for it. The answer waits until it is governed.
    pub(super) fn adopted(&mut self, id: ContainerId, adoption: Adoption, problem: Option<String>) {
        let Some(why) = problem else {
            self.adoptions.known.insert(id, adoption);
            return self.adoptions.tell_watcher();
        };
        if let Some(asker) = self.adoptions.awaited.remove(&id) {
            self.answer(asker, None, Err(Refusal::Failed(format!("{} is not adopted: {why}", adoption.name))));
        }
    }

    /// The watcher told of a container that may be one that is waited for.
    pub(super) fn adopted_was_found(&mut self, id: &ContainerId) {
        let Some(asker) = self.adoptions.awaited.remove(id) else { return };
        let name = self.adoptions.of(id).map_or(id.short(), |adoption| &adoption.name).to_owned();
        let answer = if self.jobs.contains_key(id) {
            Ok(format!("{name} is adopted: governed until it is removed, or `flowctl disown {name}`"))
        } else {
            Err(Refusal::Failed(format!("{name} is adopted, but its cgroup cannot be seen")))
        };
        self.answer(asker, Some((id.clone(), name)), answer);
    }

    /// A container ended before it was found: it stays adopted and is governed when it starts again.
    pub(super) fn adopted_ended(&mut self, id: &ContainerId) {
        if let Some(asker) = self.adoptions.awaited.remove(id) {
            let text = format!("{id} is adopted, but it ended just now; it is governed when it starts again");
            self.answer(asker, None, Err(Refusal::Refused(text)));
        }
    }

    /// A container does not exist any more: nothing is left to be adopted.
    pub(super) fn removed(&mut self, id: &ContainerId) {
        self.end(id, None);
        self.adopted_ended(id);
        if self.adoptions.of(id).is_none() {
            return;
        }
        // Where too much waits already, the watcher tells again.
        self.actuator.order(Order::Disown { id: id.clone(), running: None });
    }

    /// Puts the limits of an adopted container back, whether it runs or not, and forgets it.
    pub(super) fn disown(&mut self, name: &str, asker: Asker) {
        let id = match self.find_adopted(name) {
            Ok(id) => id,
            Err(refusal) => return self.answer(asker, None, Err(refusal)),
        };
        if self.adoptions.leaving.contains_key(&id) {
            let text = format!("{name} is being disowned already");
            return self.answer(asker, None, Err(Refusal::Refused(text)));
        }
        let running = self.jobs.get(&id).map(|job| Box::new(job.returning(Then::Forget)));
        if !self.actuator.order(Order::Disown { id: id.clone(), running }) {
            return self.answer(asker, None, Err(too_busy()));
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.ledger.leave_alone(); // nothing more is written from now on
        }
        self.adoptions.leaving.insert(id, asker);
    }

    fn find_adopted(&self, name: &str) -> Result<ContainerId, Refusal> {
        let known = &self.adoptions.known;
        let is_called = |id: &ContainerId, adoption: &Adoption| match self.jobs.get(id) {
            Some(job) => job.target.name == name,
            None => adoption.name == name,
        };
        let mut found: Vec<&ContainerId> = known
            .iter()
            .filter(|(id, adoption)| is_called(id, adoption) || id.as_str() == name)
            .map(|(id, _)| id)
            .collect();
        if found.is_empty() && name.len() >= 4 {
            found = known.keys().filter(|id| id.as_str().starts_with(name)).collect();
        }
        match found.as_slice() {
            [id] => Ok((*id).clone()),
            [] => {
                self.find(name)?;
                let text = format!("{name} was not adopted: it has the label; `flowctl pause {name}` leaves it alone");
                Err(Refusal::Refused(text))
            }
            several => {
                let ids: Vec<&str> = several.iter().map(|id| id.short()).collect();
                Err(Refusal::Refused(format!("`{name}` may be any of {}; use an id", ids.join(", "))))
            }
        }
    }

    /// It has its original limits and is forgotten, or not.
    pub(super) fn disowned(&mut self, id: &ContainerId, problem: Option<String>) {
        let name = self.adoptions.of(id).map_or_else(|| id.short().to_owned(), |adoption| adoption.name.clone());
        let done = match problem {
            Some(why) => Err(Refusal::Failed(format!(
                "{name} is left alone from now on, but could not be disowned: {why}; try again, or `flowctl resume {name}`"
            ))),
            None => {
                self.forget_adopted(id);
                Ok(format!("{name} is disowned: it has its original limits and is left alone"))
            }
        };
        if let Some(asker) = self.adoptions.leaving.remove(id) {
            self.answer(asker, Some((id.clone(), name)), done);
        }
    }

    fn forget_adopted(&mut self, id: &ContainerId) {
        self.adoptions.known.remove(id);
        self.adoptions.tell_watcher();
        self.remembered.originals.remove(id);
        self.logs.unfollow(id);
        self.dismiss(id, "is no longer governed: an operator disowned it");
    }
}

fn too_busy() -> Refusal {
    Refusal::Failed("too many limits wait to be written; try again".to_owned())
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
