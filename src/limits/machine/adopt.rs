//! Containers without the label that an operator said to govern: by id, until they are removed or disowned.
//!
//! ```text
//! Adopt ─► engine asked ─► Candidate ─► journal ─► Adopted ─► watcher ─► Found ─► answer
//! Disown ─► originals back, journal ─► Disowned ─► answer
//! ```
//!
//! Imports: events, state, operations, model.

use super::event::{Asker, At, Candidate, Effect, Work};
use super::state::{Machine, ambiguous, matching};
use crate::limits::Then;
use crate::model::{Adoption, ContainerId, EventKind, Refusal};
use std::collections::BTreeMap;

/// More are refused: the engine's filters name each of them.
const ADOPTED_AT_MOST: usize = 256;
/// Questions to the engine about containers to adopt that may wait for its answer.
const QUESTIONS_AT_MOST: usize = 8;

impl Machine {
    /// How a container is adopted, if it is and is not being disowned.
    pub fn adoption(&self, id: &ContainerId) -> Option<&Adoption> {
        self.adoptions.known.get(id).filter(|_| !self.is_leaving(id))
    }

    /// Whether its limits are being put back, to be forgotten.
    pub(super) fn is_leaving(&self, id: &ContainerId) -> bool {
        self.adoptions.leaving.contains_key(id)
    }

    fn watch(&mut self) {
        self.effects.push(Effect::Watch(self.adoptions.known.keys().cloned().collect()));
    }

    pub(super) fn adopt(&mut self, name: String, labels: BTreeMap<String, String>, asker: Asker) {
        if self.engine.is_none() {
            let text = "no engine is connected, and only an engine's containers can be adopted";
            return self.refuse(asker, Refusal::Refused(text.to_owned()));
        }
        if self.adoptions.questions >= QUESTIONS_AT_MOST {
            let text = format!("{QUESTIONS_AT_MOST} containers are being adopted already; try again in a second");
            return self.refuse(asker, Refusal::Refused(text));
        }
        self.adoptions.questions += 1;
        self.effects.push(Effect::AskEngine { name, labels, asker });
    }

    /// The engine knows the container: refuse it, or have it remembered.
    pub(super) fn consider(
        &mut self,
        found: Result<Candidate, Refusal>,
        labels: BTreeMap<String, String>,
        asker: Asker,
        at: At,
    ) {
        self.adoptions.questions = self.adoptions.questions.saturating_sub(1);
        let asked = found.and_then(|candidate| {
            self.may_be_adopted(&candidate)?;
            let Candidate { id, name, .. } = candidate;
            let adoption = Adoption { name, unix_ms: at.unix_ms, labels };
            if self.ask_for(Work::Adopt(id.clone(), adoption)) { Ok(id) } else { Err(too_busy()) }
        });
        match asked {
            Ok(id) => drop(self.adoptions.awaited.insert(id, asker)),
            Err(refusal) => self.refuse(asker, refusal),
        }
    }

    fn may_be_adopted(&self, Candidate { id, name, label }: &Candidate) -> Result<(), Refusal> {
        let refused = |text: String| Err(Refusal::Refused(text));
        if self.adoptions.known.contains_key(id) {
            return refused(format!("{name} is adopted already; for other labels, `flowctl disown {name}` first"));
        }
        if self.adoptions.awaited.contains_key(id) {
            return refused(format!("{name} is being adopted already"));
        }
        if let Some(label) = label {
            return refused(format!("{name} has the label {label}: it is governed without being adopted"));
        }
        if self.adoptions.known.len() >= ADOPTED_AT_MOST {
            return refused(format!("{ADOPTED_AT_MOST} containers are adopted, and no more can be; use the label"));
        }
        Ok(())
    }

    /// It is on the disk: let the watcher look for it. The answer waits until it is governed.
    pub(super) fn adopted(&mut self, id: ContainerId, adoption: Adoption, problem: Option<String>) {
        self.done(false);
        let Some(why) = problem else {
            self.adoptions.known.insert(id, adoption);
            return self.watch();
        };
        if let Some(asker) = self.adoptions.awaited.remove(&id) {
            self.refuse(asker, Refusal::Failed(format!("{} is not adopted: {why}", adoption.name)));
        }
    }

    /// The watcher told of a container that may be one that is waited for.
    pub(super) fn adopted_was_found(&mut self, id: &ContainerId) {
        let Some(asker) = self.adoptions.awaited.remove(id) else { return };
        let name = self.adoptions.known.get(id).map_or(id.short(), |adoption| &adoption.name).to_owned();
        let answer = if self.containers.contains_key(id) {
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
            self.refuse(asker, Refusal::Refused(text));
        }
    }

    /// A container does not exist any more: nothing is left to be adopted.
    pub(super) fn removed(&mut self, id: &ContainerId) {
        self.end(id);
        self.adopted_ended(id);
        if self.adoptions.known.contains_key(id) {
            // Where too much is open already, the watcher tells again.
            self.ask_for(Work::Disown { id: id.clone(), running: None });
        }
    }

    /// Puts the limits of an adopted container back, whether it runs or not, and forgets it.
    pub(super) fn disown(&mut self, name: &str, asker: Asker) {
        let id = match self.find_adopted(name) {
            Ok(id) => id,
            Err(refusal) => return self.refuse(asker, refusal),
        };
        if self.is_leaving(&id) {
            return self.refuse(asker, Refusal::Refused(format!("{name} is being disowned already")));
        }
        let running = self.returning(&id, Then::Forget).map(Box::new);
        if !self.ask_for(Work::Disown { id: id.clone(), running }) {
            return self.refuse(asker, too_busy());
        }
        if let Some(container) = self.containers.get_mut(&id) {
            container.ledger.leave_alone(); // nothing more is written from now on
        }
        self.adoptions.leaving.insert(id, asker);
    }

    fn find_adopted(&self, name: &str) -> Result<ContainerId, Refusal> {
        let name_of = |id: &ContainerId, adoption: &Adoption| match self.containers.get(id) {
            Some(container) => container.name.clone(),
            None => adoption.name.clone(),
        };
        let named: Vec<(&ContainerId, String)> =
            self.adoptions.known.iter().map(|(id, adoption)| (id, name_of(id, adoption))).collect();
        match matching(named.iter().map(|(id, named)| (*id, named.as_str())), name).as_slice() {
            [id] => Ok(id.clone()),
            [] => {
                self.find(name)?;
                let text =
                    format!("{name} was not adopted: it has the label; `flowctl release {name}` leaves it alone");
                Err(Refusal::Refused(text))
            }
            several => Err(ambiguous(name, several)),
        }
    }

    /// It has its original limits and is forgotten, or not.
    pub(super) fn disowned(&mut self, id: &ContainerId, problem: Option<String>) {
        self.done(false);
        let name = self.adoptions.known.get(id).map_or(id.short(), |adoption| &adoption.name).to_owned();
        let done = match problem {
            Some(why) => Err(Refusal::Failed(format!(
                "{name} is left alone from now on, but could not be disowned: {why}; try again, or `flowctl govern {name}`"
            ))),
            None => {
                self.adoptions.known.remove(id);
                self.originals.remove(id);
                self.containers.remove(id);
                self.watch();
                self.effects.push(Effect::Left(id.clone()));
                Ok(format!("{name} is disowned: it has its original limits and is left alone"))
            }
        };
        match self.adoptions.leaving.remove(id) {
            Some(asker) => self.answer(asker, Some((id.clone(), name)), done),
            // Nobody asked: its engine has removed it.
            None if done.is_ok() => {
                let text = format!("{name} was removed, and is no longer adopted");
                self.emit(EventKind::Command, Some((id.clone(), name)), text);
            }
            None => {}
        }
    }
}

fn too_busy() -> Refusal {
    Refusal::Failed("too many limits wait to be written; try again".to_owned())
}
