//! The checkpoint volumes of one simulated node: who is recorded as the owner, who has saved the state, and how its agent answers claims.

use super::job::volume_name;
use model::swarm::{Claim, ClaimOutcome, Owner, SavedState, ServiceId};
use std::collections::BTreeMap;

/// A saved state.
#[derive(Clone, Copy, Default)]
pub(super) struct Volume {
    pub saved: u64,
    /// Number of the last transfer to here.
    pub number: u64,
    /// The job that is recorded as the owner.
    pub owner: Option<usize>,
    /// The job that has saved the state.
    pub writer: Option<usize>,
}

/// Saved states by number of the volume.
#[derive(Default)]
pub(super) struct Volumes(pub BTreeMap<usize, Volume>);

impl Volumes {
    /// Stores a transferred state; fails if a later transfer was stored already.
    pub(super) fn carry(&mut self, to: usize, sent: Volume, twice: bool) -> Result<(), String> {
        let volume = self.0.entry(to).or_default();
        let is_same = volume.owner == sent.owner;
        if is_same && volume.number > sent.number && !twice {
            return Err("superseded by a later transfer".to_owned());
        }
        if !is_same || volume.number < sent.number || twice {
            *volume = sent;
        }
        Ok(())
    }

    /// Whether a volume is another job's.
    pub(super) fn is_of_other(&self, volume: usize, job: usize) -> bool {
        let other = |volume: &Volume| volume.owner.or(volume.writer).is_some_and(|owner| owner != job);
        self.0.get(&volume).is_some_and(other)
    }

    /// Whether this transfer of the job was stored here.
    pub(super) fn has_arrived(&self, volume: usize, job: usize, number: u64) -> bool {
        self.0.get(&volume).is_some_and(|volume| volume.owner == Some(job) && volume.number == number)
    }

    /// Answers a claim like the agent; containers of other jobs that use the volume were checked before.
    pub(super) fn claim(&mut self, volume: usize, job: usize, claim: &Claim) -> ClaimOutcome {
        let found = self.0.entry(volume).or_default();
        match found.owner {
            Some(owner) if owner != job && !claim.replaces.contains(&service_id(owner)) => ClaimOutcome::Owned {
                owner: Owner { service: service_id(owner), name: format!("job-{owner}").into(), number: 0 },
                is_empty: found.writer.is_none(),
            },
            None if found.writer.is_some() && !claim.takes_unowned => ClaimOutcome::Unowned,
            _ => {
                found.owner = Some(job);
                ClaimOutcome::Granted
            }
        }
    }

    /// Returns the saved states with a recorded owner, for the report of the agent.
    pub(super) fn saved(&self) -> impl Iterator<Item = SavedState> {
        self.0.iter().filter_map(saved_state)
    }
}

fn saved_state((number, volume): (&usize, &Volume)) -> Option<SavedState> {
    let job = volume.owner.filter(|_| volume.writer.is_some())?;
    let owner = Owner { service: service_id(job), name: format!("job-{job}").into(), number: volume.number };
    Some(SavedState { volume: volume_name(*number).into(), owner })
}

pub(super) fn volume_of(name: &str) -> usize {
    name.trim_start_matches("saved-").parse().expect("a volume of this world")
}

pub(super) fn service_id(job: usize) -> ServiceId {
    ServiceId(format!("s{job}").into())
}
