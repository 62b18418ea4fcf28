//! Phase 3 of a move: the saved state is carried, or the job turns back.
//!
//! It is carried as soon as nothing lives; what was on its way at the fence may come later. So all are asked again before the start, and
//! the source whether its state is still what was carried. If not, the carriage is another one, from the phase on: it counts the newest.
//! Imports: state, step, event, job, record, model.

use super::event::{At, Effect};
use super::job::Job;
use super::proof::Needs;
use super::record::Goal;
use super::state::{Carrying, Machine};
use super::step::past_of;
use crate::model::Millis;
use crate::model::cluster::WhyKind;
use crate::model::swarm::{Carriage, CarriageOutcome, NodeId, ServiceId};

impl Machine {
    pub(super) fn step_carrying(&mut self, id: &ServiceId, job: &Job, at: At) {
        let (Some(to), Some(from), Some(volume)) = (&job.record.to, &job.record.home, &job.carries) else {
            return self.turn_back(id, job, "there is no local checkpoint to carry any more", None, at);
        };
        if !self.takes(job, to) && self.is_unheard(to, at) {
            let what = format!("waiting for the agent of node {} to answer", self.name_of(to));
            return self.set_why(id, WhyKind::InProgress, what);
        }
        if !self.takes(job, to) {
            let what = format!("node {} takes no jobs any more", self.name_of(to));
            return self.turn_back(id, job, &what, None, at);
        }
        let (most, within) = (self.settings.carries_most, self.settings.carry_within);
        let name = self.name_of(to);
        let Some(seen) = self.seen.get_mut(id) else { return };
        let number = job.record.number;
        let fresh = Carrying { number, failures: 0, next: at.now, is_under_way: false, came: None, said: None };
        let carrying = match &mut seen.memory.carrying {
            Some(carrying) if carrying.number == number => carrying,
            other => other.insert(fresh),
        };
        let (came, failures, is_under_way) = (carrying.came.clone(), carrying.failures, carrying.is_under_way);
        match came {
            Some(Ok(came)) => return self.carried_whole(id, job, to, came, at),
            Some(Err(what)) => {
                let what = format!("its state cannot be carried to {name}: {what}");
                return self.turn_back(id, job, &what, Some(to), at);
            }
            None if failures >= most => {
                let said = carrying.said.clone().unwrap_or_default();
                return self.turn_back(id, job, &format!("its state was not carried to {name}: {said}"), None, at);
            }
            None => {}
        }
        // Something may live again.
        if failures > 0
            && !is_under_way
            && let Err(why) = self.prove(id, Needs::First, at)
        {
            return self.set_why(id, why.kind, why.text);
        }
        let Some(carrying) = self.seen.get_mut(id).and_then(|seen| seen.memory.carrying.as_mut()) else { return };
        let said = carrying.said.as_ref().map(|said| format!("; tried again: {said}")).unwrap_or_default();
        if at.now >= carrying.next {
            carrying.failures += u32::from(carrying.is_under_way);
            carrying.is_under_way = true;
            carrying.next = at.now.after(within);
            let (service, volume, from, to) = (id.clone(), volume.clone(), from.clone(), to.clone());
            self.effects.push(Effect::Carry(Carriage { service, volume, from, to, number }));
        }
        self.set_why(id, WhyKind::Carrying, format!("its saved state is on its way to {name}{said}"));
    }

    /// It starts there with what came, unless that is not its newest state.
    fn carried_whole(&mut self, id: &ServiceId, job: &Job, to: &NodeId, came: Millis, at: At) {
        if let Err(why) = self.prove(id, Needs::Last(Some(came)), at) {
            return self.set_why(id, why.kind, why.text);
        }
        let Some(seen) = self.seen.get_mut(id) else { return };
        let past = past_of(&seen.tasks).into_iter();
        let proof = seen.memory.proof.as_ref().filter(|proof| proof.version == seen.service.version);
        let is_stale = proof.is_some_and(|proof| proof.nodes.values().any(|asked| asked.is_stale));
        if !is_stale {
            return self.write(id, job.start(to, past), None, at);
        }
        let write = job.carry(to, past);
        if let Some(carrying) = &mut seen.memory.carrying {
            (carrying.number, carrying.failures) = (write.record.number, carrying.failures + 1);
            (carrying.came, carrying.next) = (None, at.now);
            carrying.said = Some("something of it lived after that".to_owned());
        }
        self.write(id, write, None, at);
    }

    pub(super) fn carried(&mut self, id: &ServiceId, number: u64, outcome: CarriageOutcome, at: At) {
        let Some(carrying) = self.seen.get_mut(id).and_then(|seen| seen.memory.carrying.as_mut()) else { return };
        if carrying.number != number || !carrying.is_under_way {
            return;
        }
        carrying.is_under_way = false;
        match outcome {
            CarriageOutcome::Carried { .. } => carrying.came = Some(Ok(at.now)),
            CarriageOutcome::Impossible(why) => carrying.came = Some(Err(super::labels::bounded(&why, 120))),
            CarriageOutcome::Failed(why) => {
                carrying.failures += 1;
                carrying.said = Some(super::labels::bounded(&why, 120));
                carrying.next = at.now.after(Millis(self.settings.attest_every.0 << carrying.failures.min(6)));
            }
        }
    }

    /// It cannot go where it was to go: back to its state, or into the queue. `avoid`: whose fault it was.
    pub(super) fn turn_back(&mut self, id: &ServiceId, job: &Job, what: &str, avoid: Option<&NodeId>, at: At) {
        if let Err(why) = self.prove(id, Needs::Last(None), at) {
            return self.set_why(id, why.kind, why.text);
        }
        let Some(seen) = self.seen.get(id) else { return };
        let past = past_of(&seen.tasks).into_iter();
        let home = job.record.home.clone().filter(|home| self.may_keep(home) && job.record.goal == Some(Goal::Move));
        let mut write = match &home {
            Some(home) => job.start(home, past),
            None => job.wait(past),
        };
        let retry_at = self.retry_at(job.record.tries, at);
        match avoid {
            Some(node) => write.record.mark_failure(node, what, retry_at),
            None => {
                write.record.tries += 1;
                (write.record.mark, write.record.retry_at) = (Some(what.into()), Some(retry_at));
            }
        }
        write.text = format!("{}: {what}", write.text);
        self.write(id, write, None, at);
    }
}
