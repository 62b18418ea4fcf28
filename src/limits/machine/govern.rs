//! Changes that the policy decided, their outcomes, and changes by others.

use super::event::{At, ContainerOutcome, Effect, LimitNotice, Piece, Readings, Work};
use super::state::{Container, Machine, WORK_AT_MOST};
use crate::{AfterRestore, Change, End, OutcomeReport, Verdict};
use model::{ContainerId, DriftBy, EventKind, LimitChange, Millis, Setting};
use std::collections::BTreeMap;

impl Machine {
    /// Requests the changes that the policy decided. If too much is open already, the next decision requests them again.
    pub(super) fn change(&mut self, changes: Vec<LimitChange>) {
        if changes.is_empty() || self.open >= WORK_AT_MOST {
            return;
        }
        let (loosen, tighten): (Vec<_>, Vec<_>) = changes.into_iter().partition(LimitChange::loosens);
        let (loosen, tighten) = (self.pieces(loosen), self.pieces(tighten));
        if !loosen.is_empty() || !tighten.is_empty() {
            self.start_work(Work::Change { loosen, tighten });
        }
    }

    fn pieces(&mut self, changes: Vec<LimitChange>) -> Vec<Piece<Change>> {
        let mut grouped: BTreeMap<ContainerId, Vec<Setting>> = BTreeMap::new();
        for change in changes {
            grouped.entry(change.id).or_default().push(change.to);
        }
        let piece = |(id, mut settings): (ContainerId, Vec<Setting>)| {
            let container = self.containers.get_mut(&id)?;
            let ledger = &mut container.ledger;
            settings.retain(|setting| ledger.has_room_for(*setting));
            if settings.is_empty() {
                return None;
            }
            ledger.begin_write(&settings);
            let (operation, ask) = Change::begin(ledger, settings);
            Some(Piece { id, run: Some(container.run), original: ledger.originals(), operation, ask })
        };
        grouped.into_iter().filter_map(piece).collect()
    }

    pub(super) fn outcomes(&mut self, outcomes: &[ContainerOutcome], readings: Readings, is_last: bool, at: At) {
        if is_last {
            self.work_done(true);
        }
        outcomes.iter().for_each(|outcome| self.apply_outcome(outcome, at));
        self.read(readings);
        self.restore_unjournalled(outcomes);
        if is_last {
            self.answer_waiting(at);
            self.check_restored();
        }
    }

    /// Restores containers whose change could not be journalled: otherwise they would keep our limits for as long as the disk is full, even
    /// where the change loosens them. A restore needs no journal. If it fails, the next change that cannot be journalled repeats it.
    fn restore_unjournalled(&mut self, outcomes: &[ContainerOutcome]) {
        let unjournalled = outcomes.iter().filter(|done| matches!(done.outcome.end, End::NotBegun(_)));
        let ids = unjournalled.map(|done| done.id.clone()).collect();
        self.restore_limits(ids, AfterRestore::Keep);
    }

    /// Updates the ledger with the outcome of an operation, and reports it.
    fn apply_outcome(&mut self, ContainerOutcome { id, run, outcome }: &ContainerOutcome, at: At) {
        if matches!(outcome.end, End::Restored { forgotten: true, .. } | End::Accepted(_)) {
            self.originals.remove(id);
        }
        let Some(container) = self.containers.get_mut(id).filter(|known| run.is_none_or(|run| run == known.run)) else {
            return;
        };
        // What is not done when a run ended, or was not listed, must not affect the next run.
        if run.is_none() && !matches!(outcome.end, End::Restored { forgotten: true, .. }) {
            return;
        }
        let report = container.ledger.record_outcome(outcome, at.now, self.intervals.longest);
        let name = container.name.clone();
        let about = Some((id.clone(), name.clone()));
        // Once an operator has released it and nothing of ours is in force, a failed write does not matter any more.
        let is_released = self.everything_released || container.ledger.holds().released;
        let is_over = is_released && matches!(outcome.end, End::Restored { .. });
        self.remove_notices(id, is_over);
        match report {
            OutcomeReport::Quiet => {}
            OutcomeReport::Wrote(current) => {
                let words: Vec<String> = current.iter().map(ToString::to_string).collect();
                self.emit(EventKind::Limit, about, format!("{name}: {}", words.join(", ")));
            }
            OutcomeReport::Failed(why) => {
                self.emit(EventKind::Hold, about, format!("{name}: left alone: {why}"));
                self.notice(id, LimitNotice::Write, Some(why));
            }
            OutcomeReport::Accepted => self.effects.push(Effect::DecideNow),
        }
    }

    /// Removes the notices about the limits of a container whose causes are gone. `writes_are_over`: also that of a failed write.
    pub(super) fn remove_notices(&mut self, id: &ContainerId, writes_are_over: bool) {
        let Some(container) = self.containers.get(id) else { return };
        let holds = container.ledger.holds();
        let can_write = writes_are_over || holds.unwritable.is_none();
        let is_ours = holds.foreign.is_none() && holds.moved.is_none();
        if can_write {
            self.notice(id, LimitNotice::Write, None);
        }
        if is_ours {
            self.notice(id, LimitNotice::Others, None);
        }
    }

    /// Restores values of ours that are still in force in containers that are left alone, and accepts the limits of those that are to be
    /// governed again.
    pub(super) fn restore_leftovers(&mut self, at: At) {
        if self.in_flight > 0 {
            return;
        }
        let longest = self.intervals.longest;
        let has_ended = |(id, container): (&ContainerId, &mut Container)| {
            container.ledger.forget_old_failure(at.now, longest).then(|| id.clone())
        };
        let ended: Vec<ContainerId> = self.containers.iter_mut().filter_map(has_ended).collect();
        ended.iter().for_each(|id| self.remove_notices(id, false));
        for afterwards in [AfterRestore::Keep, AfterRestore::Accept] {
            let is_due = |container: &Container| {
                container.ledger.restore_due(at.now, self.everything_released) == Some(afterwards)
            };
            let due = self.containers.iter().filter(|(id, container)| is_due(container) && !self.is_disowning(id));
            let ids = due.map(|(id, _)| id.clone()).collect();
            self.restore_limits(ids, afterwards);
        }
    }

    /// Leaves containers alone whose processes are in other cgroups, where the limits of their own do not apply, until they are back.
    pub(super) fn moved(&mut self, moved: &BTreeMap<ContainerId, String>, at: At) {
        let mut left = Vec::new();
        for (id, container) in &mut self.containers {
            let to = moved.get(id);
            if container.ledger.moved(to) {
                left.push((id.clone(), container.name.clone(), to.cloned()));
            }
        }
        for (id, name, to) in left {
            self.effects.push(Effect::DecideNow);
            let about = Some((id.clone(), name.clone()));
            let Some(cgroup) = to else {
                self.remove_notices(&id, false);
                self.emit(EventKind::Hold, about, format!("{name}: its processes are back in its own cgroup"));
                continue;
            };
            let text =
                format!("its processes were moved to the cgroup {cgroup}; left alone until they are back in its own");
            if let Some(container) = self.containers.get_mut(&id) {
                container.ledger.record_drift(at.unix_ms, DriftBy::Somebody, text.clone());
            }
            self.notice(&id, LimitNotice::Others, Some(text.clone()));
            self.emit(EventKind::Hold, about, format!("{name}: {text}"));
            self.restore_limits(vec![id], AfterRestore::Keep); // for when they come back
        }
    }

    /// Looks for changes by others in all containers: yields to users and programs, and reports limits that the system reverted.
    pub(super) fn look_for_drift(&mut self, readings: Readings, at: At) {
        self.read(readings);
        let ids: Vec<ContainerId> = self.containers.keys().cloned().collect();
        ids.iter().for_each(|id| self.check_drift(id, false, at));
    }

    /// Compares the limits as last read with the expected ones. `is_reported`: the engine reported an update, so even the original value
    /// was set on purpose.
    pub(super) fn check_drift(&mut self, id: &ContainerId, is_reported: bool, at: At) {
        if self.in_flight > 0 {
            return; // we are writing them
        }
        let Some(container) = self.containers.get_mut(id) else { return };
        let intervals = (self.intervals.usual, self.intervals.longest);
        let text = match container.ledger.check(is_reported, at.now, self.everything_released, intervals) {
            Verdict::Fine => return,
            Verdict::Foreign(text) => text,
            Verdict::Reverted(settings, wait) => return self.reverted(id, &settings, wait, at),
        };
        container.ledger.record_drift(at.unix_ms, DriftBy::Somebody, format!("{text}; left alone"));
        let name = container.name.clone();
        let text = format!("somebody else changed a limit: {text}");
        let notice = format!("{text}; left alone until `flowctl govern {name}`");
        self.notice(id, LimitNotice::Others, Some(notice));
        self.emit(EventKind::Hold, Some((id.clone(), name.clone())), format!("{name}: left alone: {text}"));
        // Our other values are restored, so that all its limits are the owner's.
        self.restore_limits(vec![id.clone()], AfterRestore::Keep);
        self.effects.push(Effect::DecideNow);
    }

    /// Reports limits that the system reverted; the next decision writes them again, after a wait if this keeps happening.
    fn reverted(&mut self, id: &ContainerId, settings: &[Setting], wait: Millis, at: At) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let words: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let mut text = format!("the system reverted {}; it is decided again", words.join(", "));
        if wait > Millis(0) {
            let why = "the system keeps reverting our limits";
            text = format!("{text} in {} s, because {why}", wait.0 / 1000);
            container.ledger.wait_until(why, at.now.after(wait));
        }
        container.ledger.record_drift(at.unix_ms, DriftBy::System, text.clone());
        let name = container.name.clone();
        self.emit(EventKind::Limit, Some((id.clone(), name.clone())), format!("{name}: {text}"));
    }
}
