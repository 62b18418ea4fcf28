//! Which part takes note of which event, and what begins and ends. Imports: events, state, ledger, model.

use super::event::{At, Effect, Event, Found, Remembered, Work};
use super::state::{Container, Machine};
use crate::limits::Ledger;
use crate::model::{ContainerId, Runtime};
use std::collections::BTreeSet;

/// Last runs that are kept; beyond, the lowest id is forgotten.
const ENDED_AT_MOST: usize = 4096;

impl Machine {
    /// Takes note of what happened; what is to be done now, in this order.
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
            Event::CannotGovern(id) => self.adopted_was_found(&id),
            Event::Ended(id) => {
                self.end(&id);
                self.adopted_ended(&id);
            }
            Event::Listed(present) => self.return_records(&present),
            Event::Removed(id) => self.removed(&id),
            Event::Renamed(id, name) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.name = name;
                }
            }
            Event::Looked(readings) => self.look_for_drift(readings, at),
            Event::Updated(id, stands) => {
                self.read(vec![(id.clone(), stands)]);
                self.check_drift(&id, true, at);
            }
            Event::Decided(changes) => self.change(changes),
            Event::Came { came, readings, is_last } => self.came(&came, readings, is_last, at),
            Event::Restored(restored, readings) => self.restored(restored, readings, at),
            Event::Candidate { found, labels, asker } => self.consider(found, labels, asker, at),
            Event::Adopted { id, adoption, problem } => self.adopted(id, adoption, problem),
            Event::Disowned { id, problem } => self.disowned(&id, problem),
            Event::Asked(command, asker) => self.asked(command, asker, at),
            Event::Reconfigured(intervals) => self.intervals = intervals,
            Event::Passed => {
                self.answer_waiting(at);
                self.return_leftovers(at);
            }
            Event::Stop { restore } => self.stop(restore, at),
        }
    }

    /// A container, or another run of it.
    fn begin(&mut self, found: Found, at: At) {
        let Found { id, name, runtime, run, mark, is_late, ran_before, stands, engine } = found;
        if self.containers.get(&id).is_some_and(|known| known.run == run) {
            return;
        }
        self.end(&id); // it was restarted, and its end was not told
        let mut ledger = Ledger::found(stands, engine);
        if let Some(known) = self.originals.get(&id) {
            ledger.recall(known.original.original, known.original.engine, &known.written);
        }
        if let Some(last) = self.ended.remove(&id) {
            ledger.begin_after(last, at.now);
        }
        if self.damaged.contains(&id) || self.lost && ran_before {
            ledger.yield_to("its original limits were lost with a damaged journal");
        } else if ran_before {
            ledger.settle_until(at.now.after(self.intervals.usual));
        }
        self.containers.insert(id.clone(), Container { name, runtime, run, mark, is_late, ledger });
        self.effects.push(Effect::DecideNow);
        self.adopted_was_found(&id);
    }

    /// What its engine keeps of ours goes back; until it is known that nothing is left, it is remembered: it may start again before.
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
        if ledger.owes_anything() {
            let remembered = Remembered { runtime, mark, original: ledger.to_promise(), written: ledger.known() };
            self.originals.insert(id.clone(), remembered);
            self.ask_for(Work::Ended(id.clone())); // where too much is open, the next list of containers asks again
        }
    }

    /// Those that are remembered and do not run: what their engine keeps of ours goes back.
    fn return_records(&mut self, present: &BTreeSet<ContainerId>) {
        let Some(engine) = &self.engine else { return };
        let is_its = |known: &Remembered| {
            known.runtime == Runtime::Docker && !known.mark.as_ref().is_some_and(|mark| mark.is_other(engine))
        };
        let ended = self
            .originals
            .iter()
            .filter(|(id, known)| !present.contains(*id) && !self.containers.contains_key(*id) && is_its(known));
        let ended: Vec<ContainerId> = ended.map(|(id, _)| id.clone()).collect();
        for id in ended {
            self.ask_for(Work::Ended(id));
        }
    }
}
