//! The proof that no container of a fenced service is alive: requested from all nodes where a task was placed since the last proof.
//!
//! Swarm's task list does not prove that no process lives. A proof is valid for one version of the service: any change invalidates it. A
//! task that Swarm sent before the fence (a restart of a failed one) may reach its node later. Therefore a transfer may begin on a *first*
//! proof, but a job starts or waits only on a *last* proof, requested once no task is in flight any more. That is the case when Swarm has
//! removed all tasks of a job that ran, which it does once their nodes have reported the exits, or when the time to settle has passed.

use super::event::{At, Effect, Question};
use super::job::NOWHERE;
use super::record::{Goal, JobPhase};
use super::state::{Machine, Proof, Seen, SeenNode};
use model::Millis;
use model::cluster::{Why, WhyKind};
use model::swarm::{Attestation, NodeId, ServiceId};
use std::collections::{BTreeMap, BTreeSet};

/// Interval between looks while a proof waits for Swarm to remove the tasks.
const LOOK_AGAIN: Millis = Millis(100);

/// Kind of proof that an action needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// For a transfer: no container lives.
    First,
    /// For all else: no container lives, and none can arrive any more. Requested no earlier than the completion of the transfer, if any.
    Last(Option<Millis>),
}

impl Seen {
    /// Returns the nodes that must attest that no container of the service lives there.
    pub(super) fn suspects(&self, reporting: impl Iterator<Item = NodeId>) -> BTreeSet<NodeId> {
        let Ok(job) = &self.job else { return BTreeSet::new() };
        let record = &job.record;
        let mut nodes = record.placed.clone();
        // The other phases were written on a last proof, and so are transfers of waiting jobs.
        let is_open = match record.phase {
            JobPhase::Stopping => true,
            JobPhase::Carrying => record.goal.is_some(),
            _ => false,
        };
        nodes.extend(record.home.clone().filter(|_| is_open));
        let present = self.tasks.iter().filter(|task| !record.past.contains(&task.id));
        nodes.extend(present.filter_map(|task| task.node.clone()));
        nodes.extend(self.service.pin.clone().filter(|pin| record.home.is_some() && &*pin.0 != NOWHERE));
        nodes.extend(reporting);
        nodes
    }
}

impl Machine {
    /// Succeeds if it is proven that no container of a fenced service lives; else asks the nodes that have not attested yet.
    ///
    /// # Errors
    /// The reason why it is not proven yet.
    pub(super) fn prove(&mut self, id: &ServiceId, needs: Needs, at: At) -> Result<(), Why> {
        let Some(seen) = self.seen.get(id) else { return Ok(()) };
        let suspects = seen.suspects(self.reporting(id));
        if suspects.is_empty() {
            return Ok(());
        }
        let version = seen.service.version;
        let mut proof = match &seen.memory.proof {
            Some(proof) if proof.version == version => proof.clone(),
            _ => Proof { version, since: at.now, tasks_removed: None, nodes: BTreeMap::new() },
        };
        let record = seen.job.as_ref().ok().map(|job| &job.record);
        // It ran when it was fenced, so it had a task, and its pin was not changed since.
        let ran_here = suspects.len() == 1 && record.is_some_and(|record| record.goal == Some(Goal::Move));
        if ran_here && seen.tasks.is_empty() {
            proof.tasks_removed.get_or_insert(at.now);
        }
        let settled = proof.since.after(self.settings.settle);
        let settled = proof.tasks_removed.map_or(settled, |tasks_removed| tasks_removed.min(settled));
        let from = match needs {
            Needs::First => proof.since,
            Needs::Last(came) => settled.max(came.unwrap_or_default()),
        };
        if ran_here && at.now < from {
            let again = self.swarm.as_ref().map_or(at.now, |swarm| swarm.at.after(LOOK_AGAIN));
            self.looks.due = self.looks.due.min(again);
        }
        let source =
            record.filter(|_| matches!(needs, Needs::Last(Some(_)))).map(|record| (record.home.clone(), record.number));
        let mut missing = None;
        for node in suspects {
            let asked = proof.nodes.entry(node.clone()).or_default();
            let carried = source.as_ref().filter(|(home, _)| home.as_ref() == Some(&node)).map(|(_, number)| *number);
            let answered = if carried.is_some() { asked.compared } else { asked.gone };
            if answered.is_some_and(|asked| asked >= from) || self.lease_has_ended(id, &node, proof.since, at) {
                continue;
            }
            if at.now >= from && at.now >= asked.next {
                asked.next = at.now.after(self.settings.request_within);
                let (service, node) = (id.clone(), node.clone());
                self.effects.push(Effect::Attest(Question { service, node, version, asked: at.now, carried }));
            }
            missing.get_or_insert_with(|| self.why_unproven(&node, asked.detail.as_deref()));
        }
        if let Some(seen) = self.seen.get_mut(id) {
            seen.memory.proof = Some(proof);
        }
        missing.map_or(Ok(()), Err)
    }

    pub(super) fn attested(&mut self, question: &Question, attestation: Attestation, at: At) {
        let again = at.now.after(self.settings.attest_every);
        let Some(proof) = self.seen.get_mut(&question.service).and_then(|seen| seen.memory.proof.as_mut()) else {
            return;
        };
        let is_same = proof.version == question.version;
        let Some(asked) = proof.nodes.get_mut(&question.node).filter(|_| is_same) else { return };
        asked.next = again;
        asked.is_stale |= matches!(attestation, Attestation::Alive(_) | Attestation::Changed);
        match attestation {
            Attestation::Gone | Attestation::Changed => {
                let when = Some(question.asked);
                (asked.gone, asked.next) = (asked.gone.max(when), at.now);
                if question.carried.is_some() {
                    asked.compared = asked.compared.max(when);
                }
            }
            Attestation::Alive(count) => asked.detail = Some(format!("{count} of its containers are still alive")),
            Attestation::Unknown(why) => asked.detail = Some(super::labels::bounded(&why, 160)),
        }
    }

    fn why_unproven(&self, node: &NodeId, detail: Option<&str>) -> Why {
        let name = self.name_of(node);
        let next = match self.nodes.contains_key(node) {
            true => "",
            false => "; it has left this Swarm: if it is switched off, run `flowctl cluster node-is-off JOB NODE`",
        };
        let detail = detail.unwrap_or("waiting for the reply of its agent");
        Why { kind: WhyKind::NoProof, text: format!("not proven gone from node {name}: {detail}{next}") }
    }

    /// Whether the agent has certainly stopped the service there: it holds a lease, and the node has been lost for longer than that.
    fn lease_has_ended(&self, id: &ServiceId, node: &NodeId, since: Millis, at: At) -> bool {
        let Some(seen) = self.seen.get(id) else { return false };
        let Ok(job) = &seen.job else { return false };
        let is_lost = self.nodes.get(node).is_none_or(|node| !node.node.is_up);
        let is_released = self.nodes.get(node).is_some_and(|node| node.leases.released.contains(id));
        let promised = job.is_leasable() && job.record.leased.as_ref() == Some(node) && !is_released;
        let whole = self.settings.lease.after(seen.lease_grace()).after(self.settings.lease_margin);
        is_lost && promised && at.now.since(since) >= whole
    }

    /// Returns the nodes whose agents report a worker of this service.
    fn reporting<'a>(&'a self, id: &'a ServiceId) -> impl Iterator<Item = NodeId> + 'a {
        let reports = |node: &&SeenNode| {
            node.report.as_ref().is_some_and(|(_, report)| report.workers.iter().any(|worker| worker.service == *id))
        };
        self.nodes.values().filter(reports).map(|node| node.node.id.clone())
    }
}
