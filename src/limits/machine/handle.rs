//! Dispatch of events, and the begin and end of containers.

use super::event::{At, Effect, Event, Found, Remembered, Work};
use super::state::{Container, Machine};
use crate::Ledger;
use model::{ContainerId, Runtime};
use std::collections::BTreeSet;

/// Last runs that are kept; beyond, the one with the lowest id is dropped.
const ENDED_AT_MOST: usize = 4096;

impl Machine {
    /// Handles an event. Returns the effects to carry out, in order.
    #[must_use]
    pub fn handle(&mut self, event: Event, at: At) -> Vec<Effect> {
        if self.stopping {
            self.handle_while_stopping(event, at);
        } else {
            self.handle_event(event, at);
        }
        std::mem::take(&mut self.effects)
    }

    fn handle_event(&mut self, event: Event, at: At) {
        match event {
            Event::Connected(mark) => self.engine = Some(mark),
            Event::Found(found) => self.begin(*found, at),
            Event::CannotGovern(id) => self.answer_adoption(&id),
            Event::Ended(id) => {
                self.end(&id);
                self.adopted_ended(&id);
            }
            Event::Listed(present) => self.restore_unlisted(&present),
            Event::Removed(id) => self.removed(&id),
            Event::Renamed(id, name) => {
                self.name_adoption(&id, &name);
                if let Some(container) = self.containers.get_mut(&id) {
                    container.name = name;
                }
            }
            Event::Moved(moved) => self.moved(&moved, at),
            Event::LimitsRead(readings) => self.look_for_drift(readings, at),
            Event::Updated(id, current) => {
                self.read(vec![(id.clone(), current)]);
                self.check_drift(&id, true, at);
            }
            Event::Decided(changes) => self.change(changes),
            Event::Outcomes { outcomes, readings, is_last } => self.outcomes(&outcomes, readings, is_last, at),
            Event::Restored(restored, readings) => self.restored(restored, readings, at),
            Event::Candidate { found, labels, request } => self.check_candidate(found, labels, request, at),
            Event::Adopted { id, adoption, problem } => self.adopted(id, adoption, problem),
            Event::Disowned { id, problem } => self.disowned(&id, problem),
            Event::Command(command, request) => self.command(command, request, at),
            Event::Reconfigured(intervals) => self.intervals = intervals,
            Event::TimePassed => {
                self.answer_waiting(at);
                self.restore_leftovers(at);
            }
            Event::Stop { restore } => self.stop(restore, at),
        }
    }

    /// Begins to govern a container, or another run of it.
    fn begin(&mut self, found: Found, at: At) {
        let Found { id, name, runtime, run, mark, is_deferred, ran_before, existed_at_loss, current, engine } = found;
        if self.containers.get(&id).is_some_and(|known| known.run == run) {
            return;
        }
        self.end(&id); // restarted without a report of its end
        let mut ledger = Ledger::found(current, engine);
        if let Some(known) = self.originals.get(&id) {
            ledger.recall(known.original.original, known.original.engine, &known.written);
        }
        if let Some(last) = self.ended.remove(&id) {
            ledger.continue_after(last, at.now);
        }
        if self.damaged.contains(&id) || existed_at_loss && !self.originals.contains_key(&id) {
            ledger.yield_to("its original limits were lost with a damaged journal");
        } else if ran_before {
            ledger.settle_until(at.now.after(self.intervals.usual));
        }
        self.name_adoption(&id, &name);
        self.containers.insert(id.clone(), Container { name, runtime, run, mark, is_deferred, ledger });
        self.effects.push(Effect::DecideNow);
        self.answer_adoption(&id);
    }

    /// Handles the end of a run and requests a restore of the engine's record. The run is remembered until that is confirmed, because
    /// the container may start again before.
    pub(super) fn end(&mut self, id: &ContainerId) {
        let Some(container) = self.containers.remove(id) else { return };
        self.effects.push(Effect::DecideNow);
        let Container { runtime, mark, ledger, .. } = container;
        if runtime == Runtime::Docker {
            self.ended.insert(id.clone(), ledger.last_run());
            if self.ended.len() > ENDED_AT_MOST {
                self.ended.pop_first();
            }
        }
        if ledger.may_need_restore() {
            let remembered = Remembered { runtime, mark, original: ledger.originals(), written: ledger.known() };
            self.originals.insert(id.clone(), remembered);
            self.start_work(Work::Ended(id.clone())); // if too much is open, the next list of containers retries
        }
    }

    /// Restores containers in the journal that have ended, or that run and are not wanted any more: the label or the adoption is gone.
    fn restore_unlisted(&mut self, present: &BTreeSet<ContainerId>) {
        let Some(engine) = &self.engine else { return };
        let is_of_engine = |known: &Remembered| {
            known.runtime != Runtime::Scope && !known.mark.as_ref().is_some_and(|mark| mark.is_other(engine))
        };
        let unlisted = self
            .originals
            .iter()
            .filter(|(id, known)| !present.contains(*id) && !self.containers.contains_key(*id) && is_of_engine(known));
        let unlisted: Vec<ContainerId> = unlisted.map(|(id, _)| id.clone()).collect();
        for id in unlisted {
            self.start_work(Work::Unlisted(id));
        }
    }
}
