//! Containers without the label that an operator adopts: they are governed by id, until they are removed or disowned.
//!
//! ```text
//! Adopt ─► query to the engine ─► Candidate ─► journal ─► Adopted ─► watcher ─► Found ─► reply
//! Disown ─► originals and journal restored ─► Disowned ─► reply
//! ```

use super::event::{At, Candidate, Effect, RequestId, Work};
use super::state::{Machine, ambiguous, matching};
use crate::AfterRestore;
use model::{Adoption, ContainerId, EventKind, Refusal};
use std::collections::BTreeMap;

/// Adopted containers at most: the engine's filters list each of them.
const ADOPTED_AT_MOST: usize = 256;
/// Queries about candidates that may wait for the engine.
const QUERIES_AT_MOST: usize = 8;

impl Machine {
    /// Returns the adoption of a container that is adopted and not being disowned.
    pub fn adoption(&self, id: &ContainerId) -> Option<&Adoption> {
        self.adoptions.known.get(id).filter(|_| !self.is_disowning(id))
    }

    /// Whether the container is being disowned.
    pub(super) fn is_disowning(&self, id: &ContainerId) -> bool {
        self.adoptions.disowning.contains_key(id)
    }

    fn watch(&mut self) {
        self.effects.push(Effect::Watch(self.adoptions.known.keys().cloned().collect()));
    }

    pub(super) fn adopt(&mut self, name: String, labels: BTreeMap<String, String>, request: RequestId) {
        if self.engine.is_none() {
            let text = "no engine is connected, and only an engine's containers can be adopted";
            return self.refuse(request, Refusal::Refused(text.to_owned()));
        }
        if self.adoptions.queries >= QUERIES_AT_MOST {
            let text = format!("{QUERIES_AT_MOST} containers are already being adopted; try again in a second");
            return self.refuse(request, Refusal::Refused(text));
        }
        self.adoptions.queries += 1;
        self.effects.push(Effect::AskEngine { name, labels, request });
    }

    /// Handles the engine's answer: refuses the candidate, or has the adoption stored.
    pub(super) fn check_candidate(
        &mut self,
        found: Result<Candidate, Refusal>,
        labels: BTreeMap<String, String>,
        request: RequestId,
        at: At,
    ) {
        self.adoptions.queries = self.adoptions.queries.saturating_sub(1);
        let accepted = found.and_then(|candidate| {
            self.may_be_adopted(&candidate)?;
            let Candidate { id, name, .. } = candidate;
            let adoption = Adoption { name, unix_ms: at.unix_ms, labels };
            if self.start_work(Work::Adopt(id.clone(), adoption)) { Ok(id) } else { Err(too_busy()) }
        });
        match accepted {
            Ok(id) => drop(self.adoptions.awaited.insert(id, request)),
            Err(refusal) => self.refuse(request, refusal),
        }
    }

    fn may_be_adopted(&self, Candidate { id, name, label }: &Candidate) -> Result<(), Refusal> {
        let refused = |text: String| Err(Refusal::Refused(text));
        if self.adoptions.known.contains_key(id) {
            return refused(format!(
                "{name} is already adopted; to change its labels, run `flowctl disown {name}` first"
            ));
        }
        if self.adoptions.awaited.contains_key(id) {
            return refused(format!("{name} is already being adopted"));
        }
        if let Some(label) = label {
            return refused(format!("{name} has the label {label}: it is governed without being adopted"));
        }
        if self.adoptions.known.len() >= ADOPTED_AT_MOST {
            return refused(format!(
                "{ADOPTED_AT_MOST} containers are adopted, which is the maximum; use the label instead"
            ));
        }
        Ok(())
    }

    /// Handles a stored adoption: the watcher looks for the container. The reply waits until it is governed.
    pub(super) fn adopted(&mut self, id: ContainerId, adoption: Adoption, problem: Option<String>) {
        self.work_done(false);
        let Some(why) = problem else {
            self.adoptions.known.insert(id, adoption);
            return self.watch();
        };
        if let Some(request) = self.adoptions.awaited.remove(&id) {
            self.refuse(request, Refusal::Failed(format!("{} is not adopted: {why}", adoption.name)));
        }
    }

    /// Stores the name of an adopted container that was renamed, by which it is known when it does not run.
    pub(super) fn name_adoption(&mut self, id: &ContainerId, name: &str) {
        if let Some(adoption) = self.adoption(id).filter(|adoption| adoption.name != name) {
            let renamed = Adoption { name: name.to_owned(), ..adoption.clone() };
            self.start_work(Work::Adopt(id.clone(), renamed)); // if too much is open, the next start or rename does it
        }
    }

    /// Replies to the adoption of a container that the watcher has found.
    pub(super) fn answer_adoption(&mut self, id: &ContainerId) {
        let Some(request) = self.adoptions.awaited.remove(id) else { return };
        let name = self.adoptions.known.get(id).map_or(id.short(), |adoption| &adoption.name).to_owned();
        let answer = if self.containers.contains_key(id) {
            Ok(format!("{name} is adopted: it is governed until it is removed, or until `flowctl disown {name}`"))
        } else {
            Err(Refusal::Failed(format!("{name} is adopted, but its cgroup cannot be read")))
        };
        self.answer(request, Some((id.clone(), name)), answer);
    }

    /// Replies to the adoption of a container that ended before it was found: it is governed when it starts again.
    pub(super) fn adopted_ended(&mut self, id: &ContainerId) {
        if let Some(request) = self.adoptions.awaited.remove(id) {
            let text = format!("{id} is adopted, but it has just ended; it is governed when it starts again");
            self.refuse(request, Refusal::Refused(text));
        }
    }

    /// Handles the removal of a container: its adoption is removed too.
    pub(super) fn removed(&mut self, id: &ContainerId) {
        self.end(id);
        self.adopted_ended(id);
        if self.adoptions.known.contains_key(id) {
            // If too much is open already, the watcher reports it again.
            self.start_work(Work::Disown { id: id.clone(), running: None });
        }
    }

    /// Restores the limits of an adopted container, running or not, and removes its adoption.
    pub(super) fn disown(&mut self, name: &str, request: RequestId) {
        let id = match self.find_adopted(name) {
            Ok(id) => id,
            Err(refusal) => return self.refuse(request, refusal),
        };
        if self.is_disowning(&id) {
            return self.refuse(request, Refusal::Refused(format!("{name} is already being disowned")));
        }
        let running = self.begin_restore(&id, AfterRestore::Forget).map(Box::new);
        if !self.start_work(Work::Disown { id: id.clone(), running }) {
            return self.refuse(request, too_busy());
        }
        if let Some(container) = self.containers.get_mut(&id) {
            container.ledger.release(); // nothing more is written from now on
        }
        self.adoptions.disowning.insert(id, request);
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
                let text = format!(
                    "{name} is governed by its label and was not adopted; to leave it alone, run `flowctl release {name}`"
                );
                Err(Refusal::Refused(text))
            }
            several => Err(ambiguous(name, several)),
        }
    }

    /// Handles the result of disowning a container.
    pub(super) fn disowned(&mut self, id: &ContainerId, problem: Option<String>) {
        self.work_done(false);
        let name = self.adoptions.known.get(id).map_or(id.short(), |adoption| &adoption.name).to_owned();
        let result = match problem {
            Some(why) => Err(Refusal::Failed(format!(
                "{name} is left alone from now on, but could not be disowned: {why}; try again, or run `flowctl govern {name}`"
            ))),
            None => {
                self.adoptions.known.remove(id);
                self.originals.remove(id);
                self.containers.remove(id);
                self.watch();
                self.effects.push(Effect::Dismiss(id.clone()));
                Ok(format!("{name} is disowned: it has its original limits and is left alone"))
            }
        };
        match self.adoptions.disowning.remove(id) {
            Some(request) => self.answer(request, Some((id.clone(), name)), result),
            // No client asked for this: the engine has removed the container.
            None if result.is_ok() => {
                let text = format!("{name} was removed, and is no longer adopted");
                self.emit(EventKind::Command, Some((id.clone(), name)), text);
            }
            None => {}
        }
    }
}

fn too_busy() -> Refusal {
    Refusal::Failed("too many limit changes are pending; try again".to_owned())
}
