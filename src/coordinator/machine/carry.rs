//! Phase 3 of a move: the saved state is carried, or the job turns back.
//!
//! Imports: state, step, event, job, record, model.

use super::event::{At, Effect};
use super::job::Job;
use super::record::Goal;
use super::state::{Carrying, Machine};
use super::step::past_of;
use crate::model::Millis;
use crate::model::cluster::WhyKind;
use crate::model::swarm::{Carriage, CarriageOutcome, NodeId, ServiceId};

impl Machine {
    pub(super) fn step_carrying(&mut self, id: &ServiceId, job: &Job, at: At) {
        if let Err(why) = self.prove(id, at) {
            return self.set_why(id, why.kind, why.text);
        }
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
        match carrying.came.clone() {
            Some(Ok(())) => {
                let past = past_of(&seen.tasks);
                self.write(id, job.start(to, past.into_iter()), None, at);
            }
            Some(Err(what)) => {
                let what = format!("its state cannot be carried to {name}: {what}");
                self.turn_back(id, job, &what, Some(to), at);
            }
            None if carrying.failures >= most => {
                let said = carrying.said.clone().unwrap_or_default();
                self.turn_back(id, job, &format!("its state was not carried to {name}: {said}"), None, at);
            }
            None => {
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
        }
    }

    pub(super) fn carried(&mut self, id: &ServiceId, number: u64, outcome: CarriageOutcome, at: At) {
        let Some(carrying) = self.seen.get_mut(id).and_then(|seen| seen.memory.carrying.as_mut()) else { return };
        if carrying.number != number || !carrying.is_under_way {
            return;
        }
        carrying.is_under_way = false;
        match outcome {
            CarriageOutcome::Carried { .. } => carrying.came = Some(Ok(())),
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
