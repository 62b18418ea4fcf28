//! Phase 3 of a move: the saved state is transferred, or the job turns back.
//!
//! The transfer begins once no container lives. Tasks in flight at the fence may still arrive later, so all nodes are asked again before the
//! start, and the source also whether its state is still the transferred one. If not, a new transfer with the next number begins.

use super::claims::Claimed;
use super::event::{At, Effect};
use super::job::Job;
use super::proof::Needs;
use super::record::Goal;
use super::state::{Carrying, Machine};
use super::step::past_of;
use model::Millis;
use model::cluster::WhyKind;
use model::swarm::{NodeId, ServiceId, Transfer, TransferOutcome};

impl Machine {
    pub(super) fn step_carrying(&mut self, id: &ServiceId, job: &Job, at: At) {
        let (Some(to), Some(from), Some(volume)) = (&job.record.to, &job.record.home, &job.carries) else {
            return self.turn_back(id, job, "it no longer has a local checkpoint to transfer", None, at);
        };
        if !self.takes(job, to) && self.awaits_first_report(to, at) {
            let what = format!("waiting for a report of node {}", self.name_of(to));
            return self.set_why(id, WhyKind::InProgress, what);
        }
        if !self.takes(job, to) {
            let what = format!("node {} no longer accepts jobs", self.name_of(to));
            return self.turn_back(id, job, &what, None, at);
        }
        let (most, within) = (self.settings.carries_most, self.settings.carry_within);
        let name = self.name_of(to);
        let Some(seen) = self.seen.get_mut(id) else { return };
        let (number, of) = (job.record.number, seen.service.name.clone());
        let fresh = Carrying { number, failures: 0, next: at.now, is_under_way: false, came: None, error: None };
        let carrying = match &mut seen.memory.carrying {
            Some(carrying) if carrying.number == number => carrying,
            other => other.insert(fresh),
        };
        let (came, failures, is_under_way) = (carrying.came.clone(), carrying.failures, carrying.is_under_way);
        match came {
            Some(Ok(came)) => return self.carried_whole(id, job, to, came, at),
            Some(Err(what)) => {
                let what = format!("cannot transfer its state to {name}: {what}");
                return self.turn_back(id, job, &what, Some(to), at);
            }
            None if failures >= most => {
                let error = carrying.error.clone().unwrap_or_default();
                return self.turn_back(id, job, &format!("transfer of its state to {name} failed: {error}"), None, at);
            }
            None => {}
        }
        // A container may have started meanwhile.
        if failures > 0
            && !is_under_way
            && let Err(why) = self.prove(id, Needs::First, at)
        {
            return self.set_why(id, why.kind, why.text);
        }
        let Some(carrying) = self.seen.get_mut(id).and_then(|seen| seen.memory.carrying.as_mut()) else { return };
        let error = carrying.error.as_ref().map(|error| format!("; retrying after: {error}")).unwrap_or_default();
        if at.now >= carrying.next {
            carrying.failures += u32::from(carrying.is_under_way);
            carrying.is_under_way = true;
            carrying.next = at.now.after(within);
            let (service, volume, from, to) = (id.clone(), volume.clone(), from.clone(), to.clone());
            self.effects.push(Effect::Carry(Transfer { service, name: of, volume, from, to, number }));
        }
        self.set_why(id, WhyKind::Carrying, format!("its saved state is being transferred to {name}{error}"));
    }

    /// Starts the job with the transferred state, or transfers again if that is not its newest state.
    fn carried_whole(&mut self, id: &ServiceId, job: &Job, to: &NodeId, came: Millis, at: At) {
        if let Err(why) = self.prove(id, Needs::Last(Some(came)), at) {
            return self.set_why(id, why.kind, why.text);
        }
        let Some(seen) = self.seen.get_mut(id) else { return };
        let past = past_of(&seen.tasks);
        let proof = seen.memory.proof.as_ref().filter(|proof| proof.version == seen.service.version);
        let is_stale = proof.is_some_and(|proof| proof.nodes.values().any(|asked| asked.is_stale));
        if !is_stale {
            // Granted by the transfer, unless the service was given another volume meanwhile.
            return match self.claim(id, job, to, at) {
                Claimed::Yes => self.write(id, job.start(to, past.into_iter()), None, at),
                Claimed::Asked(why) => self.set_why(id, WhyKind::InProgress, why),
                Claimed::No(why) => self.turn_back(id, job, &why, Some(to), at),
            };
        }
        let again = job.carry(to, past.into_iter());
        if let Some(carrying) = &mut seen.memory.carrying {
            (carrying.number, carrying.failures) = (again.record.number, carrying.failures + 1);
            (carrying.came, carrying.next) = (None, at.now);
            carrying.error = Some("a container was still alive, or changed the state, after the transfer".to_owned());
        }
        self.write(id, again, None, at);
    }

    pub(super) fn carried(&mut self, id: &ServiceId, number: u64, outcome: TransferOutcome, at: At) {
        let Some(carrying) = self.seen.get_mut(id).and_then(|seen| seen.memory.carrying.as_mut()) else { return };
        if carrying.number != number || !carrying.is_under_way {
            return;
        }
        carrying.is_under_way = false;
        match outcome {
            TransferOutcome::Carried { .. } => carrying.came = Some(Ok(at.now)),
            TransferOutcome::Impossible(why) => carrying.came = Some(Err(super::labels::bounded(&why, 160))),
            TransferOutcome::Failed(why) => {
                carrying.failures += 1;
                carrying.error = Some(super::labels::bounded(&why, 160));
                carrying.next = at.now.after(Millis(self.settings.attest_every.0 << carrying.failures.min(6)));
            }
        }
    }

    /// Cancels a move: the job returns to its state, or to the queue. `avoid`: the node to avoid because it caused this.
    pub(super) fn turn_back(&mut self, id: &ServiceId, job: &Job, what: &str, avoid: Option<&NodeId>, at: At) {
        if let Err(why) = self.prove(id, Needs::Last(None), at) {
            return self.set_why(id, why.kind, why.text);
        }
        let mut home =
            job.record.home.clone().filter(|home| self.may_keep(home) && job.record.goal == Some(Goal::Move));
        match home.as_ref().map(|home| self.claim(id, job, home, at)) {
            Some(Claimed::Asked(why)) => return self.set_why(id, WhyKind::InProgress, why),
            Some(Claimed::No(_)) => home = None,
            Some(Claimed::Yes) | None => {}
        }
        let Some(seen) = self.seen.get(id) else { return };
        let past = past_of(&seen.tasks).into_iter();
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
