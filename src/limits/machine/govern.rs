//! What the policy wants, what came of it, and who else wrote. Imports: events, state, ledger and operations,
//! model.

use super::event::{At, Came, Effect, Piece, Readings, Work};
use super::state::{Container, Machine, WORK_AT_MOST};
use crate::limits::{Change, End, Noted, Then, Verdict};
use crate::model::{ContainerId, DriftBy, EventKind, LimitChange, Millis, NoticeLevel, Setting};
use std::collections::BTreeMap;

impl Machine {
    /// Writes what the policy wants. Where too much is open already, the next decision asks again.
    pub(super) fn change(&mut self, changes: Vec<LimitChange>) {
        if changes.is_empty() || self.open >= WORK_AT_MOST {
            return;
        }
        let (loosen, tighten): (Vec<_>, Vec<_>) = changes.into_iter().partition(LimitChange::loosens);
        let (loosen, tighten) = (self.pieces(loosen), self.pieces(tighten));
        if !loosen.is_empty() || !tighten.is_empty() {
            self.ask_for(Work::Change { loosen, tighten });
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
            ledger.asked(&settings);
            let (operation, ask) = Change::begin(ledger, settings);
            Some(Piece { id, run: Some(container.run), original: ledger.to_promise(), operation, ask })
        };
        grouped.into_iter().filter_map(piece).collect()
    }

    pub(super) fn came(&mut self, came: &[Came], readings: Readings, is_last: bool, at: At) {
        if is_last {
            self.done(true);
        }
        came.iter().for_each(|came| self.note(came, at));
        self.read(readings);
        if is_last {
            self.answer_waiting(at);
        }
    }

    /// Takes note of what became of a container's limits.
    fn note(&mut self, Came { id, run, outcome }: &Came, at: At) {
        if matches!(outcome.end, End::Returned { forgotten: true, .. } | End::Accepted(_)) {
            self.originals.remove(id);
        }
        let Some(container) = self.containers.get_mut(id).filter(|known| run.is_none_or(|run| run == known.run)) else {
            return;
        };
        // What could not be done after an end is no fault of a run that has begun since.
        if run.is_none() && !matches!(outcome.end, End::Returned { .. }) {
            return;
        }
        let noted = container.ledger.note(outcome, at.now, self.intervals.longest);
        let name = container.name.clone();
        let about = Some((id.clone(), name.clone()));
        match noted {
            Noted::Quiet => {}
            Noted::Wrote(stands) => {
                let words: Vec<String> = stands.iter().map(ToString::to_string).collect();
                self.emit(EventKind::Limit, about, format!("{name}: {}", words.join(", ")));
            }
            Noted::Failed(why) => {
                self.emit(EventKind::Hold, about, format!("{name}: left alone: {why}"));
                self.notice(id, NoticeLevel::Warning, why);
            }
            Noted::Accepted => self.effects.push(Effect::DecideNow),
        }
    }

    /// Tries again to put back what still stands of ours in containers that are left alone.
    pub(super) fn return_leftovers(&mut self, at: At) {
        if self.in_flight > 0 {
            return;
        }
        let wants_back = |(id, container): (&ContainerId, &Container)| {
            container.ledger.wants_back(at.now, self.paused).then(|| id.clone())
        };
        let ids = self.containers.iter().filter_map(wants_back).collect();
        self.return_limits(ids, Then::Keep);
    }

    /// Yields to whoever changed a limit; says so where the system put one back (the next decision writes it again).
    pub(super) fn look_for_drift(&mut self, readings: Readings, at: At) {
        self.read(readings);
        let ids: Vec<ContainerId> = self.containers.keys().cloned().collect();
        ids.iter().for_each(|id| self.check_drift(id, false, at));
    }

    /// Compares the limits as last read with what should stand. `told`: the engine said that somebody set them: even the original value
    /// is somebody's will.
    pub(super) fn check_drift(&mut self, id: &ContainerId, told: bool, at: At) {
        if self.in_flight > 0 {
            return; // what stands is being written by us
        }
        let Some(container) = self.containers.get_mut(id) else { return };
        let intervals = (self.intervals.usual, self.intervals.longest);
        let text = match container.ledger.check(told, at.now, self.paused, intervals) {
            Verdict::Fine => return,
            Verdict::Theirs(text) => text,
            Verdict::Reverted(settings, wait) => return self.reverted(id, &settings, wait, at),
        };
        container.ledger.tell(at.unix_ms, DriftBy::Somebody, format!("{text}; left alone"));
        let name = container.name.clone();
        let text = format!("somebody else changed a limit: {text}");
        let notice = format!("{text}; left alone until `flowctl govern {name}`");
        self.notice(id, NoticeLevel::Info, notice);
        self.emit(EventKind::Hold, Some((id.clone(), name.clone())), format!("{name}: left alone: {text}"));
        // Whatever else of ours stands there goes back, so that it is wholly its owner's.
        self.return_limits(vec![id.clone()], Then::Keep);
        self.effects.push(Effect::DecideNow);
    }

    /// The system put originals back: the next decision writes ours again, later if it does so again and again.
    fn reverted(&mut self, id: &ContainerId, settings: &[Setting], wait: Millis, at: At) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let words: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let mut text = format!("the system reverted {}; it is decided anew", words.join(", "));
        if wait > Millis(0) {
            let why = "the system takes our limits back again and again";
            text = format!("{text} in {} s, because {why}", wait.0 / 1000);
            container.ledger.wait_until(why, at.now.after(wait));
        }
        container.ledger.tell(at.unix_ms, DriftBy::System, text.clone());
        let name = container.name.clone();
        self.emit(EventKind::Limit, Some((id.clone(), name.clone())), format!("{name}: {text}"));
    }
}
