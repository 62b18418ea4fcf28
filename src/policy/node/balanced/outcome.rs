//! What a contest means for one member: its limit, the reason for it, and the role of its memory.

use super::candidate::Candidate;
use super::{Contest, Entry, gpu, is_broken};
use crate::node::decision::Decision;
use crate::node::importance;
use crate::node::memory::MemoryRole;
use model::{ContainerObservation, NodeObservation, Reason};

impl Contest<'_> {
    /// Decides for each member. `decisions` and `entries` are those of all containers.
    pub(super) fn decide(&self, node: &NodeObservation, entries: &[Entry<'_>], decisions: &mut [Decision]) {
        // Counted once: with a thousand members, each counting all would take a third of a tick.
        let takers = self.in_turns.as_ref().map(|_| self.candidates.iter().flatten().filter(|c| c.may_wait).count());
        for (member, &index) in self.domain.members.iter().enumerate() {
            self.decide_for(member, takers, &node.containers[index], &entries[index], &mut decisions[index]);
        }
    }

    /// `takers`: the number of members that take turns, if any do.
    fn decide_for(
        &self,
        member: usize,
        takers: Option<usize>,
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
                let turn = takers.filter(|_| candidate.may_wait);
                let turn = turn.map(|of| Reason::Turn { is_on: self.is_favoured(member), of });
                turn.unwrap_or_else(|| self.reason_of_rank(candidate, entry))
            }
            (None, None) if is_broken(container) => Reason::Broken { condition: container.health.condition },
            (None, None) => Reason::Unranked,
        };
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
