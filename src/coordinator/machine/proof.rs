//! The proof that nothing of a fenced service lives any more: asked of every node where a task of it was ever placed since the last one.
//!
//! Swarm's list of tasks is no proof: it is empty while processes still run. A proof holds for one version of the service: whoever
//! changes it makes it void. Imports: state, job, model.

use super::event::{At, Effect};
use super::job::NOWHERE;
use super::record::JobPhase;
use super::state::{Machine, Proof, Seen, SeenNode};
use crate::model::Millis;
use crate::model::cluster::{Why, WhyKind};
use crate::model::swarm::{Attestation, NodeId, ServiceId};
use std::collections::{BTreeMap, BTreeSet};

impl Seen {
    /// The nodes that must say that nothing of it lives there.
    pub(super) fn suspects(&self, reporting: impl Iterator<Item = NodeId>) -> BTreeSet<NodeId> {
        let Ok(job) = &self.job else { return BTreeSet::new() };
        let record = &job.record;
        let mut nodes = record.placed.clone();
        // The other phases were written on a proof.
        nodes.extend(record.home.clone().filter(|_| record.phase == JobPhase::Stopping));
        let present = self.tasks.iter().filter(|task| !record.past.contains(&task.id));
        nodes.extend(present.filter_map(|task| task.node.clone()));
        nodes.extend(self.service.pin.clone().filter(|pin| record.home.is_some() && &*pin.0 != NOWHERE));
        nodes.extend(reporting);
        nodes
    }
}

impl Machine {
    /// Whether it is proven that nothing of a fenced service lives; asks whom it must.
    ///
    /// # Errors
    /// Why it is not proven yet.
    pub(super) fn prove(&mut self, id: &ServiceId, at: At) -> Result<(), Why> {
        let Some(seen) = self.seen.get(id) else { return Ok(()) };
        let suspects = seen.suspects(self.reporting(id));
        if suspects.is_empty() {
            return Ok(());
        }
        let version = seen.service.version;
        let mut proof = match &seen.memory.proof {
            Some(proof) if proof.version == version => proof.clone(),
            _ => Proof { version, since: at.now, nodes: BTreeMap::new() },
        };
        let settled = proof.since.after(self.settings.settle);
        let mut missing = None;
        for node in suspects {
            let asked = proof.nodes.entry(node.clone()).or_default();
            if asked.is_gone || self.lease_has_ended(id, &node, proof.since, at) {
                continue;
            }
            if at.now >= settled && at.now >= asked.next {
                asked.next = at.now.after(self.settings.request_within);
                self.effects.push(Effect::Attest { service: id.clone(), node: node.clone(), version });
            }
            missing.get_or_insert_with(|| self.why_unproven(&node, asked.said.as_deref()));
        }
        if let Some(seen) = self.seen.get_mut(id) {
            seen.memory.proof = Some(proof);
        }
        missing.map_or(Ok(()), Err)
    }

    pub(super) fn attested(&mut self, id: &ServiceId, node: &NodeId, version: u64, said: Attestation, at: At) {
        let again = at.now.after(self.settings.attest_every);
        let Some(proof) = self.seen.get_mut(id).and_then(|seen| seen.memory.proof.as_mut()) else { return };
        let Some(asked) = proof.nodes.get_mut(node).filter(|_| proof.version == version) else { return };
        asked.next = again;
        match said {
            Attestation::Gone => asked.is_gone = true,
            Attestation::Alive(count) => asked.said = Some(format!("{count} of its containers still live there")),
            Attestation::Unknown(why) => asked.said = Some(super::labels::bounded(&why, 160)),
        }
    }

    fn why_unproven(&self, node: &NodeId, said: Option<&str>) -> Why {
        let name = self.name_of(node);
        let next = match self.nodes.contains_key(node) {
            true => "",
            false => {
                "; it is no node of this Swarm any more: if it is switched off, run `flowctl cluster node-is-off JOB NODE`"
            }
        };
        let said = said.unwrap_or("waiting for its agent's answer");
        Why { kind: WhyKind::NoProof, text: format!("not proven gone from node {name}: {said}{next}") }
    }

    /// Whether its agent has certainly stopped it there: it promised to, and has been out of reach for longer than the lease.
    fn lease_has_ended(&self, id: &ServiceId, node: &NodeId, since: Millis, at: At) -> bool {
        let Some(seen) = self.seen.get(id) else { return false };
        let Ok(job) = &seen.job else { return false };
        let is_lost = self.nodes.get(node).is_none_or(|node| !node.node.is_up);
        let promised = job.wishes.restarts_on_loss && job.record.leased.as_ref() == Some(node);
        let grace = seen.service.stop_grace.unwrap_or_default().max(job.wishes.stop_grace);
        let whole = self.settings.lease.after(grace).after(self.settings.lease_margin);
        // Its state lies there alone: elsewhere it would begin anew.
        is_lost && promised && job.carries.is_none() && at.now.since(since) >= whole
    }

    /// Nodes whose agents tell of a worker of this service.
    fn reporting<'a>(&'a self, id: &'a ServiceId) -> impl Iterator<Item = NodeId> + 'a {
        let tells = |node: &&SeenNode| {
            node.report.as_ref().is_some_and(|(_, report)| report.workers.iter().any(|worker| worker.service == *id))
        };
        self.nodes.values().filter(tells).map(|node| node.node.id.clone())
    }
}
