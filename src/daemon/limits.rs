//! Limits as the loop sees them: what it asks the actuator to write, what came of it, and who else wrote.

use super::actuator::Order;
use super::governing::Governing;
use super::journal::unix_ms;
use super::piece::{Came, Piece};
use crate::host::node;
use crate::limits::{Change, End, Noted, Return, Then, Verdict};
use crate::model::{ContainerId, DriftBy, EventKind, LimitChange, Millis, NoticeLevel, Setting};
use std::collections::BTreeMap;

impl Governing {
    /// Tells which containers a plan leaves as they are because it breaks a rule for them.
    pub(super) fn say_left_out(&mut self, left_out: Vec<(ContainerId, String)>) {
        for (id, rule) in left_out {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let text = format!("what was planned for it breaks a rule ({rule}): its limits are left as they are");
            job.say(NoticeLevel::Warning, &text);
        }
    }

    pub(super) fn actuate(&mut self, changes: Vec<LimitChange>) {
        if changes.is_empty() || !self.actuator.has_room() {
            return; // the next decision asks again
        }
        let (loosen, tighten): (Vec<_>, Vec<_>) = changes.into_iter().partition(LimitChange::loosens);
        let (loosen, tighten) = (self.pieces(loosen), self.pieces(tighten));
        if self.actuator.order(Order::Change { loosen, tighten }) {
            self.in_flight += 1;
        }
    }

    fn pieces(&mut self, changes: Vec<LimitChange>) -> Vec<Piece<Change>> {
        let mut grouped: BTreeMap<ContainerId, Vec<Setting>> = BTreeMap::new();
        for change in changes {
            grouped.entry(change.id).or_default().push(change.to);
        }
        let piece = |(id, mut settings): (ContainerId, Vec<Setting>)| {
            let job = self.jobs.get_mut(&id)?;
            settings.retain(|setting| job.ledger.has_room_for(*setting));
            (!settings.is_empty()).then(|| job.changing(settings))
        };
        grouped.into_iter().filter_map(piece).collect()
    }

    /// Takes note of what became of a container's limits.
    pub(super) fn note(&mut self, Came { id, run, outcome }: &Came) {
        if matches!(outcome.end, End::Returned { forgotten: true, .. } | End::Accepted(_)) {
            self.remembered.originals.remove(id);
        }
        let Some(job) = self.jobs.get_mut(id).filter(|job| run.is_none_or(|run| run == job.run)) else { return };
        let noted = job.ledger.note(outcome, node::now(), self.settings.policy.max_interval);
        job.read_limits();
        let name = job.target.name.clone();
        let about = Some((id.as_str(), name.as_str()));
        match noted {
            Noted::Quiet => {}
            Noted::Wrote(stands) => {
                let words: Vec<String> = stands.iter().map(ToString::to_string).collect();
                self.publisher.tell(EventKind::Limit, about, format!("{name}: {}", words.join(", ")));
            }
            Noted::Failed(why) => {
                job.say(NoticeLevel::Warning, &why);
                self.publisher.tell(EventKind::Hold, about, format!("{name}: left alone: {why}"));
            }
            Noted::Accepted => self.tick_now(),
        }
    }

    /// Tries again to put back what still stands of ours in containers that are left alone.
    pub(super) fn return_leftovers(&mut self) {
        if self.in_flight > 0 {
            return;
        }
        let (now, paused) = (node::now(), self.paused);
        let wants_back = self.jobs.values().filter(|job| job.ledger.wants_back(now, paused));
        let pieces = wants_back.map(|job| job.returning(Then::Keep)).collect();
        self.return_limits(pieces);
    }

    /// Asks for the originals of these; where too much waits already, a later look asks again.
    pub(super) fn return_limits(&mut self, pieces: Vec<Piece<Return>>) {
        if !pieces.is_empty() && self.actuator.order(Order::Return(pieces)) {
            self.in_flight += 1;
        }
    }

    /// Yields to whoever changed a limit; says so where the system put one back (the tick writes it again).
    pub(super) fn look_for_drift(&mut self) {
        let ids: Vec<ContainerId> = self.jobs.keys().cloned().collect();
        ids.iter().for_each(|id| self.check_drift(id, false));
    }

    /// The engine says that somebody updated this container: even the original value is somebody's will.
    pub(super) fn updated(&mut self, id: &ContainerId) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.read_limits();
        }
        self.check_drift(id, true);
    }

    /// Compares the limits as last read with what should stand. `told`: the engine said that somebody set them.
    fn check_drift(&mut self, id: &ContainerId, told: bool) {
        if self.in_flight > 0 {
            return; // what stands is being written by us
        }
        let now = node::now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let policy = &self.settings.policy;
        let text = match job.ledger.check(told, now, self.paused, (policy.interval, policy.max_interval)) {
            Verdict::Fine => return,
            Verdict::Theirs(text) => text,
            Verdict::Reverted(settings, wait) => return self.reverted(id, &settings, now, wait),
        };
        job.ledger.tell(unix_ms(), DriftBy::Somebody, format!("{text}; left alone"));
        let name = job.target.name.clone();
        let text = format!("somebody else changed a limit: {text}");
        job.say(NoticeLevel::Info, &format!("{text}; left alone until `flowctl resume {name}`"));
        // Whatever else of ours stands there goes back, so that it is wholly its owner's.
        let piece = job.returning(Then::Keep);
        self.publisher.tell(EventKind::Hold, Some((id.as_str(), &name)), format!("{name}: left alone: {text}"));
        self.return_limits(vec![piece]);
        self.tick_now();
    }

    /// The system put originals back: the next decision writes ours again, later if it does so again and again.
    fn reverted(&mut self, id: &ContainerId, settings: &[Setting], now: Millis, wait: Millis) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let words: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let mut text = format!("the system reverted {}; it is decided anew", words.join(", "));
        if wait > Millis(0) {
            let why = "the system takes our limits back again and again";
            text = format!("{text} in {} s, because {why}", wait.0 / 1000);
            job.ledger.wait_until(why, now.after(wait));
        }
        job.ledger.tell(unix_ms(), DriftBy::System, text.clone());
        let name = job.target.name.clone();
        self.publisher.tell(EventKind::Limit, Some((id.as_str(), &name)), format!("{name}: {text}"));
    }
}
