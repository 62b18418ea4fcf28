//! Commands that release containers and govern them again: release, govern, restore, and the end of the daemon.
//!
//! The work of a command may take as long as the engine does. The client gets its reply when the result is known, or after a time limit,
//! with what is not done yet. What failed is tried again as long as the container is left alone.

use super::event::{At, Command, Effect, Event, Readings, RequestId, Restored, Work};
use super::state::{Awaited, Container, Machine, Waiting};
use crate::AfterRestore;
use model::{ContainerId, EventKind, Millis, Refusal};

/// Time limit for the reply to a command: shorter than the API's.
const ANSWER_WITHIN: Millis = Millis::from_secs(8);
/// Time limit of a restore; the rest is reported and tried again later. At the end of the daemon it fits in systemd's stop timeout.
const RESTORE_WITHIN: Millis = Millis::from_secs(50);

impl Machine {
    pub(super) fn command(&mut self, command: Command, request: RequestId, at: At) {
        match command {
            Command::Release(name) => self.release(name.as_deref(), request, at),
            Command::Govern(name) => self.govern(name.as_deref(), request, at),
            Command::Restore => self.restore(request, at),
            Command::Adopt { name, labels } => self.adopt(name, labels, request),
            Command::Disown(name) => self.disown(&name, request),
        }
    }

    pub(super) fn answer(
        &mut self,
        request: RequestId,
        about: Option<(ContainerId, String)>,
        result: Result<String, Refusal>,
    ) {
        self.effects.push(Effect::Reply { request, about, result });
    }

    pub(super) fn refuse(&mut self, request: RequestId, refusal: Refusal) {
        self.answer(request, None, Err(refusal));
    }

    /// Leaves a container, or all, alone and restores the original limits.
    fn release(&mut self, name: Option<&str>, request: RequestId, at: At) {
        let id = match name.map(|name| self.find(name)).transpose() {
            Ok(id) => id,
            Err(refusal) => return self.refuse(request, refusal),
        };
        match id.as_ref().and_then(|id| self.containers.get_mut(id)) {
            None => self.everything_released = true,
            Some(container) => container.ledger.release(),
        }
        let is_affected = |(one, container): (&ContainerId, &Container)| {
            (id.as_ref().is_none_or(|id| id == one) && container.ledger.may_need_restore()).then(|| one.clone())
        };
        let meant = self.containers.iter().filter_map(is_affected).collect();
        self.restore_limits(meant, AfterRestore::Keep);
        self.wait(request, Awaited::Release(id), at);
    }

    /// Governs a container, or all, again. Values that others set become the original.
    fn govern(&mut self, name: Option<&str>, request: RequestId, at: At) {
        let id = match name.map(|name| self.find(name)).transpose() {
            Ok(id) => id,
            Err(refusal) => return self.refuse(request, refusal),
        };
        if id.is_some() && self.everything_released {
            let text = "everything is released; `flowctl govern --all` ends that";
            return self.refuse(request, Refusal::Refused(text.to_owned()));
        }
        if let Some(leaving) = id.as_ref().filter(|id| self.is_disowning(id)) {
            let text = format!("{} is being disowned", leaving.short());
            return self.refuse(request, Refusal::Refused(text));
        }
        if self.restoring > 0 {
            let text = "everything is being restored; try again when that has ended (see `flowctl events`)";
            return self.refuse(request, Refusal::Refused(text.to_owned()));
        }
        let (was_released, is_writing) = (self.everything_released, self.in_flight > 0);
        if id.is_none() {
            self.everything_released = false;
            self.effects.push(Effect::RestoreProblem(None)); // it is governed again
        }
        let ids: Vec<ContainerId> =
            id.as_ref().map_or_else(|| self.containers.keys().cloned().collect(), |id| vec![id.clone()]);
        let mut left_alone = Vec::new();
        for id in ids {
            if self.is_disowning(&id) {
                continue; // nothing may be written to it any more
            }
            let Some(container) = self.containers.get_mut(&id) else { continue };
            // While limits are being written, nobody knows whether others have changed them.
            let was_left_alone = container.ledger.govern(was_released || is_writing);
            self.remove_notices(&id, false);
            left_alone.extend(was_left_alone.then_some(id));
        }
        self.restore_limits(left_alone, AfterRestore::Accept);
        self.effects.push(Effect::DecideNow);
        self.wait(request, Awaited::Govern(id), at);
    }

    /// Releases everything and restores all that the journal holds.
    fn restore(&mut self, request: RequestId, at: At) {
        self.everything_released = true;
        if self.restoring > 0 {
            let text = "everything is already being restored".to_owned();
            return self.refuse(request, Refusal::Refused(text));
        }
        if !self.start_work(Work::RestoreAll { until: at.now.after(RESTORE_WITHIN) }) {
            let text = "too many limit changes are pending; everything is released: try again".to_owned();
            return self.refuse(request, Refusal::Failed(text));
        }
        self.restoring += 1;
        self.wait(request, Awaited::Restore, at);
    }

    /// Handles the result of a restore: only containers that were restored are forgotten.
    pub(super) fn restored(&mut self, restored: Restored, readings: Readings, at: At) {
        self.work_done(true);
        self.restoring = self.restoring.saturating_sub(1);
        for id in &restored.settled {
            self.originals.remove(id);
            if let Some(container) = self.containers.get_mut(id) {
                container.ledger.settle();
            }
        }
        self.read(readings);
        let Restored { back, left, failed, .. } = restored;
        if failed.is_empty() {
            self.effects.push(Effect::RestoreProblem(None));
        }
        let result = if failed.is_empty() {
            let left = if left.is_empty() { String::new() } else { format!("; left alone: {}", left.join("; ")) };
            Ok(format!("restored {} and released{left}; `flowctl govern --all` governs again", back.len()))
        } else {
            let text = format!("{}; everything is released; what failed is tried again", failed.join("; "));
            Err(Refusal::Failed(text))
        };
        let position = self.waiting.iter().position(|waiting| waiting.awaited == Awaited::Restore);
        match (position, result) {
            (Some(position), result) => {
                let request = self.waiting.remove(position).request;
                self.answer(request, None, result);
            }
            // The client already got the reply that it takes longer.
            (None, Ok(text)) => self.emit(EventKind::Command, None, text),
            (None, Err(refusal)) => {
                self.effects.push(Effect::RestoreProblem(Some(format!("not everything is restored: {refusal}"))));
            }
        }
        self.answer_waiting(at);
    }

    /// Withdraws the warning of an incomplete restore once what failed was restored.
    pub(super) fn check_restored(&mut self) {
        // Beside an owner's limits, the engine may keep a value of ours for the next run.
        let is_restored = |Container { ledger, .. }: &Container| {
            ledger.leftover().is_empty() && (ledger.holds().foreign.is_none() || !ledger.may_need_restore())
        };
        let all_run = self.originals.keys().all(|id| self.containers.contains_key(id));
        if self.everything_released && all_run && self.containers.values().all(is_restored) {
            self.effects.push(Effect::RestoreProblem(None));
        }
    }

    fn wait(&mut self, request: RequestId, awaited: Awaited, at: At) {
        self.waiting.push(Waiting { request, awaited, until: at.now.after(ANSWER_WITHIN) });
        self.answer_waiting(at);
    }

    /// Returns when the next waiting client must get its reply.
    pub fn answer_at(&self) -> Option<Millis> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// Replies to the commands whose results are known, and to those that have waited long enough.
    pub(super) fn answer_waiting(&mut self, at: At) {
        // Others may have changed a limit since it was accepted.
        let governed = self.waiting.iter().filter_map(|waiting| match &waiting.awaited {
            Awaited::Govern(id) => Some(id.clone()),
            _ => None,
        });
        for id in governed.collect::<Vec<_>>() {
            let ids = id.map_or_else(|| self.containers.keys().cloned().collect(), |id| vec![id]);
            ids.iter().for_each(|id| self.check_drift(id, false, at));
        }
        for waiting in std::mem::take(&mut self.waiting) {
            let is_known = match &waiting.awaited {
                Awaited::Release(_) | Awaited::Govern(_) => self.in_flight == 0,
                Awaited::Restore => false,
            };
            if !is_known && at.now < waiting.until {
                self.waiting.push(waiting);
                continue;
            }
            let result = self.result_of(&waiting.awaited);
            let about = match &waiting.awaited {
                Awaited::Release(Some(id)) | Awaited::Govern(Some(id)) => self.with_name(id),
                _ => None,
            };
            self.answer(waiting.request, about, result);
        }
    }

    fn result_of(&self, awaited: &Awaited) -> Result<String, Refusal> {
        let failed = |text: String| Err(Refusal::Failed(text));
        let undone = match awaited {
            Awaited::Release(id) | Awaited::Govern(id) => self.undone(id.as_ref(), awaited),
            Awaited::Restore => self.undone(None, awaited),
        };
        let name = |id: &ContainerId| self.with_name(id).map_or_else(|| id.short().to_owned(), |(_, name)| name);
        if let Awaited::Release(Some(id)) | Awaited::Govern(Some(id)) = awaited
            && !self.containers.contains_key(id)
        {
            return failed(format!("{} has ended meanwhile; it is governed when it starts again", id.short()));
        }
        match (awaited, undone) {
            (Awaited::Restore, undone) => failed(format!(
                "the restore takes longer than {} s and continues{}; everything is released; \
                 follow it with `flowctl status` and `flowctl events`",
                ANSWER_WITHIN.0 / 1000,
                if undone.is_empty() { String::new() } else { format!("; not restored yet: {undone}") }
            )),
            (Awaited::Release(None), undone) if undone.is_empty() => {
                Ok("released: every container has its original limits and is left alone".to_owned())
            }
            (Awaited::Release(Some(id)), undone) if undone.is_empty() => {
                Ok(format!("{} is released: it has its original limits and is left alone", name(id)))
            }
            (Awaited::Release(_), undone) => failed(format!(
                "released: limits are not changed any more, but the original limits are not restored yet \
                 (it is tried again): {undone}"
            )),
            (Awaited::Govern(None), undone) if undone.is_empty() => Ok("every container is governed".to_owned()),
            (Awaited::Govern(Some(id)), undone) if undone.is_empty() => Ok(format!("{} is governed", name(id))),
            (Awaited::Govern(_), undone) => failed(format!("not governed yet: {undone}")),
        }
    }

    /// Lists the containers on which a command has not taken effect, with the reasons.
    fn undone(&self, id: Option<&ContainerId>, awaited: &Awaited) -> String {
        let is_undone = |container: &Container| match awaited {
            Awaited::Govern(_) => {
                let holds = container.ledger.holds();
                holds.accepting || holds.moved.is_some() || holds.foreign.is_some()
            }
            _ => !container.ledger.leftover().is_empty() || self.in_flight > 0 && container.ledger.may_need_restore(),
        };
        let meant = self.containers.iter().filter(|(one, _)| id.is_none_or(|id| id == *one));
        let words = meant.filter(|(_, container)| is_undone(container)).map(|(_, Container { name, ledger, .. })| {
            let holds = ledger.holds();
            match (&holds.unwritable, &holds.moved, awaited) {
                (_, Some(cgroup), Awaited::Govern(_)) => {
                    format!("{name} (its processes were moved to the cgroup {cgroup}; move them back to its own)")
                }
                (Some((why, _)), ..) if holds.accepting => format!("{name} ({why}; it is tried again)"),
                (Some((why, _)), ..) => format!("{name} ({why})"),
                _ if holds.accepting => format!("{name} (its limits are still being restored)"),
                (_, _, Awaited::Govern(_)) => format!("{name} (somebody else has just changed a limit; try again)"),
                _ => name.clone(),
            }
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Begins the end of the daemon: nothing more is decided, and everything is restored if so configured.
    pub(super) fn stop(&mut self, restore: bool, at: At) {
        self.stopping = true;
        for Waiting { request, .. } in std::mem::take(&mut self.waiting) {
            self.refuse(request, stopping());
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

    /// Handles events after the stop: it only waits for the restore, and refuses commands.
    pub(super) fn handle_while_stopping(&mut self, event: Event, at: At) {
        match event {
            Event::Restored(restored, readings) => {
                let was_restoring = self.restoring > 0;
                self.restored(restored, readings, at);
                if was_restoring && self.restoring == 0 {
                    self.effects.push(Effect::Stopped);
                }
            }
            Event::Outcomes { is_last: true, .. } => self.work_done(true),
            Event::Command(_, request) | Event::Candidate { request, .. } => self.refuse(request, stopping()),
            _ => {}
        }
    }
}

fn stopping() -> Refusal {
    Refusal::Failed("the daemon is stopping; try again when it has started".to_owned())
}
