//! What a contest means for one member: its limit, the reason for it, and the role of its memory.

use super::candidate::Candidate;
use super::{Contest, Entry, gpu, is_broken};
use crate::node::decision::Decision;
use crate::node::importance;
use crate::node::memory::MemoryRole;
use model::{ContainerObservation, Reason};

impl Contest<'_> {
    pub(super) fn decide(
        &self,
        member: usize,
        container: &ContainerObservation,
        entry: &Entry<'_>,
        decision: &mut Decision,
    ) {
        let candidate = self.candidates[member].as_ref();
        // A turn of a few seconds is too short to protect its memory.
        let is_favoured = candidate.is_some() && self.due[member] >= self.entitled[member];
        decision.role = if is_favoured { MemoryRole::Protect } else { MemoryRole::Leave };
        // The allocation multiplies by the importance again, so it is divided out here.
        decision.limit = self.given()[member] / self.domain.cores / importance(container);
        decision.reason = match (candidate, entry.on_gpu.as_ref()) {
            (_, Some(on_gpu)) => gpu::reason(on_gpu, &decision.gpus),
            (Some(candidate), None) => {
                self.turn(member, candidate).unwrap_or_else(|| self.reason_of_rank(candidate, entry))
            }
            (None, None) if is_broken(container) => Reason::Broken { condition: container.health.condition },
            (None, None) => Reason::Unranked,
        };
    }

    /// The reason for the member's cores, if they come in turns.
    fn turn(&self, member: usize, candidate: &Candidate) -> Option<Reason> {
        let of = self.candidates.iter().flatten().filter(|candidate| candidate.may_wait).count();
        (self.in_turns.is_some() && candidate.may_wait).then(|| Reason::Turn { is_on: self.is_favoured(member), of })
    }

    fn reason_of_rank(&self, candidate: &Candidate, entry: &Entry<'_>) -> Reason {
        let Candidate { milestone, place, .. } = candidate;
        match entry.standing.filter(|_| place.is_some()) {
            Some(trial) => trial.reason(),
            None => Reason::Ranked {
                milestone: milestone.name.into(),
                work: milestone.work,
                rank: 1 + self.order.partition_point(|index| *index > milestone.log_index),
                of: self.order.len(),
            },
        }
    }
}
