//! Leaving containers alone and taking them back: pause, resume, restore, and the end of the daemon.
//!
//! Each of these asks for work that may take as long as an engine does. Whoever asked is answered when it is known what came of it, or
//! soon, with what is not done yet; what failed is tried again as long as the container is left alone. Imports: events, state,
//! ledger and operations, model.

use super::event::{Asker, At, Command, Effect, Event, Readings, Restored, Work};
use super::state::{About, Container, Machine, Waiting};
use crate::limits::Then;
use crate::model::{ContainerId, EventKind, Millis, Refusal};

/// Whoever asks over the API is told within its time limit how far it is.
const ANSWER_WITHIN: Millis = Millis::from_secs(8);
/// What is not restored by then is told, and tried again later. Restoring at the end fits in the time that systemd gives a service to stop.
const RESTORE_WITHIN: Millis = Millis::from_secs(50);

impl Machine {
    pub(super) fn asked(&mut self, command: Command, asker: Asker, at: At) {
        match command {
            Command::Pause(name) => self.pause(name.as_deref(), asker, at),
            Command::Resume(name) => self.resume(name.as_deref(), asker, at),
            Command::Restore => self.restore(asker, at),
            Command::Adopt { name, labels } => self.adopt(name, labels, asker),
            Command::Disown(name) => self.disown(&name, asker),
        }
    }

    pub(super) fn answer(&mut self, asker: Asker, about: Option<(ContainerId, String)>, done: Result<String, Refusal>) {
        self.effects.push(Effect::Answer { asker, about, done });
    }

    pub(super) fn refuse(&mut self, asker: Asker, refusal: Refusal) {
        self.answer(asker, None, Err(refusal));
    }

    /// Leaves a container alone, or all.
    fn pause(&mut self, name: Option<&str>, asker: Asker, at: At) {
        let id = match name.map(|name| self.find(name)).transpose() {
            Ok(id) => id,
            Err(refusal) => return self.refuse(asker, refusal),
        };
        match id.as_ref().and_then(|id| self.containers.get_mut(id)) {
            None => self.paused = true,
            Some(container) => container.ledger.leave_alone(),
        }
        let is_meant = |(one, container): (&ContainerId, &Container)| {
            (id.as_ref().is_none_or(|id| id == one) && container.ledger.owes_anything()).then(|| one.clone())
        };
        let meant = self.containers.iter().filter_map(is_meant).collect();
        self.return_limits(meant, Then::Keep);
        self.wait(asker, About::Pause(id), at);
    }

    /// Governs a container again, or all. What somebody else set becomes the original, to be restored one day.
    fn resume(&mut self, name: Option<&str>, asker: Asker, at: At) {
        let id = match name.map(|name| self.find(name)).transpose() {
            Ok(id) => id,
            Err(refusal) => return self.refuse(asker, refusal),
        };
        if id.is_some() && self.paused {
            let text = "everything is released; `flowctl govern --all` ends that";
            return self.refuse(asker, Refusal::Refused(text.to_owned()));
        }
        if let Some(leaving) = id.as_ref().filter(|id| self.is_leaving(id)) {
            let text = format!("{} is being disowned", leaving.short());
            return self.refuse(asker, Refusal::Refused(text));
        }
        if self.restoring > 0 {
            let text = "everything is being restored; try again when that has ended (`flowctl events` tells)";
            return self.refuse(asker, Refusal::Refused(text.to_owned()));
        }
        if id.is_none() {
            self.paused = false;
        }
        let ids: Vec<ContainerId> =
            id.as_ref().map_or_else(|| self.containers.keys().cloned().collect(), |id| vec![id.clone()]);
        for id in ids {
            if self.is_leaving(&id) {
                continue; // nothing may be written to it any more
            }
            let Some(container) = self.containers.get_mut(&id) else { continue };
            // A hold for somebody else's limits ends when it is known that nothing but theirs stands.
            if container.ledger.release() {
                self.return_limits(vec![id], Then::Accept);
            }
        }
        self.effects.push(Effect::DecideNow);
        self.wait(asker, About::Resume(id), at);
    }

    /// Puts everything in the journal back, and leaves it.
    fn restore(&mut self, asker: Asker, at: At) {
        self.paused = true;
        if self.restoring > 0 {
            let text = "everything is being restored already".to_owned();
            return self.refuse(asker, Refusal::Refused(text));
        }
        if !self.ask_for(Work::RestoreAll { until: at.now.after(RESTORE_WITHIN) }) {
            let text = "too many limits wait to be written; everything is released: try again".to_owned();
            return self.refuse(asker, Refusal::Failed(text));
        }
        self.restoring += 1;
        self.wait(asker, About::Restore, at);
    }

    /// Only what really went back is forgotten.
    pub(super) fn restored(&mut self, restored: Restored, readings: Readings, at: At) {
        self.done(true);
        self.restoring = self.restoring.saturating_sub(1);
        for id in &restored.settled {
            self.originals.remove(id);
            if let Some(container) = self.containers.get_mut(id) {
                container.ledger.settle();
            }
        }
        self.read(readings);
        let Restored { back, left, failed, .. } = restored;
        let done = if failed.is_empty() {
            let left = if left.is_empty() { String::new() } else { format!("; left alone: {}", left.join("; ")) };
            Ok(format!("restored {} and released{left}; `flowctl govern --all` governs again", back.len()))
        } else {
            let text = format!("{}; everything is released, and what failed is tried again", failed.join("; "));
            Err(Refusal::Failed(text))
        };
        let asked = self.waiting.iter().position(|waiting| waiting.about == About::Restore);
        match (asked, done) {
            (Some(asked), done) => {
                let asker = self.waiting.remove(asked).asker;
                self.answer(asker, None, done);
            }
            // Whoever asked was told that it takes long.
            (None, Ok(text)) => self.emit(EventKind::Command, None, text),
            (None, Err(refusal)) => {
                self.effects.push(Effect::Warn(format!("not everything is restored: {refusal}")));
            }
        }
        self.answer_waiting(at);
    }

    fn wait(&mut self, asker: Asker, about: About, at: At) {
        self.waiting.push(Waiting { asker, about, until: at.now.after(ANSWER_WITHIN) });
        self.answer_waiting(at);
    }

    /// When the next of those that wait has waited long enough.
    pub fn answer_at(&self) -> Option<Millis> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// Answers those of whom it is known what came of their commands, and those that have waited long enough.
    pub(super) fn answer_waiting(&mut self, at: At) {
        for waiting in std::mem::take(&mut self.waiting) {
            let is_known = match &waiting.about {
                About::Pause(_) => self.in_flight == 0,
                About::Resume(id) => self.in_flight == 0 || self.undone(id.as_ref(), &waiting.about).is_empty(),
                About::Restore => false,
            };
            if !is_known && at.now < waiting.until {
                self.waiting.push(waiting);
                continue;
            }
            let done = self.came_of(&waiting.about);
            let about = match &waiting.about {
                About::Pause(Some(id)) | About::Resume(Some(id)) => self.named(id),
                _ => None,
            };
            self.answer(waiting.asker, about, done);
        }
    }

    fn came_of(&self, about: &About) -> Result<String, Refusal> {
        let failed = |text: String| Err(Refusal::Failed(text));
        let undone = match about {
            About::Pause(id) | About::Resume(id) => self.undone(id.as_ref(), about),
            About::Restore => self.undone(None, about),
        };
        let name = |id: &ContainerId| self.named(id).map_or_else(|| id.short().to_owned(), |(_, name)| name);
        match (about, undone) {
            (About::Restore, undone) => failed(format!(
                "it takes longer than {} s, and goes on{}; everything is released; `flowctl status` and `flowctl events` tell the rest",
                ANSWER_WITHIN.0 / 1000,
                if undone.is_empty() { String::new() } else { format!("; not back yet: {undone}") }
            )),
            (About::Pause(None), undone) if undone.is_empty() => {
                Ok("released: every container has its original limits and is left alone".to_owned())
            }
            (About::Pause(Some(id)), undone) if undone.is_empty() => {
                Ok(format!("{} is released: it has its original limits and is left alone", name(id)))
            }
            (About::Pause(_), undone) => failed(format!(
                "released: nothing is changed any more, but original limits are not back yet and will be put back: {undone}"
            )),
            (About::Resume(None), undone) if undone.is_empty() => Ok("resumed: every container is governed".to_owned()),
            (About::Resume(Some(id)), undone) if undone.is_empty() => Ok(format!("{} is governed", name(id))),
            (About::Resume(_), undone) => failed(format!(
                "not governed yet, because limits of ours still stand beside somebody else's: {undone}; try again"
            )),
        }
    }

    /// Which containers are not as they should be after a command, and why, in words.
    fn undone(&self, id: Option<&ContainerId>, about: &About) -> String {
        let is_undone = |container: &Container| match about {
            About::Resume(_) => container.ledger.holds().foreign.is_some(),
            _ => !container.ledger.leftover().is_empty() || self.in_flight > 0 && container.ledger.owes_anything(),
        };
        let meant = self.containers.iter().filter(|(one, _)| id.is_none_or(|id| id == *one));
        let words = meant.filter(|(_, container)| is_undone(container)).map(|(_, container)| {
            match &container.ledger.holds().unwritable {
                Some((why, _)) => format!("{} ({why})", container.name),
                None => container.name.clone(),
            }
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// The daemon is to end: nothing more is decided, and everything goes back where that is wanted.
    pub(super) fn stop(&mut self, restore: bool, at: At) {
        self.stopping = true;
        for Waiting { asker, .. } in std::mem::take(&mut self.waiting) {
            self.refuse(asker, ends());
        }
        if restore {
            self.open += 1;
            self.in_flight += 1;
            self.restoring += 1;
            self.effects.push(Effect::Do(Work::RestoreAll { until: at.now.after(RESTORE_WITHIN) }));
        } else {
            self.effects.push(Effect::Stopped);
        }
    }

    /// Whoever has something to tell is heard, and nothing is done about it but to wait for the restores.
    pub(super) fn handle_while_stopping(&mut self, event: Event, at: At) {
        match event {
            Event::Restored(restored, readings) => {
                let was_restoring = self.restoring > 0;
                self.restored(restored, readings, at);
                if was_restoring && self.restoring == 0 {
                    self.effects.push(Effect::Stopped);
                }
            }
            Event::Came { is_last: true, .. } => self.done(true),
            Event::Asked(_, asker) | Event::Candidate { asker, .. } => self.refuse(asker, ends()),
            _ => {}
        }
    }
}

fn ends() -> Refusal {
    Refusal::Failed("the daemon is ending; ask the next one".to_owned())
}
